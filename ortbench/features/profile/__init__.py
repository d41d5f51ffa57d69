"""`ortbench profile`: a short session for a timeline, recorded by Nsight Systems where it is installed."""

from ortbench.core.features import INSPECT, Command, Feature

FEATURE = Feature(
    uses=("chain",),
    unread={"profile": "a profiled session: its times are for a timeline, not for comparisons"},
    commands={
        "profile": Command(
            group=INSPECT,
            order=40,
            sentence="Record a short session for a timeline, with Nsight Systems.",
            page="timelines.md",
            option_groups=("single", "loops", "measures", "often"),
            options={
                "iterations": {
                    "help": "Run N inferences of each phase.",
                    "shown": "a second's worth, 3 to 20",
                    "common": ("profile",),
                }
            },
        )
    },
)
