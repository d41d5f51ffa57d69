"""The default screen of a result, 80 × 24: what ran where, the table, three facts with one command, what was checked, where it is saved.

Everything else is in the whole report, which ``--verbose`` prints and ``table.md`` and the page have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ortbench.analysis.findings.finding import Weight
from ortbench.analysis.findings.node_advice import short
from ortbench.analysis.loads.levels import asked_of, slo_text
from ortbench.analysis.noise import is_busy
from ortbench.analysis.residency import is_on_host
from ortbench.core import units
from ortbench.core.safe_text import first_of, listed, shortened
from ortbench.facts.fact import Fact
from ortbench.facts.findings import facts_of, shown
from ortbench.facts.sentences import SENTENCES, sentence
from ortbench.model.kinds import KINDS
from ortbench.model.modes import LATENCY
from ortbench.model.result import CHAIN, LOAD, LOOP, OK, SWEEP, Case, Result, not_ok
from ortbench.model.schema import Chain, LoadSetup, Loop
from ortbench.report.model import (
    BAD,
    UNCLEAR,
    Block,
    Findings,
    Heading,
    Note,
    Notes,
    Paragraph,
    Report,
    SavedIn,
)
from ortbench.report.phrases import device_name, eps, processes_in, result_name
from ortbench.report.screens.brief import FINDINGS, HEIGHT, lines_behind_signs
from ortbench.report.screens.tables import TABLES

_HEADINGS, _SPACES = 2, 6  # lines of a heading; empty ones and the prompt
_NOTES = 2  # warnings, and modes without figures
_SYNC = {
    "run": "session.run waits",
    "synchronize_outputs": "synchronize_outputs() waits",
    "readback": "a read-back waits",
}


def has_screen(result: Result) -> bool:
    """Whether a result has a screen of its own; a bandwidth curve is shown in brief."""
    return result.kind in TABLES


def screen(result: Result, folder: str | None) -> Report:
    facts = facts_of(result)
    doubts = [it for it in facts if SENTENCES[it.key].weight is Weight.DOUBT][:1]
    told = [it for it in facts if SENTENCES[it.key].weight in (Weight.GAIN, Weight.ANSWER)][:FINDINGS]
    notes = [*_unmeasured(result), *_warnings(result)]
    tables, head, last = TABLES[result.kind](result), heading(result), _checked(result)
    next_ = next((it.next for it in doubts or told if it.next), "")
    fixed = [next_, *head, *(sentence(it) for it in doubts), *(it.text for it in notes), last, folder or ""]
    room = (
        HEIGHT - lines_behind_signs(fixed) - sum(len(it.rows) + len(it.groups) + _HEADINGS for it in tables) - _SPACES
    )
    kept = next((it for it in told if it.next), None)  # what can be done
    while len(told) > 1 and lines_behind_signs(map(sentence, told)) > room:
        told.remove(told[-1] if told[-1] is not kept else told[-2])
    commands = doubts or told
    parts: list[Sequence[Block]] = [
        [Heading(head)],
        [Findings(shown(_one_command(doubts)), most=HEIGHT)] if doubts else [],
        *([it] for it in tables),
        [
            Findings(shown(_one_command(told) if commands is told else _without_commands(told)), most=HEIGHT),
            Notes(notes),
        ],
        [Paragraph(last), SavedIn(folder)],
    ]
    return Report(result_name(result) or result.model["path"], [part for part in parts if part])


def _one_command(facts: Sequence[Fact]) -> list[Fact]:
    """The facts with the first command alone, at the last of them."""
    command = next((it.next for it in facts if it.next), "")
    return [it._replace(next=command if it is facts[-1] else "") for it in facts]


def _without_commands(facts: Sequence[Fact]) -> list[Fact]:
    return [it._replace(next="") for it in facts]


def heading(result: Result) -> list[str]:
    """Two lines: the model with its inputs, or what is made of it; EP, device, threads, version and whether the machine was busy."""
    note = " ".join(str(result.note or "").split())
    target, threads = result.target, result.target.get("intra_op_threads")
    cores = result.environment["cpu"].get("usable_cores")
    where = units.count(threads, "thread") if threads else units.count(cores, "core") if cores else ""
    noise = "" if result.noise is None else "busy machine" if is_busy(result) else "quiet machine"
    ep = " and ".join(eps(result)) or f"{short(target['ep'])} EP on {device_name(result)}"
    said = (ep, where, f"ONNX Runtime {result.environment['onnxruntime']}", noise)
    of = _OF_KINDS.get(result.kind, _inputs)(result)
    return [f"{result.model['path']} ({of}){f': {note}' if note else ''}", ", ".join(filter(None, said))]


def _inputs(result: Result) -> str:
    return first_of([f"{shortened(it['name'])}: {_shape(it['shape'])}" for it in result.model["inputs"]], FINDINGS)


def _of_loop(result: Result) -> str:
    loop: Loop = result.part
    made = result.generation
    if made is None:
        return f"{units.count(loop['steps'], 'step')}, {first_of([' → '.join(it) for it in loop['feedback']], 1)}"
    depth = f" at depth {made['context']}" if made.get("context") else ""
    batch = f", batch {made['batch']}" if made["batch"] > 1 else ""
    return f"prompt {made['prompt']}, {units.count(made['tokens'], 'token')} generated{depth}{batch}"


def _of_chain(result: Result) -> str:
    chain: Chain = result.part
    stages = [it["name"] if it["repeat"] == 1 else f"{it['name']} ×{it['repeat']}" for it in chain["stages"]]
    return f"chain of {first_of(stages, FINDINGS)}"


def _of_load(result: Result) -> str:
    setup: LoadSetup = result.part
    asked = asked_of(result)
    where = {"shared": "one session", "own": "a session each", "process": "a process each"}.get(
        setup["sessions"], setup["sessions"]
    )
    arrivals = f", {setup['arrivals']} arrivals" if setup["arrivals"] else ""
    workers = f", {units.count(setup['workers'], 'worker')}" if arrivals else ""
    slo = f", SLO {slo_text(asked)}" if asked else ""
    return f"{_inputs(result)}; {where}{workers}{arrivals}, {setup['duration_s']:g} s each{slo}"


def _of_sweep(result: Result) -> str:
    return f"{first_of([it.name for it in result.shapes], FINDINGS)}"


_OF_KINDS: dict[str, Callable[[Result], str]] = {LOOP: _of_loop, CHAIN: _of_chain, LOAD: _of_load, SWEEP: _of_sweep}


def _shape(shape: list[int] | None) -> str:
    return "?" if shape is None else "x".join(map(str, shape)) or "scalar"


def _unmeasured(result: Result) -> Iterator[Note]:
    for modes, status, reason in list(not_ok(result.cases))[:_NOTES]:
        tone = BAD if status == "failed" else UNCLEAR
        yield Note(f"{modes} {status.replace('_', ' ')}: {reason}", "✗" if tone == BAD else "–", tone)


def _warnings(result: Result) -> Iterator[Note]:
    said = {"cpu-nodes", *KINDS[result.kind].replaced_warnings}
    found = [it["message"] for it in result.warnings if it["code"] not in said]
    for message in found[:_NOTES]:
        yield Note(f"warning: {message}", "!", UNCLEAR)
    if len(found) > _NOTES:
        yield Note(f"{units.count(len(found) - _NOTES, 'more warning')}: -v", "!", UNCLEAR)


def _checked(result: Result) -> str:
    """What was verified, in how many processes and how long it was measured, and where there is more."""
    timed = [it for it in result.cases if it.status == OK and it.median(LATENCY) is not None]
    said = []
    if (sync := result.target["sync"]) is not None:
        said.append(_SYNC.get(sync["kind"], f"{sync['kind']} waits"))
    equal = [it for it in timed if _passed(it, "outputs")]
    if len(equal) > 1:
        said.append(f"equal outputs in {len(equal)} modes")
    copied = [it.mode for it in timed if _passed(it, "zero_copy")]
    if copied and not is_on_host(result):
        said.append(f"{listed(copied)} zero-copy")
    took = "" if result.took_ns is None else f" in {units.seconds(result.took_ns)}"
    many = f" in {count} processes" if (count := processes_in(result)) else ""
    ended = "Interrupted" if result.stopped and result.stopped["reason"] == "interrupted" else "Measured"
    measured = f"{ended}{took}{many}; " if took or many else ""
    return f"Checked: {', '.join(said) or 'nothing'}. {measured}-v prints more."


def _passed(case: Case, name: str) -> bool:
    return (check := case.checks.get(name)) is not None and check["verdict"] == "passed"
