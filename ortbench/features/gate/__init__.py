"""`ortbench gate`: what a result must keep to, and whether it does."""

from ortbench.core.features import COMPARE, Command, Feature

FEATURE = Feature(
    uses=("why",),
    api=("gate", "Verdict"),
    commands={
        "gate": Command(
            group=COMPARE,
            order=10,
            sentence="Check a model or a stored result in CI: pass or fail.",
            page="gates.md",
            exit_code="bisect_code",
            option_groups=("single", "loops", "measures", "reported"),
            options={
                **{it: {"common": ("gate",)} for it in ("ep", "dim", "mode", "wait-quiet", "json")},
                "lock-clocks": {},
                "items": {},
            },
        )
    },
    options=dict.fromkeys(
        ("CANDIDATE", "SLO", "DURATION", "Limits", "STORED_BASELINE", "TYPED_BASELINE", "FOR_BISECT"), ("gate",)
    ),
)
