from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ortbench.core import output, signals
from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED
from ortbench.core.processes import with_pip_of
from ortbench.core.safe_text import complain
from ortbench.jobs import write_json
from ortbench.jobs.run import observer_for

if TYPE_CHECKING:
    from ortbench.features.doctor.facts import Section


def doctor(with_noise: bool, python: str | None, json_out: str | None, verbose: bool) -> int:
    """Show what may be wrong on this machine with an interpreter's ONNX Runtime, with noise also how far apart two identical
    measurements are; the exit code. `BenchmarkFailed` where no worker can be started."""
    from ortbench.features.doctor import measure
    from ortbench.features.doctor.facts import examine, usable, works

    facts = measure.facts(python)
    output.begin()  # the findings say why an EP does not load
    wanted = with_noise and facts["installed"] is not None
    if wanted:
        signals.defer_signals()  # from here on there are files to be removed, and the page is still to be shown
        with ExitStack() as stack:
            facts["noise"] = measure.noise(observer_for(stack, quiet=False), python=python)
    sections = [of_environment(section, python) for section in examine(facts)]
    findings = [{"section": section.title, **it._asdict()} for section in sections for it in section.findings]
    if not write_json({"works": works(facts), "findings": findings, "facts": facts}, json_out):
        from ortbench.features.doctor.report import build_doctor
        from ortbench.report.brief import brief
        from ortbench.report.terminal import print_report

        report = build_doctor(sections, usable(facts))
        print_report(report if verbose else brief(report))
        if wanted and facts["noise"] is None:
            complain("interrupted before the noise was measured")
    if wanted and facts["noise"] is None:
        return INTERRUPTED
    return DONE if works(facts) else BENCHMARK_FAILED


def of_environment(section: Section, python: str | None) -> Section:
    """A section whose commands mend the environment that it is about: its own pip, not the one on the path."""
    if python is None:
        return section
    findings = [it._replace(command=with_pip_of(it.command, python)) for it in section.findings]
    return section._replace(findings=findings)
