"""`--why` of `ortbench compare` and `gate`: which nodes make the difference of two results."""

from ortbench.core.features import Feature

FEATURE = Feature(
    requests={"revert": "worker"},
    options={"WHY": ("gate", "compare")},
    explain_difference="report",
)
