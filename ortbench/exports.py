"""CI's own formats: JUnit XML, the JSON of github-action-benchmark, and GitHub's job summary. Pure but for the summary.

What those who read them do with them decides much here:

- GitLab shows ``classname`` as the suite, drops a test whose names another one has had, and reads what a failure, error
  or skip says from the element's content (its documentation, "Unit test reports"); Jenkins also shows ``message``, and
  takes what stands before the last dot of ``classname`` for a package (junit-plugin, ``CaseResult``).
- Jenkins' xUnit plugin refuses a file that its ``junit-10.xsd`` does not allow. Its releases differ; all of them take
  times with at most three decimals and no exponent, and none takes ``skipped`` on the outermost element.
- github-action-benchmark tells series apart by name alone, compares a value with that of the commit before under the
  same name, and puts names in code spans of a Markdown table (its ``src/write.ts`` and ``src/extract.ts``).
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ortbench.errors import BadInput, one_line
from ortbench.gate import FAILED, PASSED, UNCLEAR, Check
from ortbench.pairs import timed_phase
from ortbench.plan import is_rate
from ortbench.result import OK, PHASE_NAMES, UNSUPPORTED, Case, Result
from ortbench.schedule import TOTAL
from ortbench.stats import Stats
from ortbench.table import NOTHING, SAMPLES_FOR, device_name
from ortbench.units import duration

ERROR, SKIPPED = "error", "skipped"  # beside the verdicts of `ortbench.gate`

ACTION_UNIT = "ms"
_NS_PER_ACTION_UNIT = 1e6

# GitHub's runner drops the whole summary of a step that is larger: actions/runner, `CreateStepSummaryCommand`.
SUMMARY_LIMIT = 1024 * 1024
SUMMARY_CUT = "Cut here: GitHub takes at most 1 MiB of summary from a step. The whole report is saved with the result."

# Everything but what XML 1.0 calls a character (its production 2); that leaves out lone surrogates too.
_NOT_IN_XML = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Outcome:
    """One thing that passed or did not, as CI systems list it.

    Attributes:
        group: what it belongs to, for people: ``models/tiny.onnx on CPUExecutionProvider``.
        name: what it is, within the group: ``device``, ``device total median``.
        verdict: `PASSED`, `FAILED`, `UNCLEAR`, `ERROR` or `SKIPPED`.
        text: what to say; any characters, any number of lines.
        seconds: a time to show, s; 0 where there is none.
    """

    group: str
    name: str
    verdict: str
    text: str
    seconds: float


def outcomes_of_run(result: Result) -> list[Outcome]:
    """One outcome a mode, in the result's order: measured, unsupported (`SKIPPED`) or failed (`ERROR`).

    The time of a mode that was measured is the median of its whole inferences.
    """
    return [_outcome_of_case(_group(result), case) for case in result.cases]


def outcomes_of_checks(result: Result, checks: Sequence[Check]) -> list[Outcome]:
    """One outcome a check of a gate, in their order.

    The time of a check that is named after a figure (``device total median``) is that figure of the result.

    Args:
        result: what was checked, the candidate.
        checks: what `ortbench.gate` found.
    """
    group = _group(result)
    return [Outcome(group, check.name, check.verdict, check.text, _seconds(result, check)) for check in checks]


def _group(result: Result) -> str:
    return f"{result.model['path']} on {result.target['ep']}"


def _outcome_of_case(group: str, case: Case) -> Outcome:
    if case.status != OK:
        verdict = SKIPPED if case.status == UNSUPPORTED else ERROR
        return Outcome(group, case.mode, verdict, case.reason or "no reason is known", 0.0)
    stats = case.phases[TOTAL]
    if stats is None:  # interrupted before its turn; green would say that it works
        return Outcome(group, case.mode, ERROR, "nothing was measured", 0.0)
    low, high = map(duration, stats.ci95_ns)
    text = f"{duration(stats.median_ns)} (95 %: {low} to {high}), median of {_samples(case, TOTAL, stats)}"
    return Outcome(group, case.mode, PASSED, text, stats.median_ns / 1e9)


def _samples(case: Case, phase: str, stats: Stats) -> str:
    """How many samples there are, and what of."""
    if case.pipeline is not None and is_rate(case.mode, phase):
        return f"{stats.n} rounds with {case.pipeline['depth']} items in flight, time per item"
    if is_rate(case.mode, phase):
        return f"{stats.n} bursts of {case.runs_per_sample} runs, time per run"
    return f"{stats.n} runs"


def _seconds(result: Result, check: Check) -> float:
    parts = check.name.split(" ")
    case = result.case(parts[0])
    if case is None or len(parts) != 3:
        return 0.0
    ns: int = getattr(case.phases.get(parts[1]), f"{parts[2]}_ns", 0)
    return ns / 1e9


# JUnit XML


def outcomes_of_gate(results: Sequence[Result], checks: Sequence[Check]) -> list[Outcome]:
    """The candidate's modes, the gate's checks, and what failed of the baseline.

    Args:
        results: of the candidate and, where there is one, of the baseline.
        checks: the gate's.
    """
    candidate, *baselines = results
    broken = [outcome for it in baselines for outcome in outcomes_of_run(it) if outcome.verdict == ERROR]
    named = [replace(outcome, name=f"baseline {outcome.name}") for outcome in broken]
    return [*outcomes_of_run(candidate), *outcomes_of_checks(candidate, checks), *named]


def junit(name: str, outcomes: Sequence[Outcome]) -> str:
    """Outcomes as a JUnit XML document with one suite, in their order.

    `FAILED` becomes ``<failure>``, `ERROR` and `UNCLEAR` become ``<error>`` (a verdict that is missing must not look
    green), `SKIPPED` ``<skipped>``; what passed says its text in ``<system-out>``. ``classname`` is the suite's name, a
    dot and the group, with every other dot replaced, so that the dots of file names make no packages. Names that have
    occurred before get a number. Characters that XML cannot hold are replaced by U+FFFD. Times are s, to the millisecond.

    Args:
        name: of the suite.
        outcomes: any number of them.
    """
    from xml.dom import minidom

    from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

    elements = {FAILED: Failure, UNCLEAR: Error, ERROR: Error, SKIPPED: Skipped}
    suite = TestSuite(_line(name))
    classes = [".".join(_line(part).replace(".", "_") for part in (name, outcome.group)) for outcome in outcomes]
    names = _told_apart([(group, _line(outcome.name)) for group, outcome in zip(classes, outcomes, strict=True)])
    cases = []
    for group, label, outcome in zip(classes, names, outcomes, strict=True):
        case = TestCase(label, group, round(outcome.seconds, 3))
        text = _plain(outcome.text).strip() or outcome.verdict
        if outcome.verdict == PASSED:
            case.system_out = text
        else:
            found = elements[outcome.verdict](one_line(text), outcome.verdict)
            found.text = text
            case.result = [found]
        cases.append(case)
    suite.add_testcases(cases)
    report = JUnitXml(_line(name))
    report.add_testsuite(suite)
    # Not update_statistics(), which would add `skipped`.
    report.tests, report.failures, report.errors, report.time = suite.tests, suite.failures, suite.errors, suite.time
    file = io.BytesIO()
    report.write(file)  # its own pretty=True takes no open file before version 4
    return minidom.parseString(file.getvalue()).toprettyxml(indent="  ", encoding="utf-8").decode()


def _plain(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


def _line(text: str) -> str:
    return " ".join(_plain(text).split())


def _told_apart(labels: Sequence[tuple[str, str]]) -> list[str]:
    """The second of each pair, with a number where the pair has occurred before."""
    taken: set[tuple[str, str]] = set()
    found = []
    for group, label in labels:
        name, number = label, 1
        while (group, name) in taken:
            number += 1
            name = f"{label} ({number})"
        taken.add((group, name))
        found.append(name)
    return found


# github-action-benchmark


def action_json(results: Sequence[Result]) -> str:
    """Every median that was measured, as github-action-benchmark reads it with ``tool: customSmallerIsBetter``.

    A JSON list with one object for each phase of each mode that is ok, ``total`` first: ``name``; ``unit``, always
    "ms"; ``value``, the median in ms; ``range``, "± x" with x in ms, as far as the farther end of its 95 % interval;
    ``extra``, lines for the tooltip. Where inference is all there is to a mode, its total stands for both. The list is
    empty if nothing was measured, which the action takes for an error.

    A name is that of the model's file, the EP, the device, the mode and the phase: no figure, time or version, so it is
    the same in the next run. The device is part of it because times of two machines are no history of each other. Input
    shapes are added only where a model and EP have several results here; then a number tells apart what is still alike.
    """
    entries = [
        _entry(label, result, case, phase, stats)
        for label, result in zip(_labels(results), results, strict=True)
        for case in result.cases
        if case.status == OK
        for phase in (TOTAL, *(name for name in PHASE_NAMES if name != TOTAL))
        if (stats := case.phases[phase]) is not None and timed_phase(case.mode, phase) == phase
    ]
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _entry(label: str, result: Result, case: Case, phase: str, stats: Stats) -> dict[str, str | float]:
    beyond = max(abs(end - stats.median_ns) for end in stats.ci95_ns)
    return {
        "name": f"{label}: {case.mode} {phase}",
        "unit": ACTION_UNIT,
        "value": stats.median_ns / _NS_PER_ACTION_UNIT,
        "range": f"± {_decimal(beyond)}",
        "extra": _extra(result, case, phase, stats),
    }


def _decimal(ns: int) -> str:
    """Nanoseconds in ms, to the last digit and without an exponent."""
    return f"{ns / _NS_PER_ACTION_UNIT:.6f}".rstrip("0").rstrip(".")


def _extra(result: Result, case: Case, phase: str, stats: Stats) -> str:
    known = stats.n >= SAMPLES_FOR["p95"] and not is_rate(case.mode, phase)
    p95 = f"{_decimal(stats.p95_ns)} {ACTION_UNIT}" if known else NOTHING
    versions = [
        f"ortbench {result.tool['version']}",
        f"ONNX Runtime {result.environment['onnxruntime']}",
        " ".join(filter(None, (result.target["ep"], result.target.get("ep_version")))),
    ]
    lines = [f"median of {_samples(case, phase, stats)}, p95 {p95}", ", ".join(versions), shlex.join(result.command)]
    return "\n".join(_line(line) for line in lines if line)


def _labels(results: Sequence[Result]) -> list[str]:
    """For each result: model, EP, device, and what else tells it apart from the others."""
    paths = [str(result.model["path"]) for result in results]
    files = [re.split(r"[/\\]", path)[-1] for path in paths]
    homonyms = Counter(file for _, file in set(zip(paths, files, strict=True)))
    # model.onnx is what many models are called: then the folder is what tells them apart.
    models = [path if homonyms[file] > 1 else file for path, file in zip(paths, files, strict=True)]
    targets = [(model, result.target["ep"]) for model, result in zip(models, results, strict=True)]
    several = Counter(targets)
    labels = []
    for (model, ep), result in zip(targets, results, strict=True):
        shapes = _shapes(result) if several[model, ep] > 1 else ""
        # Names stand in code spans of a Markdown table.
        labels.append(re.sub("[`|]", "_", _line(f"{model}{shapes} on {ep} ({device_name(result)})")))
    return _told_apart([("", label) for label in labels])


def _shapes(result: Result) -> str:
    shapes = {tensor["name"]: tensor["shape"] for tensor in result.model["inputs"] if tensor["shape"] is not None}
    listed = ", ".join(f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items())
    return f" ({listed})" if listed else ""


# GitHub's job summary


def step_summary(markdown: str, environ: Mapping[str, str]) -> bool:
    """Append a report to the summary of a GitHub Actions step, where there is one.

    A step has `SUMMARY_LIMIT` bytes, of which earlier commands may have used some; what does not fit is left out by whole
    lines, and a last line says so.

    Args:
        markdown: the report.
        environ: environment variables; ``GITHUB_STEP_SUMMARY`` names the file.

    Returns:
        Whether something was written: False without the variable, or where not even the last line fits.

    Raises:
        BadInput: the file cannot be written.
    """
    path = environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return False
    text = markdown.encode(errors="replace")
    if not text.endswith(b"\n"):
        text += b"\n"
    try:
        with open(path, "a+b") as file:  # bytes, because bytes are what is counted
            size = file.seek(0, os.SEEK_END)
            if size > 0:
                file.seek(size - 1)
                text = text if file.read(1) == b"\n" else b"\n" + text
            text = _fitting(text, SUMMARY_LIMIT - size)
            file.write(text)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or one_line(error)
        raise BadInput(f"GITHUB_STEP_SUMMARY: cannot write {path!r}: {reason}") from None
    return bool(text)


def _fitting(text: bytes, room: int) -> bytes:
    if len(text) <= room:
        return text
    cut = f"\n{SUMMARY_CUT}\n".encode()  # the blank line ends a table
    if len(cut) > room:
        return b""
    return text[: text.rfind(b"\n", 0, room - len(cut)) + 1] + cut
