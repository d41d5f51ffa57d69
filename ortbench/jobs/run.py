"""What `ortbench run`, `loop` and `chain` do: measure configurations in turns, write what came of them, and show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core.files import write_or_note
from ortbench.jobs.measuring import Measured, measure, new_place
from ortbench.jobs.publishing import publish_results
from ortbench.plan.configurations import differ_by_ep, side_names
from ortbench.plan.option_types import parse_share
from ortbench.plan.output_options import OutputOptions
from ortbench.plan.plan import SAME, Observer, Plan
from ortbench.plan.target import refuse_unclaimed

if TYPE_CHECKING:
    from ortbench.model.result import Result
    from ortbench.report.model import Report


def run(plans: Sequence[Plan], wanted: OutputOptions) -> int:
    """Measure plans, several in turns, write and show what came of them; the exit code."""
    found = measured(plans, wanted.out, wanted.bandwidth, traced=wanted.trace is not None, quiet=wanted.quiet)
    return publish_sides(found, plans, wanted)


def publish_sides(
    found: Measured,
    plans: Sequence[Plan],
    wanted: OutputOptions,
    before: Sequence[Report] = (),
    json: Callable[[], str] | None = None,
    only: Sequence[str] = (),
) -> int:
    """Write and show what came of plans, several side by side, behind other reports; the exit code. `json` gives what ``--json``
    writes, by default the first result; `only` these metrics are compared, if any."""
    model = plans[0].model
    if len(plans) == 1:
        from ortbench.report.run import build

        reports = [*before, build(found.result, str(found.folder))]
        return publish_results(found, model, wanted, reports, json=json)
    by_ep = differ_by_ep(plans)
    reports, text = _side_by_side(found, by_ep, wanted.verbose, only)
    told_apart = by_ep and len({result.target["ep"] for result in found.results}) == len(found.results)
    labels = [] if told_apart else found.names  # an EP is in every label already
    return publish_results(found, model, wanted, [*before, *reports], text, labels, json)


def measured(
    plans: Sequence[Plan],
    out: Path | None,
    bandwidth: Path | None,
    *,
    traced: bool = False,
    quiet: bool = False,
    observer: Observer | None = None,
) -> Measured:
    """Measure plans, several in turns, and save them in a folder in `out`, or nowhere; see `ortbench.jobs.measuring.measure`.

    Their copies are compared with a bandwidth curve: that at `bandwidth`, or the newest in `out` that fits.
    """

    def when_open(results: Sequence[Result]) -> None:
        from ortbench.analysis.bandwidth import attach

        if len(results) == len(plans):  # else whose they are is not known
            options = dict.fromkeys(option for plan in plans for option in plan.target.options)
            refuse_unclaimed(options, [result.target["ep"] for result in results])
        if out is not None or bandwidth is not None:
            attach(results, out or Path(), bandwidth)

    names = side_names(plans) if len(plans) > 1 else ()
    place = new_place(out, plans, plans[0].part.folder)
    return measure(plans, place, names, after_open=when_open, quiet=quiet, traced=traced, observer=observer)


def _side_by_side(found: Measured, each: bool, verbose: bool, only: Sequence[str]) -> tuple[list[Report], str]:
    """Several configurations in one table, behind `each` by itself, which settings of one EP do not need; and the Markdown
    of all, in which the table comes first.
    """
    from ortbench.analysis.comparing.series import Selection
    from ortbench.model.metric_names import parse_metric
    from ortbench.report import comparison, run
    from ortbench.report.markdown import markdown

    results = found.results
    each = each or len(results) == 1 or any(result.nodes for result in results)
    parent = found.folders[0].parent
    reports = [run.build(result, str(folder)) for result, folder in zip(results, found.folders, strict=True)]
    texts = ["", *(markdown(report, verbose) for report in reports)]
    if len(results) == 1:
        return reports, "\n".join(texts)
    same = parse_share(SAME, "--equivalence-margin")
    chosen = Selection(metrics=tuple(map(parse_metric, only)))
    compared = comparison.build_sides(results, found.names, same, None if each else str(parent), chosen)
    texts[0] = markdown(compared, verbose)
    write_or_note(parent / "comparison.md", texts[0])
    return [*(reports if each else ()), compared], "\n".join(texts)
