"""What `ortbench doctor` does: gather facts, judge them, show them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from ortbench.analysis.doctor import Section
from ortbench.core import interpreters, signals
from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED
from ortbench.jobs.measuring import observed
from ortbench.jobs.publishing import write_json
from ortbench.model.doctor_schema import Facts, Noise


def doctor(with_noise: bool, python: str | None, json_out: str | None) -> int:
    """Show what may be wrong on this machine with an interpreter's ONNX Runtime, with noise also how far apart two identical
    measurements are; the exit code.

    Raises:
        BenchmarkFailed: no worker can be started.
    """
    from ortbench.analysis.doctor import examine, works
    from ortbench.measure import diagnose

    facts = diagnose.facts(python)
    wanted = with_noise and facts["installed"] is not None
    if wanted:
        facts["noise"] = _noise(python)
    sections = [of_environment(section, python) for section in examine(facts)]
    findings = [{"section": section.title, **it._asdict()} for section in sections for it in section.findings]
    if not write_json({"works": works(facts), "findings": findings, "facts": facts}, json_out):
        _print(sections, facts, wanted)
    if wanted and facts["noise"] is None:
        return INTERRUPTED
    return DONE if works(facts) else BENCHMARK_FAILED


def of_environment(section: Section, python: str | None) -> Section:
    """A section whose commands mend the environment that it is about: its own pip, not the one on the path."""
    if python is None:
        return section
    findings = [it._replace(command=interpreters.with_pip_of(it.command, python)) for it in section.findings]
    return section._replace(findings=findings)


def _noise(python: str | None) -> Noise | None:
    from ortbench.measure.diagnose import noise

    signals.hold()  # from here on there are files to be removed, and the page is still to be shown
    with ExitStack() as stack:
        return noise(observed(stack, quiet=False), python=python)


def _print(sections: Sequence[Section], facts: Facts, measured: bool) -> None:
    from ortbench.report.chores import build_doctor
    from ortbench.report.terminal.print import print_report

    print_report(build_doctor(sections))
    if measured and facts["noise"] is None:
        print("ortbench: interrupted before the noise was measured", file=sys.stderr)
