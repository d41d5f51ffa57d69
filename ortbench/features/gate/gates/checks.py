"""What finished results show by themselves: modes, nodes, memory, speedups, copies, SLOs, outputs; and the verdict of all checks. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ortbench.analysis.derive import DEVICE, KEY, computes_on_host, figure, why_unknown
from ortbench.analysis.items import failures_of, point_as_result
from ortbench.analysis.noise import more_rounds
from ortbench.analysis.outputs import doubt, is_synthetic, reference_of, worst
from ortbench.analysis.speedups import HANDED_ON, handing_on
from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BENCHMARK_FAILED, CANNOT_TELL, DONE, REGRESSION, BadInput
from ortbench.core.features import part_of
from ortbench.facts import Explanation, Fact, Values, bytes_of, noise_facts, record, share
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check, check_by, phrase
from ortbench.features.gate.gates import (
    CANDIDATE,
    CONFIDENCE,
    RatioTest,
    SequentialTests,
    add_cases,
    name_at,
    own_ratio_tests,
    ratio_of,
    refuse_copy_share,
)
from ortbench.features.gate.plan import COMPARED_WITH_NONE, Limits
from ortbench.model.kinds import kind_of, kinds
from ortbench.model.metrics import metric
from ortbench.model.modes import CPU, DEVICE_MEMORY, HOST_MEMORY, MEMORY_OWNERS
from ortbench.model.result import OK, Case, Result, work_of
from ortbench.plan.options import (
    LOOP,
    RawOptions,
    baseline_option,
    flags_of_kinds,
    limits_of_kinds,
    options_for,
    options_of,
)
from ortbench.plan.plan import PLAN

NODES = "cpu nodes"  # the check of those that fall back to the CPU
_METRIC = dict(zip(MEMORY_OWNERS, (DEVICE_MEMORY, HOST_MEMORY), strict=True))


def check_alone(result: Result, limits: Limits) -> list[Check]:
    """Everything that needs no baseline; `BadInput` for a mode that a limit needs and a limit that there is not."""
    refuse_limits(result.kind, limits)
    slo_checks = part_of(result.kind, "gates", "slo_checks")(result, limits) if limits.slo else ()
    return [*check_facts(result, limits), *_check_modes(result, limits), *slo_checks]


def refuse_limits(kind: str, limits: Limits) -> None:
    known = kind_of(kind)
    if limits.slo and "slo" not in known.checks:
        raise BadInput("--slo is a limit of a load or a sweep: 'ortbench load' makes a result to check", "--slo")
    for flag in limits.own:
        if flag not in known.checks:
            of_kind, _ = limits_of_kinds()[flag]
            reason = f"is of {kind_of(of_kind).noun}: 'ortbench {of_kind}' makes a result to check"
            raise BadInput(f"--{flag} {reason}", f"--{flag}")
    refuse_copy_share(limits, kind, known.noun)


def refuse_unchecked(kind: str, given: RawOptions) -> None:
    """Refuse limits that need no baseline, before results of a kind are measured that cannot be checked for them."""
    known = kind_of(kind)
    for flag in dict.fromkeys(flag for it in kinds().values() for flag in it.checks):
        if flag in given and flag not in known.checks:
            raise BadInput(f"--{flag}: {known.noun} is checked for {', '.join(known.checks)} only", f"--{flag}")


def refuse_others(command: str, given: RawOptions) -> None:
    """Refuse (`BadInput`) options that are not for what a command measures; a gate has its own duration."""
    names, own = [], {it.flag for it in options_for(command)}
    of_gate = [it for it in options_for("gate") if it.texts.panel == LOOP]
    for option in (*options_of(*PLAN), *of_gate):
        for one in (option, baseline_option(option)):
            if one.flag in given and option.flag not in own and option.flag != "duration":
                names.append(one.name)
    for kind, flags in flags_of_kinds().items():
        names += [f"--{flag}" for flag in flags & given.keys() if kind != command]
    for name in names:
        raise BadInput(f"{name} is not for a {command}; 'ortbench {command} --help' lists what is", name)


def check_facts(result: Result, limits: Limits) -> list[Check]:
    """Modes that must work, nodes that may stay on the CPU, memory, which must have been measured (`BadInput`)."""
    checks = [_check_mode(result, mode) for mode in limits.require_modes]
    if limits.max_cpu_nodes is not None:
        checks.append(_check_nodes(result, limits.max_cpu_nodes))
    of_kind = part_of(result.kind, "gates", "checks", lambda *_: [])
    return [*checks, *_check_memory(result, limits), *of_kind(result, limits), *check_outputs(result, limits)]


def _check_mode(result: Result, mode: str) -> Check:
    """Whether a mode works: of a load with one client alone, else at every point at which it was tried."""
    cases = [case for case in result.cases if case.mode == mode]
    cases = [case for case in cases if not case.point] or cases
    broken = next((case for case in cases if case.status != OK), None)
    if broken is not None:
        at = name_at(broken.mode, tuple(broken.point.items()))
        return check_by(f"mode {mode}", FAILED, status_fact(broken, at), mode=mode)
    fact = Fact("check-mode", "works" if cases else "missing", mode, {"what": mode})
    return check_by(f"mode {mode}", PASSED if cases else FAILED, fact, mode=mode)


def status_fact(case: Case, what: str) -> Fact:
    """That something is not ok, and why."""
    values: Values = {"what": what, "why": case.reason or "no reason is known"}
    return Fact("check-mode", case.status.replace("_", "-"), case.mode, values)


def _check_nodes(result: Result, most: int) -> Check:
    operators = result.placement["cpu_operators"]
    count = sum(operators.values())
    values: Values = {"ep": result.target["ep"], "nodes": count, "operators": [*operators], "most": most}
    if result.placement["nodes"] is None:
        return check_by(NODES, UNCLEAR, Fact("check-nodes", "unknown"))
    if result.target["ep"] == CPU_EP:
        return check_by(NODES, PASSED, Fact("check-nodes", "cpu-ep", "", values))
    fact = Fact("check-nodes", "some" if count else "none", "", values)
    return check_by(NODES, PASSED if count <= most else FAILED, fact)


def _check_memory(result: Result, limits: Limits) -> Iterator[Check]:
    for owner, most in limits.most_memory.items():
        if most is None:
            continue
        cases = [case for case in result.cases if case.status == OK and limits.covers(case.mode)]
        if not any(KEY in case.own for case in cases):
            option = f"--max-{owner}-memory"
            raise BadInput(f"{option}: the result has no memory; measure it with --measure-memory", option)
        yield from (_memory(case, owner, most) for case in cases if KEY in case.own or not case.point)


def _memory(case: Case, owner: str, most: int) -> Check:
    name = name_at(f"{case.mode} {owner} memory", tuple(case.point.items()))
    found = figure(case, owner)
    values: Values = {"what": name, "most": bytes_of(most)}
    if owner == DEVICE and computes_on_host(case):
        said, verdict = "none", PASSED
    elif found is None:
        said, verdict = "unknown", UNCLEAR
    else:
        said, verdict = "known", PASSED if found <= most else FAILED
    values |= {"why": why_unknown(case, owner)} if found is None or said == "none" else {"memory": bytes_of(found)}
    fact = Fact("check-memory", said, case.mode, values)
    return check_by(name, verdict, fact, metric=_METRIC[owner], mode=case.mode, point=case.point)


def _check_modes(result: Result, limits: Limits) -> Iterator[Check]:
    if of_kind := part_of(result.kind, "gates", "mode_checks"):
        yield from of_kind(result, limits)
        return
    # That a shape did not run is a failure of the benchmark.
    shapes = [(tuple(it.point.items()), point_as_result(result, it)) for it in result.shapes if it.inputs]
    for point, one in shapes if result.axes else [((), result)]:
        ratio_tests = own_ratio_tests(limits, work_of(result), point)
        sequential = SequentialTests(ratio_tests)
        add_cases(sequential, CANDIDATE, one.cases)
        yield from (check_ratio_test(one, sequential, ratio_test) for ratio_test in ratio_tests)


def check_ratio_test(result: Result, sequential: SequentialTests, ratio_test: RatioTest) -> Check:
    """A ratio test of the candidate's own modes, which must have been asked for (`BadInput`); one that does not work fails it."""
    is_share = ratio_test.metric == "copy_share"
    if is_share and result.target["memory"]["kind"] == "host":
        fact = Fact("check-copies", "host", CPU, {"ep": result.target["ep"]})
        return ratio_test.unclear().with_fact(fact, verdict=PASSED, limit=None)
    if is_share and (handed := handing_on(result)) is not None and handed.verdict == HANDED_ON:
        return ratio_test.unclear().with_fact(Fact("check-copies", "passed", CPU), verdict=PASSED, limit=None)
    for mode in (ratio_test.over.mode, ratio_test.under.mode):
        case = next((case for case in result.cases if case.mode == mode), None)
        if case is None:
            measured = ", ".join(case.mode for case in result.cases)
            raise BadInput(f"{ratio_test.name}: needs mode {mode}, which was not measured; measured: {measured}")
        if case.status != OK:
            return ratio_test.unclear().with_fact(status_fact(case, f"{ratio_test.what}: {mode}"), verdict=FAILED)
    check = sequential.check(ratio_test)
    return with_remedy(_as_share(check) if is_share else check, result, sequential.needed_rounds)


def with_remedy(check: Check, result: Result, takes: int) -> Check:
    """The check of a ratio test; of one with too few rounds for a verdict also how many it takes and what gives them."""
    if check.rounds is None or check.low is not None:
        return check
    values: Values = {"needed": takes, "how": more_rounds(result, takes)}
    return check.and_fact(Fact("check-rounds", "how", check.mode or "", values))


def _as_share(check: Check) -> Check:
    """The check of what is left of the latency without its copies, as one of the copies."""
    assert check.limit is not None
    values: Values = {"most": share(1 - check.limit)}
    if check.ratio is None:
        return check.with_fact(Fact("check-copies", "missing", CPU, values), verdict=UNCLEAR, limit=1 - check.limit)
    low, high = (None if it is None else 1 - it for it in (check.high, check.low))
    ends = None if low is None or high is None else (max(0.0, low), max(0.0, high))
    values |= {"share": share(max(0.0, 1 - check.ratio), derived=True)._replace(ci95=ends), "confidence": CONFIDENCE}
    values["rounds"] = check.rounds or 0
    fact = Fact("check-copies", "share" if ends else "few-rounds", CPU, values)
    made = check.with_fact(fact, ratio=1 - check.ratio, low=low, high=high, limit=1 - check.limit)
    return made if check.doubt is None else made.and_sentence(check.doubt, check.findings[1:])


def check_outputs(result: Result, limits: Limits) -> Iterator[Check]:
    """How far the outputs of a candidate moved; `BadInput` where they were compared with none."""
    for key, limit in limits.outputs.items():
        if not result.outputs:
            raise BadInput(f"--limit {key}: {COMPARED_WITH_NONE}", "--limit")
        yield _check_output(key, limit, result)


def _check_output(key: str, limit: float, result: Result) -> Check:
    assert result.outputs is not None
    limited = metric(key)
    distances = [one for compared in result.outputs for one in compared["distances"]]
    found = worst(distances).get(key.partition(".")[2])
    at_most = limited.better == "lower"
    inputs = min((one.get("inputs", 1) for one in distances), default=1)
    values: Values = {"metric": key, "limit": limited.unit.text(limit), "inputs": inputs}
    if found is None or found == -math.inf:
        differing = next((one for one in result.outputs if one["differs"]), None)
        if differing is not None:
            values |= {"against": reference_of(differing), "why": str(differing["differs"])}
        lacking = "synthetic" if key == "outputs.top1" and is_synthetic(result) else "missing"
        fact = Fact("check-output", lacking if differing is None or lacking == "synthetic" else "differs", "", values)
        return check_by(key, FAILED if found is not None else UNCLEAR, fact, metric=key)
    passed = found <= limit if at_most else found >= limit
    values["value"] = limited.unit.text(found) if math.isfinite(found) else ""
    fact = Fact("check-output", "not-moved" if found == math.inf else "at-most" if at_most else "at-least", "", values)
    return check_by(key, PASSED if passed else FAILED, fact, metric=key)


def without_doubtful(checks: Sequence[Check], *results: Result) -> list[Check]:
    """Checks of a candidate and its baseline, of which nothing is told where the figures of either are doubtful."""
    if not any(map(doubt, results)):
        return [*checks]
    untold: dict[str, Any] = {"verdict": UNCLEAR, **dict.fromkeys(("ratio", "low", "high", "rounds", "doubt"))}
    return [
        check
        if check.limit is None
        else check.with_fact(Fact("check-doubt", "outputs", "", {"what": check.name}), **untold)
        for check in checks
    ]


# The verdict of a gate, its exit code and JSON; and a regression that fresh workers confirm


NAMES = ("candidate", "baseline")
CODES = {PASSED: DONE, FAILED: REGRESSION, UNCLEAR: CANNOT_TELL}
AGAIN = "again"  # the folder of what was measured once more


@dataclass(frozen=True)
class Verdict:
    results: Sequence[Result]  # of the candidate and, where there is one, of the baseline
    checks: Sequence[Check]  # what was checked
    differences: Sequence[Fact] = ()  # what differs between the two
    folder: Path | None = None  # where it was saved, if it was
    why: Explanation | None = None  # what makes the candidate slower, where that was looked for
    not_confirmed: str = ""  # why a regression could not be measured once more

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[: len(self.results)]

    @property
    def remarks(self) -> list[str]:
        """What differs between the two, in sentences."""
        return [*map(phrase, self.differences)]

    @property
    def failed_cases(self) -> list[str]:
        """The cases that failed, which no verdict can be built on: one sentence for sides that failed alike."""
        configurations: dict[str, list[str]] = {}
        for name, failure in self.failures:
            configurations.setdefault(failure, []).append(name)
        return [f"{' and '.join(names)}: {failure}" for failure, names in configurations.items()]

    @property
    def failures(self) -> list[tuple[str, str]]:
        return [
            (name, text) for name, result in zip(self.names, self.results, strict=True) for text in failures_of(result)
        ]

    @property
    def word(self) -> str:
        """``passed``, ``failed``, ``cannot tell`` or ``benchmark failed``."""
        return "benchmark failed" if self.failed_cases else overall(self.checks)

    @property
    def fact(self) -> Fact:
        if self.failed_cases:
            return Fact("gate", "broken")
        if (word := overall(self.checks)) != UNCLEAR:
            return Fact("gate", word)
        if self.not_confirmed:
            return Fact("gate", "not-confirmed", "", {"why": self.not_confirmed})
        # What has no interval is not noisy: its check says what it lacks.
        if all(check.low is None for check in self.checks if check.verdict == UNCLEAR):
            return Fact("gate", "lacking")
        is_stored = kind_of(self.results[0].kind).live and self.results[1:] and self.folder is None
        return Fact("gate", "noisy-stored" if is_stored else "noisy")

    @property
    def sentence(self) -> str:
        return phrase(self.fact)

    @property
    def code(self) -> int:
        """The exit code; a case that failed outweighs every check."""
        return BENCHMARK_FAILED if self.failed_cases else CODES[overall(self.checks)]


def overall(checks: Sequence[Check]) -> str:
    """One verdict: failed if any failed, else cannot tell if any could not be told."""
    verdicts = {check.verdict for check in checks}
    return next((verdict for verdict in (FAILED, UNCLEAR) if verdict in verdicts), PASSED)


def facts_of(verdict: Verdict) -> list[Fact]:
    """What a gate says: its verdict, what makes the candidate slower, and what was wrong with the machine."""
    why = verdict.why
    return [verdict.fact, *(why.facts if why else ()), *noise_facts(verdict.results[0]), *verdict.differences]


def verdict_json(verdict: Verdict) -> str:
    """The gate as JSON: verdict, exit code, checks, what could not be measured, remarks, and the model and EP of each side."""
    data: dict[str, Any] = {
        "verdict": verdict.word,
        "exit_code": verdict.code,
        "checks": [asdict(it) for it in verdict.checks],
        "not_measured": verdict.failed_cases,
        "remarks": verdict.remarks,
        "findings": [record(it) for it in facts_of(verdict)],
    }
    for name, result in zip(verdict.names, verdict.results, strict=True):
        data[name] = {"model": result.model["path"], "sha256": result.model["sha256"], "ep": result.target["ep"]}
        if result.outputs:
            data[name] |= {"outputs": result.outputs}
    if verdict.why is not None:
        data |= verdict.why.data
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


# A regression is one when other processes show it too. Where the system puts a process and its memory can make it slower for as
# long as it lives, on a busy machine by half and more, and every block of it says so: no number of rounds tells that from a
# regression. So a gate that would fail is held once more with fresh workers, which are put elsewhere, and fails if they come to
# the same.


def confirm_checks(
    checks: Sequence[Check], regressions: Collection[str], again: Sequence[Check], why_not: str | None = None
) -> list[Check]:
    """The checks of a gate after it was held once more, or `why_not`: of `regressions` that did not show again nothing is told."""
    others = {check.name: check for check in again}
    return [
        _confirm_check(check, others.get(check.name), why_not) if check.name in regressions else check
        for check in checks
    ]


def _confirm_check(check: Check, again: Check | None, why_not: str | None) -> Check:
    values: Values = {"why": why_not or ""}
    if again is None or (again.ratio is None and again.verdict != FAILED):
        said = "broken" if why_not else "missing"
    elif again.ratio is None:
        said = "the-same"
    else:
        values |= {
            "ratio": ratio_of(again.ratio, again.low, again.high),
            "confidence": next(
                (str(it["values"].get("confidence", CONFIDENCE)) for it in again.findings[:1]), CONFIDENCE
            ),
            "rounds": again.rounds or 0,
        }
        said = "few-rounds" if again.low is None else "confirmed" if again.verdict == FAILED else "other"
        ends = [it for it in (check.low, check.high, again.low, again.high) if it is not None]
        values["both"] = ratio_of(again.ratio, min(ends, default=None), max(ends, default=None))
    fact = Fact("check-again", said, check.mode or "", values)
    return check.and_fact(fact, verdict=FAILED if said in ("confirmed", "the-same") else UNCLEAR)
