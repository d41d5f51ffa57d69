"""The tables in a folder of results: ``table.md``, ``table.csv``, a loop's ``steps.csv``, and the plot of a bandwidth curve."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ortbench.analysis.bandwidth import measured
from ortbench.core.files import write_or_note
from ortbench.model.result import LOOP, Result
from ortbench.report import bandwidth as report_bandwidth
from ortbench.report import run
from ortbench.report.loops import steps_csv
from ortbench.report.markdown import markdown
from ortbench.report.records import records_csv

_MORE = {LOOP: {"steps.csv": steps_csv}}  # by kind, further files


def write_run(result: Result, path: Path) -> None:
    """Write the tables of a finished result into its folder, or note that they could not be written."""
    write_or_note(path / "table.md", markdown(run.build(result)))
    write_or_note(path / "table.csv", records_csv(result))
    for name, made in _MORE.get(result.kind, {}).items():
        write_or_note(path / name, made(result))


def write_bandwidth(result: Result, path: Path) -> None:
    """Write the tables of a finished bandwidth curve into its folder, and the plot where Matplotlib was not left out.

    What could not be written is noted.
    """
    write_or_note(path / "table.md", markdown(report_bandwidth.build(result)))
    write_or_note(path / "table.csv", records_csv(result))
    if measured(result) and find_spec("matplotlib") is not None:
        from ortbench.report.page.chart_data.copies import bandwidth_curve
        from ortbench.report.page.chart_svg.draw import svg_file  # it takes longer to import than all else

        write_or_note(path / "bandwidth.svg", svg_file(bandwidth_curve(result)))
