"""What is to be written and shown, by every command that does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ortbench.core import features
from ortbench.plan.option_types import FLAG, PLACE, TEXT
from ortbench.plan.options import OFTEN, PYTHON, WRITTEN, new_option, option

REPORTS = Path("reports")

_MEASURES = ("run", "measures")
_OUT_IN_PYTHON = "The folder in which a folder of its own is made for what is measured; by default nothing is written."
_written = partial(option, panel=WRITTEN, kind=TEXT, is_in_suites=False, is_in_python=False)
_FILES = tuple(
    new_option(
        flag,
        "PATH",
        it.help,
        WRITTEN,
        commands=it.commands,
        common=it.common,
        by_command=it.by_command,
        is_in_suites=False,
        is_in_python=False,
    )
    for flag, it in features.writers().items()
)


@dataclass(frozen=True)
class OutputOptions:
    """What is to be written and shown; a path of ``-`` is standard output, None is not wanted."""

    out: Path = _written(
        "out", "DIR", "Write the result's folder in DIR.", kind=PLACE, default=REPORTS, commands=_MEASURES,
        is_in_python=True, is_live_only=True, common=OFTEN, by_command={PYTHON: {"help": _OUT_IN_PYTHON, "default": None}},
    )  # fmt: skip
    json: str | None = _written(
        "json", "PATH", "Write the result as JSON; '-' is standard output.",
        commands=(*_MEASURES, "compare"), common=OFTEN,
    )  # fmt: skip
    files: Mapping[str, str] = field(default_factory=dict, metadata={"options": _FILES})  # by the options of features
    markdown: str | None = _written(
        "markdown", "PATH", "Write the report as Markdown; '-' is standard output.", commands=("compare",)
    )
    quiet: bool = _written(
        "quiet", "", "Print only errors; files are still written.", kind=FLAG, default=False, short="q",
        commands=_MEASURES,
    )  # fmt: skip
    verbose: bool = _written(
        "verbose", "", "Print the whole report, not one screen.", kind=FLAG, default=False, short="v",
        commands=(*_MEASURES, "compare"), common=OFTEN,
    )  # fmt: skip

    @property
    def paths(self) -> dict[str, str]:
        """All files that are written, by their options."""
        own = {"json": self.json, "markdown": self.markdown}
        return {flag: path for flag, path in own.items() if path is not None} | dict(self.files)

    @property
    def on_stdout(self) -> list[str]:
        """The options whose files are standard output, where nothing else may go."""
        return [flag for flag, path in self.paths.items() if path == "-"]

    @property
    def of_timelines(self) -> bool:
        """Whether timelines have to be recorded."""
        return any(features.writers()[flag].of_timelines for flag in self.files)
