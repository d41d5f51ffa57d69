"""`ortbench loop`: a decoder that generates, or a model whose outputs are inputs of its next step."""

from ortbench.core.features import MEASURE, Command, Feature

_GROUPS = ("sessions", "inputs", "modes", "loops", "often", "side by side", "measures", "reported", "traced")
_COSTS = ("measure-spin", "measure-memory", "measure-energy", "lock-clocks")
_MODES = ("cpu-tensors", "device-resident", "host-accessible", "shared")
FEATURE = Feature(
    uses=("memory", "page"),
    api=("loop",),
    options={"Steps": ("loops", "code")},
    planner_of="plan",
    requests={"open_loop": "worker"},
    commands={
        "loop": Command(
            group=MEASURE,
            order=20,
            sentence="Measure a decoder that generates, or a model in a loop.",
            page="loops.md",
            plan="loop_of",
            takes_folder=True,
            note="A decoder generates tokens; with --feedback, outputs are inputs of the next step, as a recurrent state is.",
            returns="what was measured, all modes with all samples; a mode that could not be measured says why, and raises nothing.",
            option_groups=_GROUPS,
            options={
                **{it: {} for it in (*_COSTS, "strict-outputs", "precision", "processes")},
                "mode": {
                    "help": f"Measure these I/O modes: {', '.join(_MODES)}, all or default.",
                    "shown": "all but shared",
                    "choices": [*_MODES],
                },
                "iterations": {"help": "Measure N loops of each mode instead of --duration."},
            },
            from_inputs=True,
        )
    },
)
