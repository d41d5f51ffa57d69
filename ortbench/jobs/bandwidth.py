"""What `ortbench bandwidth` does: measure a bandwidth curve, save it, and show it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED
from ortbench.core.safe_text import complain
from ortbench.jobs.measuring import Measured, measure_and_save, saves
from ortbench.jobs.publishing import publish
from ortbench.measure.process import open_copies

if TYPE_CHECKING:
    from ortbench.plan.bandwidth_plan import CopyPlan
    from ortbench.plan.output_options import Wanted
    from ortbench.plan.plan import Observer


def bandwidth(plan: CopyPlan, wanted: Wanted) -> int:
    """Measure a bandwidth curve, save and show it; the exit code, 1 as soon as a copy failed."""
    found = measured(plan, wanted.out, wanted.quiet)

    from ortbench.model.result_file import result_json
    from ortbench.report.bandwidth import build, failures

    publish(wanted, [build(found.result, str(found.folder))], lambda: result_json(found.result))
    if found.interrupted:
        return INTERRUPTED
    failed = failures(found.result)
    for failure in failed:
        complain(failure)
    return BENCHMARK_FAILED if failed else DONE


def measured(plan: CopyPlan, out: Path | None, quiet: bool, observer: Observer | None = None) -> Measured:
    """Measure a bandwidth curve and save it in a folder of its own in `out`, or nowhere; see `measure_and_save`."""
    client = open_copies(plan)

    from ortbench.analysis.bandwidth import FILE_NAME
    from ortbench.measure.bandwidth import CopyBench
    from ortbench.measure.folder import bandwidth_name, new_folder
    from ortbench.report.run import write_bandwidth

    def begin(_: ExitStack, folder: Path | None, told: Observer | None) -> CopyBench:
        return CopyBench(plan, client, saves(folder, FILE_NAME), told)

    place = None if out is None else lambda: new_folder(out, bandwidth_name(plan))
    bench, folder = measure_and_save(client, place, begin, quiet, observer)
    if folder is not None:
        write_bandwidth(bench.result, folder)
    return Measured([bench.result], [] if folder is None else [folder], bench.interrupted)
