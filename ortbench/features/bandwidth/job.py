"""`ortbench bandwidth`: measure a curve, save and show it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED
from ortbench.core.features import is_there
from ortbench.core.files import write_or_note
from ortbench.core.safe_text import complain
from ortbench.features.bandwidth import FILE_NAME
from ortbench.jobs import Measured, publish
from ortbench.jobs.run import result_saver, saving
from ortbench.plan.plan import Observer, OutputOptions

if TYPE_CHECKING:
    from ortbench.features.bandwidth.plan import CopyPlan


def bandwidth(plan: CopyPlan, wanted: OutputOptions) -> int:
    """Measure a bandwidth curve, save and show it; the exit code, 1 as soon as a copy failed."""
    found = measure_curve(plan, wanted.out, wanted.quiet)

    from ortbench.features.bandwidth.report import build, failures
    from ortbench.model.result_file import result_json

    publish(wanted, [build(found.result, str(found.folder))], lambda: result_json(found.result))
    if found.interrupted:
        return INTERRUPTED
    failed = failures(found.result)
    for failure in failed:
        complain(failure)
    return BENCHMARK_FAILED if failed else DONE


def measure_curve(plan: CopyPlan, out: Path | None, quiet: bool, observer: Observer | None = None) -> Measured:
    """Measure a bandwidth curve and save it in a folder of its own in `out`, or nowhere; see `saving`."""
    from ortbench.features.bandwidth.measure import copy_driver, open_copies

    client = open_copies(plan)

    from ortbench.model.result_file import new_folder
    from ortbench.plan.plan_builder import ep_name, with_time

    make_folder = None if out is None else lambda: new_folder(out, with_time("bandwidth", ep_name(plan.target)))
    with saving(client, make_folder, quiet, observer) as (folder, told):
        driver = copy_driver(plan, client, result_saver(folder, FILE_NAME), told)
        (result,) = driver.run()
    if folder is not None:
        from ortbench.features.bandwidth.analysis import measured_cases
        from ortbench.features.bandwidth.report import build
        from ortbench.report.records import markdown, records_csv

        write_or_note(folder / "table.md", markdown(build(result)))
        write_or_note(folder / "table.csv", records_csv(result))
        if is_there("page") and measured_cases(result) and find_spec("matplotlib") is not None:
            from ortbench.features.bandwidth.page import bandwidth_curve
            from ortbench.features.page.report.drawings import svg_file  # it takes longer to import than all else

            write_or_note(folder / "bandwidth.svg", svg_file(bandwidth_curve(result)))
    return Measured([result], [] if folder is None else [folder], driver.interrupted)
