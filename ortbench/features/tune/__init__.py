"""`ortbench tune`: a search for the session settings that are best for a model."""

from ortbench.core.features import MEASURE, Command, Feature

FEATURE = Feature(
    needs=("load",),
    requests={"known_entries": "worker"},
    stateless_requests=("known_entries",),
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
                    "shown": "5s, or what 5 processes or 300 requests take", "common": ("tune",),
                },
                "rate": {"metavar": "R", "help": "Search at R requests per second, with workers and sessions.", "common": ("tune",)},
                "concurrency": {
                    "metavar": "N", "help": "Search with N clients, each running one inference after another.", "shown": None, "common": ("tune",),
                },
                "slo": {"common": ("tune",)},
                "arrivals": {},
                "workers": {"default": None},
                "sessions": {"default": None},
            },
        )
    },
    options={"TuneOptions": ("tune",), "LoadPlan": ("tune",)},
)  # fmt: skip
