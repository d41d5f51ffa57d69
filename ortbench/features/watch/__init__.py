"""`ortbench watch`: what ONNX Runtime costs inside a program that nobody changed."""

from ortbench.core.features import INSPECT, Command, Feature

FEATURE = Feature(
    api=("watch",),
    uses=("trace",),
    requests={"watch_replay": "worker"},
    unread={"watch": "a recorded program: table.md beside it is its report"},
    commands={
        "watch": Command(
            group=INSPECT,
            order=50,
            sentence="Run a program and say what ONNX Runtime costs in it.",
            page="watch.md",
            option_groups=("measures", "traced"),
            options={
                "ep-library": {},
                "wait-quiet": {"help": "Wait up to TIME (60s) for quiet before the replay.", "common": ("watch",)},
                "duration": {"help": "End the program after TIME.", "shown": "until it ends", "common": ("watch",)},
            },
        )
    },
)
