"""What the commands that measure do: measure configurations in turns, or along an axis, write what came of it, and show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core import features
from ortbench.core.files import write_or_note
from ortbench.jobs.measuring import Measured, folder_maker, measure
from ortbench.jobs.publishing import publish_results
from ortbench.plan.option_types import parse_share
from ortbench.plan.options import RawOptions
from ortbench.plan.plan import SAME, Observer, OutputOptions, Plan
from ortbench.plan.plan_builder import differ_by_ep, name_configurations
from ortbench.plan.target import refuse_unclaimed

if TYPE_CHECKING:
    from ortbench.model.result import Result
    from ortbench.report.model import Report


def run(plans: Sequence[Plan], wanted: OutputOptions, given: RawOptions) -> int:
    found = measured(plans, wanted.out, given, traced=wanted.of_timelines, quiet=wanted.quiet)
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
        return publish_results(found, model, wanted, before=before, json=json)
    by_ep = differ_by_ep(plans)
    reports, text = _side_by_side(found, by_ep, only)
    told_apart = by_ep and len({result.target["ep"] for result in found.results}) == len(found.results)
    labels = [] if told_apart else found.names  # an EP is in every label already
    return publish_results(found, model, wanted, reports, text, labels, json, before)


def measured(
    plans: Sequence[Plan],
    out: Path | None,
    given: RawOptions,
    *,
    traced: bool = False,
    quiet: bool = False,
    observer: Observer | None = None,
) -> Measured:
    """Measure plans, several in turns, and save them in a folder in `out`, or nowhere; see `ortbench.jobs.measuring.measure`.

    Features that know something of them before they are measured are asked, with the options that were given.
    """

    if len(plans) > 1 or traced:  # what is compared is of all plans, and a trace of one process
        plans = [replace(plan, loop=replace(plan.loop, until_agreed=False)) for plan in plans]

    def when_open(results: Sequence[Result]) -> None:
        if len(results) == len(plans):  # else whose they are is not known
            options = dict.fromkeys(option for plan in plans for option in plan.target.options)
            refuse_unclaimed(options, [result.target["ep"] for result in results])
        for prepare in features.hooks("when_open"):
            prepare(results, out, given)

    names = name_configurations(plans) if len(plans) > 1 else ()
    make_folder = folder_maker(out, plans, plans[0].part.folder)
    return measure(plans, make_folder, names, after_open=when_open, quiet=quiet, traced=traced, observer=observer)


def _side_by_side(found: Measured, each: bool, only: Sequence[str]) -> tuple[list[Report], str]:
    """Several configurations in one table, behind `each` by itself, which settings of one EP do not need; and the Markdown
    of all, in which the table comes first."""
    from ortbench.analysis.series import Selection
    from ortbench.model.metric_names import parse_metric
    from ortbench.report import comparison, run
    from ortbench.report.markdown import markdown

    results = found.results
    each = each or len(results) == 1 or any(result.nodes for result in results)
    parent = found.folders[0].parent
    reports = [run.build(result, str(folder)) for result, folder in zip(results, found.folders, strict=True)]
    if len(results) == 1:
        return reports, "\n".join(["", *(markdown(report) for report in reports)])
    same = parse_share(SAME, "--equivalence-margin")
    chosen = Selection(metrics=tuple(map(parse_metric, only)))
    compared = comparison.build_sides(results, found.names, same, None if each else str(parent), chosen)
    texts = [markdown(report) for report in (compared, *reports)]
    write_or_note(parent / "comparison.md", texts[0])
    return [*(reports if each else ()), compared], "\n".join(texts)
