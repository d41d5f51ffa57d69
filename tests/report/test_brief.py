"""Default screens: every report in brief is at most 24 lines of 80 characters, with the command that was typed above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.core.errors import BadInput
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.bandwidth import report as bandwidth
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import Verdict
from ortbench.features.gate.plan import Limits
from ortbench.features.gate.report import gate_screen
from ortbench.model.result_file import load
from ortbench.report import comparison
from ortbench.report.brief import brief
from ortbench.report.model import ComparedResults, Report
from tests.conftest import ROOT, ortbench
from tests.report.test_terminal import SCREENS, shown
from tests.results import published

STORED = sorted((ROOT / "reports").rglob("result.json"))
CURVES = sorted((ROOT / "reports").rglob("bandwidth.json"))


def lines_of(report: Report) -> list[str]:
    lines = shown(lambda: report, width=80)
    assert len(lines) <= 24, "\n".join(lines)
    assert max(map(len, lines)) <= 80
    return lines


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_comparisons_and_gates_of_stored_results(path: Path) -> None:
    result = load(path)
    for names in (("before", "after"), ("one", "two", "three")):
        report = comparison.build([result] * len(names), names, 0.02, False)
        lines = lines_of(brief(report))
        has_table = any(
            isinstance(it, ComparedResults) and it.table and it.table.rows for part in report.parts for it in part
        )
        assert any(line.startswith("mode ") for line in lines) is has_table
    try:
        checks = check_stored(result, result, Limits(max_regression=0.05))
    except BadInput:  # of some kinds no metric is gated by itself
        return
    lines = lines_of(gate_screen(Verdict([result] * 2, checks)))
    assert any(line.startswith("gate: ") for line in lines)


@pytest.mark.parametrize("path", CURVES, ids=lambda path: path.parent.name)
def test_bandwidth_curves(path: Path) -> None:
    assert "H2D GB/s" in "\n".join(lines_of(brief(bandwidth.build(load(path, kind="bandwidth"), "reports/some"))))


MODEST = ("run", "compare", "trend", "gate alone", "profile")


# Extreme names, of models with paths of several lines, take more than a screen by themselves.
@pytest.mark.parametrize(
    "name", [name for name, (_, it) in SCREENS.items() if isinstance(it, Report) and name in MODEST]
)
def test_reports_of_every_kind(name: str) -> None:
    lines_of(brief(SCREENS[name][1]))


LISTS = [
    ("devices",),
    ("doctor", "--no-noise"),
    *(("inspect", path) for path in sorted((ROOT / "models").glob("*.onnx"))),
]


@pytest.mark.process
@pytest.mark.parametrize("line", LISTS, ids=lambda line: str(line[-1]).rpartition("/")[2])
def test_lists_on_this_machine(line: tuple[object, ...]) -> None:
    ran = ortbench(*line, COLUMNS="80", ORTBENCH_TESTS_SCREEN="1")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_what_failed_comes_first() -> None:
    checks = [Check(verdict, verdict, "of something") for verdict in (PASSED, UNCLEAR, FAILED)]
    lines = lines_of(gate_screen(Verdict([published()] * 2, checks)))
    assert [line[0] for line in lines if line[:2] in ("✗ ", "? ", "✓ ")] == ["✗", "?", "✓"]
    assert lines[-1].startswith("gate: ")
