from __future__ import annotations

from dataclasses import dataclass

from ortbench.core.errors import BadInput
from ortbench.plan.option_types import TIME
from ortbench.plan.options import OTHERS, option

LEAST_S = 30.0


def check_budget(value: float, name: str) -> None:
    if not LEAST_S <= value <= 86_400:
        raise BadInput(f"{name} {value:g}s: takes {LEAST_S:g} s at least and a day at most", name)


@dataclass(frozen=True)
class Certifying:
    # s; None: no certificate is made
    certify: float | None = option(
        "certify", "[TIME]", "Measure for TIME (3m) how small a difference this machine tells, and keep that.", OTHERS, kind=TIME, alone="3m",
        check=check_budget, commands=("doctor",), common=("doctor",), is_in_suites=False, is_in_python=False,
    )  # fmt: skip
