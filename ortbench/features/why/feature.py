from ortbench.core.features import Feature

FEATURE = Feature(
    requests={"revert": "worker"},
    options={"WHY": ("gate", "compare")},
    explain_difference="report",
)
