"""The option that asks what makes the difference of two results."""

from __future__ import annotations

from ortbench.plan.option_types import SWITCH
from ortbench.plan.options import COMPARED, LIMIT, new_option

WHY = new_option(
    "why",
    "",
    "Explain the difference by the nodes that changed.",
    LIMIT,
    SWITCH,
    commands=("gate", "compare"),
    common=("gate", "compare"),
    by_command={"compare": {"panel": COMPARED}},
)
