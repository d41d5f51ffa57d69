"""`ortbench load`: a model at load points, by clients or by requests at a rate."""

from ortbench.core.features import MEASURE, Command, Feature

_GROUPS = ("loaded", "inputs", "shaped in Python", "often", "side by side", "measures", "reported", "traced")
_ALIKE = ("sequence-tensors", "strict-outputs", "processes", "lock-clocks")
FEATURE = Feature(
    uses=("gate", "page"),
    api=("load",),
    requests=dict.fromkeys(("load_clients", "load_closed", "load_open"), "worker"),
    commands={
        "load": Command(
            group=MEASURE,
            order=10,
            sentence="Measure a model under load: clients, or requests at a rate.",
            page="load.md",
            plan="load_of",
            takes_folder=True,
            from_inputs=True,
            note="For each load point throughput, latency and queue delay, and the SLO met or violated.",
            returns="what was measured, with a case for each load point; one that failed says why, and raises nothing.",
            option_groups=_GROUPS,
            options={flag: {} for flag in _ALIKE},
        )
    },
    options={"UNDER_LOAD": ("gate",), "LoadPlan": ("load", "gate")},
)
