from ortbench.plan.options import OTHERS, Option

OPTIONS = (
    Option(
        "ray",
        "ADDRESS",
        "Spread the cases over a Ray cluster: auto, or its address.",
        OTHERS,
        commands=("suite",),
        suite=False,
    ),
)
