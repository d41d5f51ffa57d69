"""What the commands that measure do: worker, folder, progress, driver; configurations in turns, or along an axis; write what came of it, and show it.

Heavy imports wait until the first worker has been started: it has more to import, and can do so meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ortbench.core import features, files, output, signals
from ortbench.core.errors import BadInput
from ortbench.core.features import part_of
from ortbench.core.files import write_or_note
from ortbench.core.safe_text import plain_name
from ortbench.core.units import at_most
from ortbench.jobs import Measured, publish_results
from ortbench.measure.process import Client, WorkerLost, open_worker
from ortbench.plan.option_types import parse_share
from ortbench.plan.options import RawOptions
from ortbench.plan.plan import SAME, Observer, OutputOptions, Plan
from ortbench.plan.plan_builder import differ_by_ep, name_configurations
from ortbench.plan.target import refuse_unclaimed

if TYPE_CHECKING:
    from ortbench.measure.configuration import Configuration
    from ortbench.measure.driver import Driver
    from ortbench.measure.progress import Forecast, SequentialTest
    from ortbench.measure.schedule import BlockSource, Estimates, Series
    from ortbench.model.result import Result
    from ortbench.report.model import Report


_WORTH_A_LINE_S = 10.0  # a shorter measurement is over before anybody has read how long it takes
MakeFolder = Callable[[], Path]  # makes the folder of what is measured
Save = Callable[["Result"], None]


@contextmanager
def saving(
    client: Client, make_folder: MakeFolder | None, quiet: bool = False, observer: Observer | None = None
) -> Iterator[tuple[Path | None, Observer | None]]:
    """The folder in which what is measured inside is saved, and who is told what happens: the observer, or unless that is to be `quiet`
    the terminal.

    The first worker, `client`, ends with it. The folder goes again where nothing could be measured, which an error says.
    """
    with ExitStack() as stack:
        stack.callback(client.close)
        client.meanwhile = load_the_rest
        from ortbench.model.result_file import discard_if_empty

        signals.defer_signals()  # from here on there is a folder, and soon something in it
        folder = None if make_folder is None else make_folder()
        if folder is not None:
            output.keep_in(folder)
        try:
            yield folder, observer_for(stack, quiet, observer)
        except BaseException as error:
            if folder is not None:
                client.close()
                if not isinstance(error, WorkerLost):
                    output.discard(folder)
                discard_if_empty(folder)
            raise


def folder_maker(out: Path | None, plans: Sequence[Plan], what: str = "") -> MakeFolder | None:
    """What makes a folder in `out` for what is measured of plans; None without one."""
    if out is None:
        return None

    def folder() -> Path:
        from ortbench.model.result_file import new_folder
        from ortbench.plan.plan_builder import run_name

        return new_folder(out, run_name(plans, what))

    return folder


def measure(
    plans: Sequence[Plan],
    make_folder: MakeFolder | None,
    names: Sequence[str] = (),
    test: SequentialTest | None = None,
    after_open: Callable[[Sequence[Result]], None] | None = None,
    quiet: bool = False,
    traced: bool = False,
    observer: Observer | None = None,
) -> Measured:
    """Measure configurations, several in turns, and save what comes of them, also after Ctrl-C.

    Several need names, which messages and, made plain, folders have. The test ends what enough is known of. Raises as `Driver.run` does.
    """
    of_kind = part_of(plans[0].part.folder, "job", "measures")
    own = None if of_kind is None else of_kind()
    client = open_worker(plans[0])

    if traced:
        from ortbench.model.protocol import Timeline

    with saving(client, make_folder, quiet, observer) as (folder, observer):
        from ortbench.measure.driver import Driver

        folders = _folders(folder, names if len(plans) > 1 else ())
        series = _series_of(plans, test)
        if own is not None:
            series = series._replace(configuration=own())
        configurations = [
            series.configuration(
                plan,
                None if number else client,
                result_saver(folders[number] if folders else None),
                names[number] if names else None,
                Timeline() if traced else None,
            )
            for number, plan in enumerate(plans)
        ]
        driver = Driver(configurations, series.schedule, observer, test, after_open, forecast=series.forecast)
        driver.run()
    left_out = [it for it, _ in driver.not_opened]  # one can be open all the same, with nodes where none may be
    kept = [it for it in configurations if it not in left_out]
    return Measured(
        [it.result for it in kept],
        _write_folders(configurations, folders, kept),
        driver.interrupted,
        [it.name for it in kept] if names else [],
        [(it.name, error) for it, error in driver.not_opened],
        [("", it.result, it.timeline) for it in kept if it.timeline is not None],
        [it.samples_apart for it in kept],
        [it.model_files for it in configurations],
    )


class MeasuredSeries(NamedTuple):
    configuration: Callable[..., Configuration]
    schedule: Callable[[Driver, Estimates[Series]], BlockSource]
    forecast: Forecast | None = None


def _series_of(plans: Sequence[Plan], test: SequentialTest | None) -> MeasuredSeries:
    """What plans measure, of kinds without a configuration of their own. Most commands have no stream, and would wait for it."""
    if (of_kind := part_of(plans[0].part.folder, "job", "series_of")) is not None:
        series: MeasuredSeries = of_kind(plans, test)
        return series
    from ortbench.measure.rounds import Rounds

    if plans[0].stream is not None:
        from ortbench.measure.rounds import StreamConfiguration

        return MeasuredSeries(StreamConfiguration, Rounds)
    from ortbench.measure.configuration import Configuration

    return MeasuredSeries(Configuration, Rounds)


def _write_folders(
    configurations: Sequence[Configuration],
    folders: Sequence[Path],
    kept: Sequence[Configuration],
) -> list[Path]:
    """The folders of the configurations that are kept, with all files; those of others are gone."""
    from ortbench.model.result_file import discard_if_empty
    from ortbench.report.run import write_run

    written = []
    for number, folder in enumerate(folders):  # there are none of what is not to be saved
        if configurations[number] not in kept:
            discard_if_empty(folder)
            continue
        configurations[number].write_samples(folder)
        write_run(configurations[number].result, folder)
        written.append(folder)
    return written


def _folders(parent: Path | None, names: Sequence[str]) -> list[Path]:
    """Where each configuration is saved: in the folder itself, or where there are names each in one of its own in it; `BadInput`
    where one cannot be made."""
    if parent is None:
        return []
    folders = [parent / plain_name(name) for name in names]
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{parent}: cannot be written: {error.strerror}") from None
    return folders or [parent]


def result_saver(folder: Path | None, name: str = "result.json") -> Save:
    """What saves a result in a folder, or notes that it could not be; without a folder it does nothing."""

    def save_result(result: Result) -> None:
        from ortbench.facts.run import put_findings
        from ortbench.model.result_file import save

        if folder is not None:
            put_findings(result)
            with files.noting(folder / name):
                save(result, folder / name)

    return save_result


def load_the_rest() -> None:
    """Load what is needed when there are figures, while the worker is busy, so that nobody waits for it."""
    import numpy  # noqa: F401

    import ortbench.report.run
    import ortbench.report.terminal  # noqa: F401


class ForecastLine(Observer):
    """What is no terminal gets a line at the start: how long something takes."""

    def __init__(self, what: str = "measuring") -> None:
        self._what = what

    def forecast(self, seconds: float) -> None:
        if seconds >= _WORTH_A_LINE_S:
            print(f"ortbench: {self._what} takes about {at_most(seconds)} at most", file=sys.stderr, flush=True)


def observer_for(stack: ExitStack, quiet: bool, observer: Observer | None = None) -> Observer | None:
    """Who is told what happens: the observer, else unless that is to be `quiet` standard error; None for nobody.

    At the end of the stack a terminal is left as it was; what is none gets a line.
    """
    if observer is not None or quiet:
        return observer
    if not sys.stderr.isatty():
        return ForecastLine()
    from ortbench.report.progress import LiveProgress

    return stack.enter_context(LiveProgress())


def resolve_model(plan: Plan) -> Plan:
    """The plan of a model in the folder that takes its place, where a feature knows folders of that kind; else the same."""
    if not files.is_folder(plan.model):
        return plan
    return next(filter(None, (resolve(plan) for resolve in features.hooks("resolve_model"))), plan)


def run(plans: Sequence[Plan], wanted: OutputOptions, given: RawOptions) -> int:
    found = measure_plans(plans, wanted.out, given, traced=wanted.of_timelines, quiet=wanted.quiet)
    only = part_of(plans[0].part.folder, "job", "compared_metrics", lambda _: ())(plans)
    return publish_configurations(found, plans, wanted, only=only)


def publish_configurations(
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
    reports, text = _compare_configurations(found, by_ep, only)
    told_apart = by_ep and len({result.target["ep"] for result in found.results}) == len(found.results)
    labels = [] if told_apart else found.names  # an EP is in every label already
    return publish_results(found, model, wanted, reports, text, labels, json, before)


def measure_plans(
    plans: Sequence[Plan],
    out: Path | None,
    given: RawOptions,
    *,
    traced: bool = False,
    quiet: bool = False,
    observer: Observer | None = None,
) -> Measured:
    """Measure plans, several in turns, and save them in a folder in `out`, or nowhere; see `ortbench.jobs.run.measure`.

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


def _compare_configurations(found: Measured, each: bool, only: Sequence[str]) -> tuple[list[Report], str]:
    """Several configurations in one table, behind `each` by itself, which settings of one EP do not need; and the Markdown
    of all, in which the table comes first."""
    from ortbench.analysis.series import Selection
    from ortbench.model.metric_names import parse_metric
    from ortbench.report import comparison, run
    from ortbench.report.records import markdown

    results = found.results
    each = each or len(results) == 1 or any(result.nodes for result in results)
    parent = found.folders[0].parent
    reports = [run.build(result, str(folder)) for result, folder in zip(results, found.folders, strict=True)]
    if len(results) == 1:
        return reports, "\n".join(["", *(markdown(report) for report in reports)])
    same = parse_share(SAME, "--equivalence-margin")
    chosen = Selection(metrics=tuple(map(parse_metric, only)))
    compared = comparison.build_configurations(results, found.names, same, None if each else str(parent), chosen)
    texts = [markdown(report) for report in (compared, *reports)]
    write_or_note(parent / "comparison.md", texts[0])
    return [*(reports if each else ()), compared], "\n".join(texts)
