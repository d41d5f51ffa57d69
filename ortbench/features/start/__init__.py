"""`ortbench start`: the start-up of fresh processes, from their beginning to the first inference."""

from ortbench.core.features import MEASURE, Command, Feature

FEATURE = Feature(
    needs=("code",),
    uses=("page",),
    api=("start",),
    commands={
        "start": Command(
            group=MEASURE,
            order=50,
            sentence="Measure the start-up of fresh processes to the first inference.",
            page="start.md",
            plan="start_of",
            note="Each start is a program that imports onnxruntime, creates the session and runs the model.",
            returns="what was measured, with all samples; where no process could be measured it says why, and raises nothing.",
            option_groups=("sessions", "inputs", "side by side", "often", "measures", "reported"),
            options={
                "duration": {"help": "Start each configuration again for at most TIME.", "default": 10.0},
                "iterations": {
                    "help": "Start each configuration N times instead of --duration.",
                    "common": ("start",),
                },
                "precision": {},
            },
        )
    },
    options={"Starts": ("start",), "IN_SUITES": ()},
    plans={"start": "start_of"},
    requests={"compile_ahead": "worker"},
)
