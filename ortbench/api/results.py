"""What calls give back: what the command saves, with tables, pictures and texts of it at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ortbench.core import features, units
from ortbench.core.errors import BadInput
from ortbench.core.features import part_of
from ortbench.core.safe_text import visible
from ortbench.facts import Explanation
from ortbench.facts.run import headline
from ortbench.model import result as stored
from ortbench.model import result_file as files
from ortbench.model.kinds import kind_of
from ortbench.model.modes import LATENCY
from ortbench.model.result import OK
from ortbench.model.schema import Finding
from ortbench.report.model import Report

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Samples = Mapping[str, NDArray[np.int64]]


class Saved(stored.Result):
    __slots__ = ("_folder",)  # no key of the result file, which has all other attributes
    _folder: Path | None

    @classmethod
    def wrap(cls, result: stored.Result, folder: Path | None = None) -> Self:
        """The same result, in this form."""
        found = cls.__new__(cls)
        vars(found).update(vars(result))  # with the keys of its file that no type has
        found._folder = folder
        return found

    @property
    def folder(self) -> Path | None:
        """Where it was saved; None where it was not."""
        return getattr(self, "_folder", None)


class Result(Saved):
    """One run, loop, chain, load or sweep: the result file's content, whose keys docs/result-file.md describes, typed.

    ``cases`` has a `Case` for each mode, ``case("cpu-tensors")`` that of a mode that is ok, ``case.median("latency")`` its median in
    integer nanoseconds, ``case.samples`` all samples. A load has a case for each load point, its ``point``, and cases of one client alone; a sweep
    has ``shapes``, cases at the ``point`` of each (``at_point``), and ``best`` by mode, whose
    ``verdict`` is ``known``, ``tied``, ``open`` or ``noise``. Durations are integer nanoseconds, sizes bytes.
    """

    __slots__ = ("_taken",)
    _taken: Samples | None

    @classmethod
    def wrap(cls, result: stored.Result, folder: Path | None = None, taken: Samples | None = None) -> Self:
        """The same result, in this form; of a load with what its ``load-samples.npz`` has."""
        found = super().wrap(result, folder)
        found._taken = taken
        return found

    def frame(self) -> pandas.DataFrame:
        """A row for each mode: status, every statistic of every phase, bytes, ratios; None where not known.

        Of a load a row for each load point, of a sweep one for each shape and mode. Units end the names (``latency_median_ns``,
        ``bytes_h2d``) and are in ``frame.attrs["units"]``.
        """
        from ortbench.report.records import frame

        return frame([self])

    def samples(self) -> pandas.DataFrame:
        """Every sample, a row for each: ``mode``, ``phase``, ``round``, ``block_start_ns``, ``time_ns``.

        ``round`` and ``block_start_ns`` (on the worker's clock) are of the block that it was taken in. Steps of loops have
        ``step``, from 0 on, stages of chains ``stage``, and sweeps ``shape``. Of a load a row is an inference: ``mode``,
        ``concurrency`` with ``block``, ``caller`` and ``latency_ns``, or ``rate`` with ``due_ns``, ``start_ns`` and ``end_ns``
        from the beginning of the load point on, missing for a request that was never served.

        Raises:
            BadInput: it is a load that was read without the file of its samples.
        """
        from ortbench.report.records import sample_frame

        if not kind_of(self.kind).samples:
            return sample_frame([self])
        taken = getattr(self, "_taken", None)
        if taken is None:
            raise BadInput(
                f"its load points have no samples here: they are in {kind_of(self.kind).samples}, beside the result file"
            )
        found: pandas.DataFrame = part_of(self.kind, "report", "sample_frame")(self, taken)
        return found

    def plot(self, picture: str | None = None) -> Figure:
        """A picture of the page as a Matplotlib figure, which belongs to no pyplot.

        Args:
            picture: its title on the page; the first one by default, which is where the time goes.

        Raises:
            BadInput: there is no such picture of this result.
        """
        return _figure("figure_of", self, picture)

    def markdown(self) -> str:
        """The report as Markdown, as ``table.md`` has it."""
        from ortbench.report.run import build

        return markdown_of(build(self))

    def html(self) -> str:
        """The whole page, which opens anywhere, as ``--html`` writes it."""
        return _html("build_page", [self], [""])

    def json(self) -> str:
        """The text of the result file."""
        return files.result_json(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result file, whole or not at all.

        Raises:
            OSError: its folder cannot be written.
        """
        files.save(self, Path(path))

    def _repr_html_(self) -> str:
        return _html("first_part_html", self)

    def __repr__(self) -> str:
        return f"<ortbench.Result {in_a_line(self)}>"


def in_a_line(result: stored.Result) -> str:
    """A result in a line."""
    where = f"{result.model['path']} on {result.target['ep']}" if result.model and result.target else "not opened"
    if result.axes:
        return visible(f"{where}: {headline(result)}")
    medians = [(case.mode, case.status, case.median(LATENCY)) for case in result.cases]
    said = [
        f"{mode} {units.duration(ns)}" if status == OK and ns else f"{mode} {status}" for mode, status, ns in medians
    ]
    return visible(f"{where}: {', '.join(said)}")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Results compared with each other.

    Attributes:
        results: that were compared.
        names: what each is called: that in which they differ.
        records: one for each mode, phase and result: ``mode``, ``phase``, ``result``, ``median_ns``, and ``vs_first`` and
            ``vs_previous`` with ``ratio`` (of times, above 1 is slower), its interval ``low`` to ``high`` and the ``verdict``
            "faster", "slower", "same" or "cannot tell"; None for the first result.
        findings: what the comparison says, as data: ``code``, ``verdict``, ``mode`` and ``values`` of each.
        why: which changes between nodes make the difference, where that was asked for.
    """

    results: Sequence[Result]
    names: Sequence[str]
    records: Sequence[Mapping[str, Any]]
    findings: Sequence[Finding]
    _report: Report = field(compare=False)
    why: Explanation | None = None

    def frame(self) -> pandas.DataFrame:
        """The records, a row for each; what is inside ``vs_first`` is in columns such as ``vs_first_ratio``."""
        from ortbench.report.records import record_frame

        return record_frame(self.records)

    def plot(self) -> Figure:
        """The median of every mode of each result, as a Matplotlib figure, which belongs to no pyplot.

        Raises:
            BadInput: nothing was measured.
        """
        return _figure("figure_of_several", self.results, self.names)

    def markdown(self) -> str:
        """The report as Markdown."""
        return markdown_of(self._report)

    def html(self) -> str:
        """A page of all results and their comparison, as ``ortbench report`` makes it."""
        return _html("build_page", self.results, self.names)

    def _repr_html_(self) -> str:
        return tables_of(self._report)

    def __repr__(self) -> str:
        return f"<ortbench.Comparison {visible(', '.join(self.names))}>"


def read(path: str | PathLike[str]) -> Result:
    """Read a result that was saved.

    Args:
        path: a result file, or the folder of a run.

    Raises:
        BadInput: it cannot be read, or is no result that this version knows.
    """
    from ortbench.jobs.compare import one_result_file

    file = one_result_file(Path(path))
    result = files.load(file)
    read_samples = part_of(result.kind, "analysis", "read_samples", lambda _: None)
    return Result.wrap(result, file.parent, read_samples(file.parent))


def _html(view: str, *arguments: Any) -> str:
    text: str = features.view(view)(*arguments)
    return text


def _figure(view: str, *arguments: Any) -> Figure:
    figure: Figure = features.view(view)(*arguments)
    return figure


def markdown_of(report: Report) -> str:
    from ortbench.report.records import markdown

    return markdown(report)


def tables_of(report: Report, said: Sequence[str] | None = None) -> str:
    """A report's tables as HTML, below its title and what is to be said, by default its notes."""
    from ortbench.report.model import ComparedResults, Notes, Table

    blocks = [block for part in report.parts for block in part]
    tables = [block for block in blocks if isinstance(block, Table)]
    tables += [
        block.table.with_names for block in blocks if isinstance(block, ComparedResults) and block.table is not None
    ]
    notes = [note.text for block in blocks if isinstance(block, Notes) for note in block.notes]
    return _html("tables_html", report.title, tables, notes if said is None else said)
