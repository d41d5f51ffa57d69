from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import command_line
from ortbench.core.errors import INTERRUPTED, REGRESSION
from ortbench.features.gate.plan import FOR_BISECT
from ortbench.plan.options import RawOptions, build
from ortbench.plan.plan import OutputOptions


def gate(
    given: RawOptions,
    result: Annotated[
        Path | None,
        typer.Argument(metavar="RESULT.json", help="A result file, or its folder; without one the gate is live."),
    ] = None,
) -> None:
    """A live gate (--model) measures candidate and baseline in turns until the verdict is clear.
    Exit codes: 0 passed, 3 regression, 4 cannot tell, 5 not comparable.
    """
    from ortbench.features.gate import job

    asked, wanted = job.asked_gate(given, result is not None, command_line()), build(OutputOptions, given)
    if result is not None:
        raise SystemExit(job.check_stored_result(result, asked, wanted))
    raise SystemExit(job.measure_until_decided(asked, wanted))


BAD, UNTESTABLE = 1, 125  # of ``git bisect run``


def bisect_code(typed: Sequence[str], code: int) -> int:
    """The code as ``git bisect run`` takes it, where that is asked for: what ended before a verdict says nothing of a commit, and a signal
    ends the search."""
    if FOR_BISECT.name not in typed or not 0 < code < INTERRUPTED - 1:
        return code
    return BAD if code == REGRESSION else UNTESTABLE
