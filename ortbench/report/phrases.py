"""What every report says in the same words: what ran where, on which device, with which synchronization, what went wrong, and figures in cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from ortbench.analysis.advice import Weight
from ortbench.analysis.items import dims_of, is_batch
from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.core.safe_text import shorten
from ortbench.facts.run import facts_of, findings_of, repeated_warnings
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import known_or_plain
from ortbench.model.result import FAILED, OK, Case, Result, not_ok
from ortbench.model.schema import (
    NVIDIA,
    Device,
    Memory,
    Stopped,
    Target,
    Tensor,
    kind,
)
from ortbench.model.settings import OF_SESSION, setting_words, variables_line
from ortbench.report.model import (
    BAD,
    NOTHING,
    UNCLEAR,
    Block,
    Command,
    Findings,
    Heading,
    Hint,
    Known,
    Note,
    Notes,
    Report,
    SavedIn,
)

PAIRS = 3  # that a heading names
HINT = Hint("ortbench explain WORD explains a column, a mode or a verdict")


def heading(result: Result) -> list[str]:
    """The lines above the table: model and note, EP, device, versions, synchronization, environment variables."""
    target = result.target
    shapes = part_of(result.kind, "report", "inputs_line", inputs_line)(result)
    note = " ".join(str(result.note or "").split())
    lines = [f"{result.model['path']} ({shapes}){f': {note}' if note else ''}", ep_line(result)]
    if line := own_line(result):
        lines.insert(1, line)
    if (sync := target["sync"]) is not None:
        cost = f", {units.duration(sync['cost_ns'])}" if sync["cost_ns"] else ""
        lines.append(f"synchronization (verified): {SYNC.get(sync['kind'], sync['kind'])}{cost}")
    lines[-1] += f"; {memory_said(target)}"
    if (clocks := result.environment.get("locked_clocks")) is not None:
        lines[-1] += f"; clocks locked to {clocks if isinstance(clocks, str) else f'{clocks} MHz'}"
    if result.stopped is not None:
        lines[-1] += f"; {end_text(result.stopped, result.took_ns, processes_in(result))}"
    if options := setting_words((it for it in OF_SESSION if it.attribute), target):
        lines.append(f"session options: {shorten(' '.join(options))}")
    if (recorded := variables_line(result.environment)) is not None:
        lines.append(f"environment: {recorded}")
    return lines


def processes_in(result: Result) -> int:
    """In how many processes a result was measured; 0 where it was one."""
    return max((len(it.first_rounds) for it in result.cases), default=0)


def inputs_line(result: Result) -> str:
    many = kind_of(result.kind).many_shapes
    named = [f"{shorten(tensor['name'])}: {shape_text(tensor, many)}" for tensor in result.model["inputs"]]
    return ", ".join(named) + first_of_shapes(result)


def first_of_shapes(result: Result) -> str:
    """That the shapes of a heading are the first of several, of a soak or a load that mixes shapes; else nothing."""
    part = result.part
    count = len({*part.get("requests", ())} or part.get("shapes", ())) if isinstance(part, dict) else 0
    return f"; the first of {count} shapes" if count > 1 else ""


def mode_name(case: Case) -> str:
    """What a table calls a case: one that failed keeps what was measured of it."""
    return case.mode if case.status == OK else f"{case.mode} (failed)"


ORDERS = {"random": "random order", "cycle": "turns"}


def own_line(result: Result) -> str:
    """The line of a heading that says what its kind is of; empty where there is nothing to say."""
    line: str = part_of(result.kind, "report", "own_line", lambda _: "")(result)
    return line


# What each reason for an end comes to.
_ENDS = {
    "interrupted": "interrupted",
    "precision": "every median known to ±{percent:g} %",
    "agreement": "processes agree within ±{percent:g} %",
    "processes": "processes do not agree within ±{percent:g} %",
    "duration": "time is up ({value:g} s{per})",
    "iterations": "iterations done ({value:g}{per})",
    "samples": "as many samples as are kept ({value:g}{per})",
    "verdict": "every check is decided",
    "completed": "everything was measured",
    "nothing_left": "nothing left to measure",
}


def end_text(stopped: Stopped, took_ns: int | None, processes: int = 0) -> str:
    """How a measurement ended, and after so many ns, if that is known: ``ended after 0.15 s: every median known to ±1 %``."""
    after = "" if took_ns is None else f" after {units.seconds(took_ns)}"
    after += f" in {processes} processes" if processes else ""
    value, per = stopped.get("value", 0.0), f" per {stopped['per']}" if "per" in stopped else ""
    template = _ENDS.get(stopped["reason"])
    said = template and template.format(value=value, percent=value * 100, per=per)
    return f"ended{after}: {said or stopped.get('message', stopped['reason'])}"


def said_once(pairs: Iterable[tuple[Known, str]]) -> dict[Known, list[str]]:
    """Each thing that is said once, with all that it is said of."""
    found: dict[Known, list[str]] = {}
    for said, of in pairs:
        found.setdefault(said, []).append(of)
    return found


def measured_report(
    what: str,
    result: Result,
    parts: Iterable[Sequence[Block]],
    failures: Sequence[Note],
    further: Iterable[Sequence[Block]],
    folder: str | None,
) -> Report:
    """The report of a result: its heading, what makes its figures doubtful, its parts, what is said of it, the `further` parts, and last
    the command, for files, and where it was saved."""
    facts = facts_of(result)
    found = findings_of(facts)
    doubts = [it for it in found if it.weight is Weight.DOUBT]
    rest = [it for it in found if it not in doubts]
    said: list[Block] = [Notes(failures)] if failures else []
    said += [Findings(rest)] if rest else []
    warned = warnings(result, repeated_warnings(facts))
    said += [Notes(warned)] if warned else []
    title = f"{what}: {result_name(result) or result.model['path']}"
    before: list[Sequence[Block]] = [[Heading(heading(result))], *([[Findings(doubts)]] if doubts else [])]
    return Report(title, [*before, *parts, said, *further, [HINT, Command(result.command), SavedIn(folder)]])


def result_name(result: Result) -> str:
    """The name that a result was given, on one line; nothing without."""
    return " ".join(str(result.name or "").split())


def memory_said(target: Target) -> str:
    """Which memory EPs have, whether a mode binds all of it or not."""
    if "eps" in target:
        return "memory: " + ", ".join(f"{_memory_name(it['memory'])} of {it['ep']}" for it in target["eps"])
    memory = target["memory"]
    return f"memory{' of the EP' if memory['kind'] == 'ep-device' else ''}: {_memory_name(memory)}"


def shape_text(tensor: Tensor, of_sweep: bool = False) -> str:
    """The shape of a tensor; of a sweep as the model has it, where it is not the same in all its shapes."""
    if "tensors" in tensor:
        return sequence(tensor["tensors"])
    if tensor["shape"] is None:
        sizes = [shorten(str(size)) for size in dims_of(tensor) if of_sweep]
        return f"[{', '.join(sizes)}]" if sizes else str(tensor["type"])
    return "x".join(map(str, tensor["shape"])) or "scalar"


def sequence(shapes: Sequence[Sequence[int]]) -> str:
    """How many tensors a sequence has, and their shapes, as long as they are few."""
    different = list(dict.fromkeys("x".join(map(str, shape)) or "scalar" for shape in shapes))
    of = f" of {' and '.join(different)}" if 0 < len(different) <= 2 else " of several shapes" if different else ""
    return f"{units.count(len(shapes), 'tensor')}{of}"


SYNC = {
    "run": "session.run waits",
    "synchronize_outputs": "synchronize_outputs() waits",
    "readback": "a read-back waits",
}


def ep_line(result: Result) -> str:
    """EP, its library, device and versions."""
    ep = " and ".join(eps(result)) or with_device(result.target, device_name(result))
    chosen = f" (chosen by {policy})" if (policy := result.target.get("policy")) else ""
    python = result.target.get("python")
    where = "" if python is None else f" of {python}"
    return f"{ep}{chosen}, ONNX Runtime {result.environment['onnxruntime']}{where}"


def eps(result: Result) -> list[str]:
    """Each EP that has nodes, on which device and with what share of them, where several have; else none."""
    found = result.target.get("eps", ())
    return [
        f"{with_device(ep, hardware_name(ep['device'], result))} ({units.share(ep['share'])} of nodes)" for ep in found
    ]


def with_device(ep: Mapping[str, object], device: str) -> str:
    """An EP, its version and library, and the device that it is on."""
    named = f"{ep['ep']} {ep.get('ep_version') or ''}".strip()
    if library := ep.get("ep_library"):  # EPs of two libraries can have one name
        module, *inside = re.split(r"[/\\]", str(library))
        named += f" of {module if inside and module.startswith('onnxruntime') else library}"
    return f"{named} on {device}"


def _memory_name(memory: Memory) -> str:
    default = "no device memory" if memory["kind"] == "none" else memory["default"]
    by_name = "device by name " if memory["kind"] == "named-device" else ""
    return by_name + " and ".join(filter(None, (default, memory["host_accessible"])))


def device_name(result: Result) -> str:
    return hardware_name(result.target["device"], result)


def hardware_name(device: Device, result: Result) -> str:
    """A device of the machine that a result is from, in a few words."""
    if device["type"] == "CPU":
        return str(result.environment["cpu"]["model"])
    if "software" in device:
        return f"software {device['type']} ({device['software']})"
    gpus = [gpu["name"] for gpu in result.environment["gpus"] if "name" in gpu]
    if device.get("vendor_id") == NVIDIA and len(gpus) == 1:
        return f"{device['type']} {gpus[0]}"
    if "vendor_id" not in device:
        return f"{device['type']} {device['name']}" + ("" if device["index"] is None else f":{device['index']}")
    return f"{kind(device)} {device['vendor_id']:04x}:{device['device_id']:04x}"


def not_measured(result: Result, name: str = "") -> list[Note]:
    """Why modes have no figures, or none that count; after the result's name, where there is one."""
    before = f"{name}: " if name else ""
    return [
        Note(
            f"{before}{modes} {status.replace('_', ' ')}: {reason}",
            *(("✗", BAD) if status == FAILED else ("–", UNCLEAR)),
        )
        for modes, status, reason in not_ok(result.cases)
    ]


def warnings(measured: Result, said: Collection[str] = ()) -> list[Note]:
    """What to bear in mind, without warnings of codes that are `said` otherwise."""
    messages = [warning["message"] for warning in measured.warnings if warning["code"] not in said]
    return [Note(f"warning: {message}", "!", UNCLEAR) for message in messages]


def remark(text: str) -> Note:
    """What to bear in mind of a report that is no result's own."""
    return Note(text, "!", UNCLEAR)


def cell(case: Case, key: str) -> str:
    """The one number of a metric with its unit."""
    value = case.value(key)
    return NOTHING if value is None else known_or_plain(key).unit.text(value)


def has_items(results: Sequence[Result]) -> bool:
    """Whether one of them has several items, so that there is something to show."""
    return any(is_batch(result.items) for result in results)
