"""`ortbench soak`: a model for a long time, and whether its memory grows."""

from ortbench.core.features import MEASURE, Command, Feature

FEATURE = Feature(
    uses=("gate", "page"),
    api=("soak",),
    commands={
        "soak": Command(
            group=MEASURE,
            order=60,
            sentence="Measure a model for a long time: whether memory grows.",
            page="soak.md",
            plan="soak_of",
            plans_of="plans_to_try",
            note="Several shapes (--dim NAME=16,64,512) are one stream of inferences. Ctrl-C ends it and keeps everything.",
            returns="what was measured, with the readings of memory; a mode that could not be measured says why, and raises nothing.",
            option_groups=("sessions", "inputs", "modes", "in one mode", "shaped", "often", "measures", "reported"),
            options={
                "duration": {"help": "Run inferences for TIME.", "default": 60.0},
                "iterations": {"help": "Run N inferences instead of --duration.", "common": ("soak",)},
                "warmup": {"help": "Run N inferences before the first reading.", "shown": "1"},
                "seed": {"help": "Seed synthetic inputs and the order of shapes."},
                "shape-order": {"common": ("soak",)},
                "lock-clocks": {},
            },
        )
    },
    options={"Soak": ("soak", "gate"), "IN_SUITES": (), "LIMITS": ("gate",)},
    plans={"soak": "soak_of"},
)
