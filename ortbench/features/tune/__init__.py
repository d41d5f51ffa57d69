"""`ortbench tune`: a search for the session settings that are best for a model."""

from ortbench.core.features import MEASURE, Command, Feature

FEATURE = Feature(
    commands={
        "tune": Command(
            group=MEASURE,
            order=70,
            sentence="Search the session settings that are best for a model.",
            page="tune.md",
            option_groups=("single", "in one mode", "searches", "often", "measures"),
            options={
                "duration": {
                    "help": "Measure each of the best configurations for at most TIME.",
                    "shown": "5s, or what 5 processes take",
                }
            },
        )
    },
    options={"TuneOptions": ("tune",)},
)
