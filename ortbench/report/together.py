"""What several results of one report have to say, each thing once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ortbench.analysis.findings.advice import superseded
from ortbench.analysis.nodes.placed import missed, placed_sentences
from ortbench.model.result import Result
from ortbench.report.model import Note, Notes
from ortbench.report.words import remark, warnings


def off_target(results: Sequence[Result], names: Sequence[str]) -> list[Notes]:
    """That (nearly) nothing ran on the EP that was asked for, which stands before any figure; no block where more did."""
    found = _together(results, names, lambda result: [remark(it) for it in placed_sentences(result)[: _is_off(result)]])
    return [Notes(found)] if found else []


def placed_and_warned(results: Sequence[Result], names: Sequence[str]) -> list[Note]:
    """What is copied inside the graphs, and what the results warn of besides."""

    def said(result: Result) -> Iterable[Note]:
        return [*map(Note, placed_sentences(result)[_is_off(result) :]), *warnings(result, superseded(result))]

    return _together(results, names, said)


def _is_off(result: Result) -> int:
    """How many of what is said of places is about an EP that was missed."""
    return int(missed(result) is not None)


def _together(results: Sequence[Result], names: Sequence[str], said: Callable[[Result], Iterable[Note]]) -> list[Note]:
    """The notes of all results, each once; with the names of those that it is of, where it is not of all."""
    found: dict[Note, list[str]] = {}
    for name, result in zip(names, results, strict=True):
        for note in said(result):
            found.setdefault(note, []).append(name)
    return [
        note if len(of) == len(results) else replace(note, text=f"{', '.join(of)}: {note.text}")
        for note, of in found.items()
    ]
