from ortbench.core.features import MEASURE, Command, Feature

FEATURE = Feature(
    uses=("gate", "page"),
    api=("load",),
    requests=dict.fromkeys(("load_clients", "load_closed", "load_open"), "worker.requests"),
    commands={
        "load": Command(MEASURE, 10, "Measure a model under load: clients, or requests at a rate.", "load.md"),
    },
    options={"UNDER_LOAD": ("gate",), "LoadPlan": ("load", "gate")},
)
