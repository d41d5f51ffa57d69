"""`ortbench sweep`: a model over shapes in one session: which has the most items/s, and what it costs that shapes change."""

from ortbench.core.features import MEASURE, Command, Feature

_GROUPS = ("sessions", "modes", "shaped", "often", "measures", "reported", "traced")
_COSTS = ("measure-spin", "measure-memory", "measure-energy", "lock-clocks")
_INPUTS = ("dynamic-outputs", "input-memory", "cuda-graph", "sequence-tensors", "strict-outputs")
_OPTIONS = ("precision", "processes", "depth", *_COSTS, *_INPUTS)
FEATURE = Feature(
    uses=("gate", "page"),
    api=("sweep",),
    requests=dict.fromkeys(("open_sweep", "open_point", "time_turns"), "worker"),
    commands={
        "sweep": Command(
            group=MEASURE,
            order=40,
            sentence="Measure a model over shapes: which has the most items/s.",
            page="sweeps.md",
            option_groups=_GROUPS,
            options={
                **{it: {} for it in _OPTIONS},
                "duration": {"help": "Measure each shape and mode for at most TIME.", "default": 2.0},
                "iterations": {"help": "Measure N inferences of each instead of --duration.", "common": ("sweep",)},
                "items": {"common": ("sweep",)},
            },
        )
    },
    options={"SweepOptions": ("sweep",), "IN_SUITES": ()},
)
