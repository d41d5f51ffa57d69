"""All that facts about a machine mean, in the order in which it is read. Pure."""

from __future__ import annotations

from ortbench.analysis.doctor import machine, software
from ortbench.analysis.doctor.finding import Section
from ortbench.model.doctor_schema import Facts

_SECTIONS = {
    "ONNX Runtime": software.packages,
    "Execution providers": software.providers,
    "CUDA": software.cuda,
    "NVIDIA cards": machine.cards,
    "Processor and memory": machine.processor,
    "Profiling": software.profiler,
    "Noise": machine.noise,
}


def examine(facts: Facts) -> list[Section]:
    """The sections that have something to say."""
    found = [Section(title, list(judge(facts))) for title, judge in _SECTIONS.items()]
    return [section for section in found if section.findings]


def works(facts: Facts) -> bool:
    """Whether ONNX Runtime itself does: it loads, and runs a small model if that was tried."""
    return facts["installed"] is not None and (facts["noise"] is None or facts["noise"]["problem"] is None)
