"""`ortbench inspect`: what a model takes, gives and consists of."""

from ortbench.core.features import INSPECT, Command, Feature

FEATURE = Feature(
    api=("inspect",),
    commands={
        "inspect": Command(
            group=INSPECT,
            order=20,
            sentence="Show what a model takes, gives and consists of.",
            page="inputs.md",
            option_groups=("placed",),
            from_inputs=True,
            options={
                "ep": {"default": None, "help": "Also show on which EP each node would run."},
                "sequence-tensors": {},
                "json": {},
                "verbose": {},
            },
        )
    },
    requests={"inspect": "worker"},
    stateless_requests=("inspect",),
)
