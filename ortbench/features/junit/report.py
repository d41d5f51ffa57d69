"""What passed and what did not, as JUnit XML, which CI systems list.

What those who read it do with it decides much here:

- GitLab shows ``classname`` as the suite, drops a test whose names another one has had, and reads what a failure, error
  or skip says from the element's content (its documentation, "Unit test reports"); Jenkins also shows ``message``, and
  takes what stands before the last dot of ``classname`` for a package (junit-plugin, ``CaseResult``).
- Jenkins' xUnit plugin refuses a file that its ``junit-10.xsd`` does not allow. Its releases differ; all of them take
  times without an exponent, and none takes ``skipped`` on the outermost element. The older ones take three decimals of a
  second and no more; there are six here all the same, because many inferences take less than a millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ortbench.analysis.derive import cpu_time_ns, figure
from ortbench.analysis.series import value_of
from ortbench.core.errors import one_line
from ortbench.core.features import part_of
from ortbench.core.safe_text import visible_lines
from ortbench.core.units import duration, energy, size
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check
from ortbench.model import modes
from ortbench.model.kinds import kind_of
from ortbench.model.metrics import TIME, known_or_plain
from ortbench.model.metrics import figure as figure_of
from ortbench.model.result import OK, UNSUPPORTED, Case, Result
from ortbench.report.comparison import placed_and_warned
from ortbench.report.model import Findings
from ortbench.report.parts import doubt_part, noise_part
from ortbench.report.records import Part, Publication, number_repeated, plain_line, samples_text

ERROR, SKIPPED = "error", "skipped"  # beside the verdicts of `ortbench.features.gate.gates`


@dataclass(frozen=True)
class Outcome:
    """One thing that passed or did not, as CI systems list it."""

    group: str  # what it belongs to, for people: ``models/tiny.onnx on CPUExecutionProvider``
    name: str  # what it is, within the group: ``device-tensors``, ``device-tensors latency median``
    verdict: str  # `PASSED`, `FAILED`, `UNCLEAR`, `ERROR` or `SKIPPED`
    text: str  # what to say; any characters, any number of lines
    seconds: float  # a time to show, s; 0 where there is none


def outcomes_of_run(result: Result, label: str = "") -> list[Outcome]:
    """One outcome a mode, of a load a level, of a sweep a mode of each shape, in the result's order: measured, unsupported (`SKIPPED`) or failed (`ERROR`).

    The time of what was measured is the median of its whole inferences.
    """
    group = _group(result) + (f", {label}" if label else "")
    if (words := part_of(result.kind, "report", "case_words")) is not None:
        known = {case.mode for case in result.cases if case.point}
        missing = [_outcome_of_case(group, case) for case in result.at_point() if case.mode not in known]
        return [*missing, *(_outcome_of_point(group, case, *words(case)) for case in result.cases if case.point)]
    if not kind_of(result.kind).many_shapes:
        return [_outcome_of_case(group, case) for case in result.cases]
    return [
        replace(_outcome_of_case(group, case), name=f"{shape.name}: {case.mode}")
        for shape in result.shapes
        for case in result.at_point(shape.point)
    ]


def outcomes_of_checks(result: Result, checks: Sequence[Check]) -> list[Outcome]:
    """One outcome a check of a gate, in their order.

    The time of a check of a time is that of the result.
    """
    group = _group(result)
    return [Outcome(group, check.name, check.verdict, check.text, _seconds(result, check)) for check in checks]


def _group(result: Result) -> str:
    return f"{result.model['path']} on {result.target['ep']}"


def _outcome_of_case(group: str, case: Case) -> Outcome:
    if case.status != OK:
        verdict = SKIPPED if case.status == UNSUPPORTED else ERROR
        return Outcome(group, case.mode, verdict, case.reason or "no reason is known", 0.0)
    stats = case.stats(modes.LATENCY)
    if stats is None:  # interrupted before its turn; green would say that it works
        return Outcome(group, case.mode, ERROR, "nothing was measured", 0.0)
    low, high = map(duration, stats.ci95)
    text = f"{duration(stats.median)} (95% CI {low} to {high}), median of {samples_text(case, modes.LATENCY, stats)}"
    if costs := _costs(case):
        text += f"\n{', '.join(costs)}"
    return Outcome(group, case.mode, PASSED, text, stats.median / 1e9)


def _costs(case: Case) -> list[str]:
    """What a run costs besides its time, as far as it is known."""
    enqueue, spent, joules = case.median(modes.ENQUEUE), cpu_time_ns(case), case.value(modes.ENERGY)
    found = [] if enqueue is None else [f"enqueue {duration(enqueue)}"]
    found += [] if spent is None else [f"CPU time {duration(spent)}"]
    found += [
        f"{owner} memory {size(bytes_)}" for owner in modes.MEMORY_OWNERS if (bytes_ := figure(case, owner)) is not None
    ]
    return found if joules is None else [*found, f"energy per inference {energy(joules)}"]


def _outcome_of_point(group: str, case: Case, name: str, text: str) -> Outcome:
    latency = case.stats(modes.LATENCY)
    if not text or latency is None:
        return Outcome(group, name, ERROR, case.reason or "no reason is known", 0.0)
    return Outcome(group, name, PASSED, text, latency.median / 1e9)


def _seconds(result: Result, check: Check) -> float:
    """What a check is of, where that is a time, s; else 0."""
    if check.metric is None or check.mode is None:
        return 0.0
    figure, case = figure_of(check.metric), result.case(check.mode, check.point)
    ns = value_of(case, figure) if case is not None and known_or_plain(figure.metric).unit is TIME else None
    return (ns or 0.0) / 1e9


def junit_file(publication: Publication, _: str) -> str:
    notes = _notes(publication)
    of_all = [f"{group}: {note}" if group else note for group, of_group in notes.items() for note in of_group]
    return junit_xml(publication.title, outcomes_of(publication, notes), of_all, publication.seconds)


def outcomes_of(publication: Publication, known_notes: Mapping[str, Sequence[str]] | None = None) -> list[Outcome]:
    """Those of all parts, baselines at the end, with the `_notes` of the publication."""
    notes = _notes(publication) if known_notes is None else known_notes
    parts = sorted(publication.parts, key=lambda part: part.is_baseline)
    return [outcome for part in parts for outcome in _outcomes_of_part(part, publication.why, notes[part.group])]


def _notes(publication: Publication) -> dict[str, list[str]]:
    """What was wrong with the machine, and what results warn of, by the group of parts that were measured together, such as a suite's case."""
    parts = publication.parts
    groups = dict.fromkeys(part.group for part in parts)
    return {group: _notes_of([part for part in parts if part.group == group]) for group in groups}


def _notes_of(parts: Sequence[Part]) -> list[str]:
    """What was wrong with the machine, and what results that were measured together warn of."""
    results = [part.result for part in parts if part.result is not None]
    names = [part.name for part in parts if part.result is not None]
    if not results:
        return []
    blocks = [block for it in (noise_part(results), doubt_part(results, names)) for part in it for block in part]
    doubts = [it.text for block in blocks if isinstance(block, Findings) for it in block.findings]
    return [*doubts, *(it.text for it in placed_and_warned(results, names) if it.tone)]


def _outcomes_of_part(part: Part, why: str, notes: Sequence[str]) -> list[Outcome]:
    """The modes of a result and the checks of its gate, those that failed with `why`, those that did not pass with `notes`; of a baseline
    what failed; and why there is none."""
    outcomes = [] if part.result is None else outcomes_of_run(part.result, part.label)
    if part.is_baseline:
        return [replace(it, name=f"baseline {it.name}") for it in outcomes if it.verdict == ERROR]
    for check in [] if part.result is None else outcomes_of_checks(part.result, part.checks):
        more = [why] * (bool(why) and check.verdict == FAILED) + [*notes] * (check.verdict != PASSED)
        outcomes.append(replace(check, text="\n".join([check.text, *more])))
    if (failure := part.failure) is not None:
        verdict = SKIPPED if failure.is_skipped else ERROR
        outcomes.append(Outcome(part.group, failure.name, verdict, failure.reason, failure.seconds))
    return [replace(it, group=part.group) for it in outcomes] if part.group else outcomes


def junit_xml(
    name: str, outcomes: Sequence[Outcome], notes: Sequence[str] = (), whole_seconds: float | None = None
) -> str:
    """Outcomes as a JUnit XML document with one suite, in their order.

    `FAILED` becomes ``<failure>``, `ERROR` and `UNCLEAR` become ``<error>`` (a verdict that is missing must not look
    green), `SKIPPED` ``<skipped>``; what passed says its text in ``<system-out>``. ``classname`` is the suite's name, a
    dot and the group, with every other dot replaced, so that the dots of file names make no packages. Names that have
    occurred before get a number. Texts are `ortbench.core.safe_text.visible_lines`, which leaves
    out all that XML cannot hold. Times are s, to the microsecond: of the whole the `whole_seconds` that it took, if they are known.
    The suite's own ``<system-out>`` has the `notes`.
    """
    classes = [".".join(plain_line(part).replace(".", "_") for part in (name, outcome.group)) for outcome in outcomes]
    names = number_repeated(
        [(group, plain_line(outcome.name)) for group, outcome in zip(classes, outcomes, strict=True)]
    )
    tags = [_TAGS.get(outcome.verdict) for outcome in outcomes]
    failures, errors, skipped = ({count: str(tags.count(tag))} for tag, count in _COUNTED.items())
    first = {"name": plain_line(name), "tests": str(len(outcomes))}
    time = {} if whole_seconds is None else _seconds_text(whole_seconds)
    report = Element("testsuites", first | failures | errors | time)
    suite = SubElement(report, "testsuite", first | errors | failures | skipped | time)
    for group, label, outcome, tag in zip(classes, names, outcomes, tags, strict=True):
        case = SubElement(suite, "testcase", {"name": label, "classname": group} | _seconds_text(outcome.seconds))
        text = visible_lines(outcome.text).strip() or outcome.verdict
        about = {} if tag is None else {"message": one_line(text), "type": outcome.verdict}
        SubElement(case, tag or "system-out", about).text = text
    if notes:  # last, as JUnit's own schema has it
        SubElement(suite, "system-out").text = "\n".join(map(visible_lines, notes))
    indent(report)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(report, encoding="unicode")}\n'


_TAGS = {FAILED: "failure", UNCLEAR: "error", ERROR: "error", SKIPPED: "skipped"}
_COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def _seconds_text(seconds: float) -> dict[str, str]:
    return {"time": f"{seconds:.6f}"}  # never an exponent
