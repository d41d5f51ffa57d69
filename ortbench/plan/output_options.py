"""What is to be written and shown, by every command that does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ortbench.plan.option_types import FLAG, PATH, PLACE, TEXT
from ortbench.plan.options import MEASURED, OFTEN, RUNS, WRITTEN, is_file, option

REPORTS = Path("reports")

_MEASURES = ("run", "loop", "chain", "load", "sweep", "soak", "gate", "bandwidth", "tune", "measures")
_REPORTED = (
    "run",
    "loop",
    "chain",
    "load",
    "sweep",
    "soak",
    "gate",
    "suite",
    "suite merge",
    "reported",
)  # those with reports for CI
_written = partial(option, panel=WRITTEN, kind=TEXT, suite=False)


@dataclass(frozen=True)
class OutputOptions:
    """What is to be written and shown; a path of ``-`` is standard output, None is not wanted."""

    out: Path = _written(
        "out", "DIR", "Write the result's folder in DIR.", kind=PLACE, default=REPORTS, commands=_MEASURES,
        only_live=True, common=OFTEN,
    )  # fmt: skip
    bandwidth: Path | None = option(
        "bandwidth", "PATH", "Compare the copies with this result of 'ortbench bandwidth'.", MEASURED, kind=PLACE,
        commands=("run",), suite=False, shown="the newest in --out that fits",
    )  # fmt: skip
    check: str | None = option(
        "check", "LIBRARY", "Check whether a plugin EP's library keeps the EP contract.", RUNS,
        kind=PATH, check=is_file, commands=("devices",), suite=False,
    )  # fmt: skip
    json: str | None = _written(
        "json", "PATH", "Write the result as JSON; '-' is standard output.",
        commands=(*_MEASURES, "suite", "suite merge", "compare", "devices", "inspect"), common=(*OFTEN, "gate"),
    )  # fmt: skip
    junit: str | None = _written(
        "junit", "PATH", "Write JUnit XML, for CI systems.", commands=_REPORTED, common=("gate", "chain")
    )
    action_json: str | None = _written(
        "action-json", "PATH", "Write JSON for github-action-benchmark (customSmallerIsBetter).",
        commands=_REPORTED,
        per={"gate": {"help": "Write the candidate's JSON for github-action-benchmark."}},
    )  # fmt: skip
    bmf: str | None = _written(
        "bmf", "PATH", "Write Bencher's metric format.",
        commands=_REPORTED,
        per={"gate": {"help": "Write the candidate's metrics in Bencher's format."}},
    )  # fmt: skip
    trace: str | None = _written(
        "trace",
        "PATH",
        "Write a timeline for Perfetto and chrome://tracing (or .gz).",
        commands=("run", "loop", "chain", "load", "sweep"),
    )
    html: str | None = _written(
        "html", "PATH", "Write the report as HTML; '-' is standard output.",
        commands=(*_REPORTED, "compare", "report", "tune"), common=OFTEN,
        per={"report": {
            "help": "Write the page here; '-' is standard output.",
            "shown": "report.html, beside the result or in the folder, or for several in the working directory",
        }},
    )  # fmt: skip
    markdown: str | None = _written(
        "markdown", "PATH", "Write the report as Markdown; '-' is standard output.", commands=("compare",)
    )
    quiet: bool = _written(
        "quiet", "", "Print only errors; files are still written.", kind=FLAG, default=False, short="q",
        commands=(*_MEASURES, "suite", "suite merge"),
    )  # fmt: skip
    verbose: bool = _written(
        "verbose", "", "Print the whole report, not one screen.", kind=FLAG, default=False, short="v",
        commands=(*_MEASURES, "suite", "suite merge", "compare", "devices", "inspect"), common=OFTEN,
    )  # fmt: skip
