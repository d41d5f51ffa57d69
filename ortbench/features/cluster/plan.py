from ortbench.plan.options import OTHERS, new_option

OPTIONS = (
    new_option(
        "ray",
        "ADDRESS",
        "Spread the cases over a Ray cluster: auto, or its address.",
        OTHERS,
        commands=("suite",),
        is_in_suites=False,
    ),
)
