"""`ortbench.bandwidth`, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ortbench.api.calls import Tell, measuring, with_options
from ortbench.api.commands import read_call, until_interrupted, whole
from ortbench.api.results import Saved, markdown_of, tables_of
from ortbench.core import units
from ortbench.core.errors import BadInput
from ortbench.core.features import view
from ortbench.core.safe_text import visible
from ortbench.features.bandwidth.analysis import gbps, measured_cases, peak
from ortbench.features.bandwidth.plan import CopyPlan, check
from ortbench.model import result as stored
from ortbench.model import result_file as files
from ortbench.model.modes import DIRECTIONS
from ortbench.model.result import FAILED
from ortbench.model.schema import Direction
from ortbench.plan.options import build
from ortbench.plan.plan_builder import target_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Bandwidth(Saved):
    """A bandwidth curve: what ``bandwidth.json`` has, typed.

    ``cases`` are of one ``size`` and host ``memory`` each, which their ``point`` has. ``case.median("h2d")`` and
    ``case.median("d2h")`` are integer nanoseconds, ``case.value("h2d_rate")`` is bytes per second. ``peak("h2d")`` is the fastest case.
    """

    def peak(self, direction: Direction) -> stored.Case | None:
        """The case with the highest rate in a direction, ``h2d`` or ``d2h``; None where it was not measured."""
        return peak(self, direction)

    def frame(self) -> pandas.DataFrame:
        """A row for each case: ``memory``, ``size``, ``status``, by direction statistics in ns and ``h2d_rate_bytes_per_s``."""
        from ortbench.report.records import frame

        return frame([self])

    def plot(self) -> Figure:
        """Rate against size as a Matplotlib figure, which belongs to no pyplot.

        Raises:
            BadInput: nothing was measured.
        """
        if not measured_cases(self):
            raise BadInput("there is no picture of it: nothing was measured")
        draw: Callable[..., Figure] = view("figure")
        from ortbench.features.bandwidth.page import bandwidth_curve

        return draw(bandwidth_curve(self))

    def markdown(self) -> str:
        """The report as Markdown, as ``table.md`` has it."""
        from ortbench.features.bandwidth.report import build

        return markdown_of(build(self))

    def json(self) -> str:
        """The text of ``bandwidth.json``."""
        return files.result_json(self)

    def _repr_html_(self) -> str:
        from ortbench.features.bandwidth.report import build

        return tables_of(build(self))

    def __repr__(self) -> str:
        peaks = {way: self.peak(way) for way in DIRECTIONS}
        said = [f"{way} {units.digits(gbps(case, way))} GB/s" for way, case in peaks.items() if case is not None]
        return f"<ortbench.Bandwidth {visible(self.target['ep'])}: {', '.join(said) or FAILED}>"


@with_options
def bandwidth(*, progress: Tell | None = None, **options: Any) -> Bandwidth:
    """Measure how fast tensors are copied to and from a device.

    Returns:
        rates over sizes.
    """
    from ortbench.features.bandwidth.job import measure_curve

    with read_call("bandwidth", options) as call:
        plan = build(CopyPlan, call.given, target=target_of(call.given), command=call.typed)
        check(plan)
        with measuring(progress) as observer, until_interrupted():
            found = measure_curve(plan, call.out, quiet=True, observer=observer)
            return whole(Bandwidth.wrap(found.result, found.folder), found.interrupted)
