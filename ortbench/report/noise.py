"""What a report says first of a machine that was busy: why, what mends it, and the figures of the rounds that were quiet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.analysis.findings.phrases import first_of
from ortbench.analysis.loads.levels import at
from ortbench.analysis.noise import Quiet, quiet_cases, remedy, rounds, sentence
from ortbench.core import units
from ortbench.core.safe_text import listed
from ortbench.model.result import Case, Result
from ortbench.report.model import UNCLEAR, Block, Note, Notes

_NEXT = " Next: "  # before the command that mends it
_SHOWN = 4  # cases whose quiet figures are shown


def noise_parts(result: Result) -> list[Sequence[Block]]:
    """The part of a report that stands first; none where the machine was quiet, or nobody knows."""
    return [[Notes(noise_notes(result))]] if sentence(result.noise) is not None else []


def noise_notes(result: Result) -> list[Note]:
    """What there is to say of a busy machine; nothing of a quiet one."""
    if result.noise is None or (said := sentence(result.noise)) is None:
        return []
    found = [Note(f"{said}{_NEXT}{remedy(result.noise, result.command)}", "!", UNCLEAR)]
    return [*found, *map(Note, _quiet(result))]


def gate_notes(results: Sequence[Result], names: Sequence[str]) -> list[Note]:
    """What noise means to a live gate, whose verdict holds all the same."""
    effect = (
        "It made the gate slower, or unable to tell; a verdict holds, because its sequential test counts the noise."
    )
    return [replace(note, text=f"{note.text.partition(_NEXT)[0]} {effect}") for note in sides_notes(results, names)]


def _quiet(result: Result) -> list[str]:
    """The figures of quiet rounds, and how many of all those are; of a load by load point."""
    assert result.noise is not None
    known, found = rounds(result.noise), quiet_cases(result)
    if not known or all(known.values()):
        return []
    if not found:
        return [f"Quiet rounds: none of {len(known)}."]
    figures = [f"{_name(it.case)} {_figure(it)}".strip() for it in found]
    return [f"Quiet rounds: {first_of(figures, _SHOWN)}; {sum(known.values())} of {len(known)}."]


def _name(case: Case) -> str:
    if case.load_blocks is not None:
        return f"{case.mode} {at(case).phrase}"
    point = ", ".join(f"{name}={value}" for name, value in case.point.items())
    return f"{case.mode} at {point}" if point else case.mode


def _figure(found: Quiet) -> str:
    return f"{units.rate(found.figure)} inf/s" if found.case.load_blocks is not None else units.duration(found.figure)


def sides_notes(results: Sequence[Result], names: Sequence[str]) -> list[Note]:
    """What there is to say of several configurations that took turns, each once."""
    found: dict[str, list[str]] = {}
    for result, name in zip(results, names, strict=True):
        for note in noise_notes(result)[:1]:
            found.setdefault(note.text, []).append(name)
    return [
        Note(text if len(of) == len(results) else f"{listed(of)}: {text}", "!", UNCLEAR) for text, of in found.items()
    ]
