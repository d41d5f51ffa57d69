"""What `ortbench run` does: measure a model on one EP or several side by side, write what came of it, and show it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED, BadInput
from ortbench.core.safe_text import complain
from ortbench.jobs.junit import write_junit
from ortbench.jobs.launch import Launched, launch
from ortbench.jobs.writing import check_place, say_failures, summarise_job, write, write_page, write_trace
from ortbench.model.modes import LATENCY
from ortbench.plan.configurations import differ_by_ep, side_names
from ortbench.plan.ep_options import refuse_unclaimed
from ortbench.plan.output_options import Wanted
from ortbench.plan.parsing import parse_share
from ortbench.plan.plan import SAME, Observer, Plan

if TYPE_CHECKING:
    from ortbench.model.result import Result


def check_wanted(wanted: Wanted) -> None:
    """Refuse what cannot be written or read, before anything is measured.

    Raises:
        BadInput: with the reason.
    """
    if wanted.json == "-" and wanted.html == "-":
        raise BadInput("--json and --html cannot both go to standard output")
    check_place(wanted.html, "--html")
    if wanted.trace == "-":
        raise BadInput("--trace -: name a file")
    check_place(wanted.trace, "--trace")
    if wanted.bandwidth is not None and not wanted.bandwidth.exists():
        raise BadInput(f"--bandwidth: no such file or folder: {wanted.bandwidth}")


def run(plans: Sequence[Plan], wanted: Wanted) -> int:
    """Measure plans side by side, write and show what came of them.

    Args:
        plans: checked, one a side.
        wanted: checked.

    Returns:
        The exit code.

    Raises:
        BadInput, BenchmarkFailed: before anything could be measured.
    """
    launched = measured(plans, wanted.out, wanted.bandwidth, traced=wanted.trace is not None, quiet=wanted.quiet)
    by_ep = differ_by_ep(plans)
    eps = {result.target["ep"] for result in launched.results}
    told_apart = by_ep and len(eps) == len(launched.results)
    labels = [""] * len(launched.results) if told_apart else launched.names  # an EP is in every label already
    _write_exports(launched, labels, plans[0], wanted)
    if len(plans) == 1:
        _show(launched, wanted.json, wanted.quiet or wanted.html == "-")
    else:
        _show_side_by_side(launched, by_ep, wanted.quiet or wanted.html == "-")
    if wanted.html is not None:
        errors = [f"{name}: {error}" for name, error in launched.not_opened]
        write_page(wanted.html, launched.results, launched.names or [launched.folders[0].name], errors)
    if wanted.trace is not None:
        quiet = wanted.quiet or "-" in (wanted.json, wanted.html)
        write_trace(launched.results, launched.timelines, labels, wanted.trace, quiet)
    return _exit_code(launched)


def measured(
    plans: Sequence[Plan],
    out: Path | None,
    bandwidth: Path | None,
    *,
    traced: bool = False,
    quiet: bool = False,
    observer: Observer | None = None,
) -> Launched:
    """Measure plans side by side.

    Args:
        plans: checked, one a side.
        out: where the run's folder is made; None where nothing is to be saved.
        bandwidth: a sweep to hold the copies against; None for the newest in `out` that fits.
        traced, quiet, observer: see `ortbench.jobs.launch.launch`.

    Raises:
        BadInput, BenchmarkFailed: before anything could be measured.
    """

    def folder() -> Path:
        from ortbench.measure.folder import new_folder, run_name

        assert out is not None
        return new_folder(out, run_name(plans))

    def when_open(results: Sequence[Result]) -> None:
        from ortbench.analysis.link import attach

        if len(results) == len(plans):  # else whose they are is not known
            options = dict.fromkeys(option for plan in plans for option in plan.target.options)
            refuse_unclaimed(options, [result.target["ep"] for result in results])
        if out is not None or bandwidth is not None:
            attach(results, out or Path(), bandwidth)

    names = side_names(plans) if len(plans) > 1 else None
    place = None if out is None else folder
    return launch(plans, place, names, after_open=when_open, quiet=quiet, traced=traced, observer=observer)


def _show(launched: Launched, json_out: str | None, quiet: bool) -> None:
    from ortbench.model.result_file import result_json
    from ortbench.report.markdown import markdown
    from ortbench.report.run import build

    (result,), (folder,) = launched.results, launched.folders
    report = build(result, str(folder))
    summarise_job(markdown(report))
    if json_out is not None:
        write(json_out, result_json(result), "--json")
    if json_out == "-" or quiet:
        return
    from ortbench.report.terminal.print import print_report

    print_report(report)


def _show_side_by_side(launched: Launched, each: bool, quiet: bool) -> None:
    """Several sides in one table; also `each` by itself, which settings of one EP do not need."""
    from ortbench.core.files import write_or_note
    from ortbench.report import comparison, run
    from ortbench.report.markdown import markdown

    results = launched.results
    each = each or len(results) == 1 or any(result.nodes for result in results)
    parent = launched.folders[0].parent
    compared = None
    if len(results) > 1:
        same = parse_share(SAME, "--same")
        compared = comparison.build_sides(results, launched.names, same, None if each else str(parent))
    text = "" if compared is None else markdown(compared)
    if text:
        write_or_note(parent / "comparison.md", text)
    reports = [run.build(result, str(folder)) for result, folder in zip(results, launched.folders, strict=True)]
    summarise_job("\n".join([text, *map(markdown, reports)]))
    if quiet:
        return
    from ortbench.report.terminal.print import print_report

    for report in reports if each else ():
        print_report(report)
        print()
    if compared is not None:
        print_report(compared)


def _write_exports(launched: Launched, labels: Sequence[str], plan: Plan, wanted: Wanted) -> None:
    """The forms that CI systems read; a label says which of several sides a result is of, "" where its EP does."""
    if wanted.junit is None and wanted.action_json is None and wanted.bmf is None:
        return
    from ortbench.report.exports import bencher, github
    from ortbench.report.exports.junit import ERROR, Outcome, outcomes_of_run

    if wanted.junit is not None:
        labelled = zip(launched.results, labels, strict=True)
        outcomes = [outcome for result, label in labelled for outcome in outcomes_of_run(result, label)]
        outcomes += [Outcome(f"{plan.model} on {ep}", ep, ERROR, str(error), 0.0) for ep, error in launched.not_opened]
        command = "run" if plan.work.whole == LATENCY else plan.work.whole
        write_junit(wanted.junit, f"ortbench {command}", outcomes)
    if wanted.action_json is not None:
        write(wanted.action_json, github.action_json(launched.results, labels), "--action-json")
    if wanted.bmf is not None:
        write(wanted.bmf, bencher.bmf(launched.results, labels), "--bmf")


def _exit_code(launched: Launched) -> int:
    """What the contract says: 1 as soon as a case failed or nothing could be measured."""
    if launched.interrupted:
        return INTERRUPTED
    several = len(launched.results) > 1
    names = launched.names if several else [""]
    codes = [say_failures(result, name and f"{name}: ") for name, result in zip(names, launched.results, strict=True)]
    for name, error in launched.not_opened:
        complain(f"{name}: {error}")
    return BENCHMARK_FAILED if launched.not_opened or BENCHMARK_FAILED in codes else DONE
