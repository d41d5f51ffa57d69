"""CPU time as each system has it."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ortbench.worker.timing import cpu_ns


def test_cpu_time_is_read_as_the_system_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    spent: Any = SimpleNamespace(ru_utime=1.25, ru_stime=0.5)
    monkeypatch.setattr(resource, "getrusage", lambda who: spent if who == resource.RUSAGE_SELF else None)
    assert cpu_ns() == (1_250_000_000, 500_000_000)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "times", lambda: SimpleNamespace(user=2.0, system=0.25))
    assert cpu_ns() == (2_000_000_000, 250_000_000)
