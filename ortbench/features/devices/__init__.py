"""`ortbench devices`: execution providers and their devices, and whether a library keeps the contract of EPs."""

from ortbench.core.features import INSPECT, Command, Feature

FEATURE = Feature(
    api=("devices",),
    commands={
        "devices": Command(
            group=INSPECT,
            order=10,
            sentence="List execution providers, their devices, memory and modes.",
            page="choose-ep.md",
            options={"ep-library": {}, "ep-option": {}, "python": {}, "json": {}, "verbose": {}},
        )
    },
    requests=dict.fromkeys(("devices", "check_device", "check_runs", "check_shapes"), "worker"),
    stateless_requests=("devices",),
    options={"Checked": ("devices",)},
)
