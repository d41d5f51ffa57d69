"""The tables in a folder of results: ``table.md``, ``table.csv``, and a sweep's plot."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ortbench.analysis.sweep import Sweep
from ortbench.files import write_atomically
from ortbench.report import run
from ortbench.report import sweep as report_sweep
from ortbench.report.markdown import markdown
from ortbench.result import Result


def write_run(result: Result, path: Path) -> None:
    """Write the tables of a finished result into its folder."""
    write_atomically(path / "table.md", markdown(run.build(result)))
    write_atomically(path / "table.csv", run.csv(result))


def write_sweep(sweep: Sweep, path: Path) -> None:
    """Write the tables of a finished sweep into its folder, and the plot where Matplotlib was not left out."""
    write_atomically(path / "table.md", markdown(report_sweep.build(sweep)))
    write_atomically(path / "table.csv", report_sweep.csv(sweep))
    if sweep.measured() and find_spec("matplotlib") is not None:
        from ortbench.report.page.charts.sweep import sweep_svg  # it takes longer to import than all else

        write_atomically(path / "bandwidth.svg", sweep_svg(sweep))
