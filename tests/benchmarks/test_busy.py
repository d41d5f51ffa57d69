"""On a busy machine busy is said first and nothing is concluded that a quiet one does not say; on a quiet one nobody speaks of a busy one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.busy import KINDS, Runs, counted

pytestmark = [pytest.mark.process, pytest.mark.wide]
COUNT = 4


@pytest.mark.parametrize("kind", KINDS)
def test_facts_of_busy_and_quiet_machines(kind: str, tmp_path: Path) -> None:
    quiet, busy = counted(Runs(tmp_path), kind, range(COUNT))
    assert quiet[:3] == (COUNT, 0, 0)
    assert busy[:3] == (COUNT, COUNT, COUNT)
    assert (quiet.wrong, busy.wrong) == ([], [])
    assert quiet.conclusions >= busy.conclusions
