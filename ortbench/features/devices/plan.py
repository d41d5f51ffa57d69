from __future__ import annotations

from dataclasses import dataclass

from ortbench.core.errors import BadInput
from ortbench.plan.option_types import PATH
from ortbench.plan.options import RUNS, RawOptions, build, check_values, is_file, option
from ortbench.plan.plan_builder import target_of
from ortbench.plan.target import Target


@dataclass(frozen=True)
class Checked:
    library: str | None = option(
        "check", "LIBRARY", "Check whether a plugin EP's library keeps the EP contract.", RUNS,
        kind=PATH, check=is_file, commands=("devices",), is_in_suites=False,
    )  # fmt: skip


def listing_of(given: RawOptions) -> tuple[Target, str | None]:
    """Where EPs are listed, and the library that is to be checked; `BadInput`: options that cannot be."""
    target, checked = target_of(given), build(Checked, given)
    check_values(target)
    check_values(checked)
    if target.options and checked.library is None:
        raise BadInput("--ep-option: sessions are opened by --check alone", "--ep-option")
    return target, checked.library
