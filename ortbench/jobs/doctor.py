"""What `ortbench doctor` does: gather facts, judge them, show them."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from ortbench import stopping
from ortbench.errors import BENCHMARK_FAILED, DONE, INTERRUPTED
from ortbench.facts import Facts, Noise
from ortbench.jobs.writing import write_json


def doctor(with_noise: bool, json_out: str | None) -> int:
    """Show what may be wrong on this machine; the exit code.

    Args:
        with_noise: measure how far apart two identical lanes are.
        json_out: where facts and findings go as JSON, or None.

    Raises:
        BenchmarkFailed: no worker can be started.
    """
    from ortbench.analysis.doctor.sections import examine, works
    from ortbench.measure import diagnose

    facts = diagnose.facts()
    wanted = with_noise and facts["installed"] is not None
    if wanted:
        facts["noise"] = _noise()
    sections = examine(facts)
    findings = [{"section": section.title, **it._asdict()} for section in sections for it in section.findings]
    if not write_json({"works": works(facts), "findings": findings, "facts": facts}, json_out):
        _print(facts, wanted)
    if wanted and facts["noise"] is None:
        return INTERRUPTED
    return DONE if works(facts) else BENCHMARK_FAILED


def _noise() -> Noise | None:
    from ortbench.measure.noise import noise

    stopping.hold()  # from here on there are files to be removed, and the page is still to be shown
    with ExitStack() as stack:
        progress = None
        if sys.stderr.isatty():
            from ortbench.report.terminal.progress import LiveProgress

            progress = stack.enter_context(LiveProgress())
        return noise(progress)


def _print(facts: Facts, measured: bool) -> None:
    from ortbench.analysis.doctor.sections import examine
    from ortbench.report.doctor import build
    from ortbench.report.terminal.print import print_report

    print_report(build(examine(facts)))
    if measured and facts["noise"] is None:
        print("ortbench: interrupted before the noise was measured", file=sys.stderr)
