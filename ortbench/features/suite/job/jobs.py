"""What is to be done for the cases of a suite: plans and limits, made and checked as on the command line; and what the outcome of a case
depends on, as one number: a case with the same one need not be run again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.core import __version__, eps
from ortbench.core.features import candidates, is_there, part_of
from ortbench.core.files import files_named_in, is_folder, sha256
from ortbench.core.processes import packages_of
from ortbench.features.gate.gates import own_ratio_tests, regression_tests
from ortbench.features.gate.gates.checks import refuse_unchecked
from ortbench.features.gate.plan import SLO, AskedGate, Limits, candidate_of, limits_of, live
from ortbench.features.suite.job.cases import Suite, SuiteCase
from ortbench.model.kinds import kind_of
from ortbench.model.metric_names import Slo
from ortbench.model.modes import IN_FLIGHT, INFERENCE
from ortbench.model.settings import recorded_variables
from ortbench.plan.baseline import baseline_of, has_live_baseline, live_baselines
from ortbench.plan.option_types import LIBRARIES, is_library
from ortbench.plan.options import BASELINE_SET, build, declared_options, flags_of_kinds, limits_of_kinds, options_of
from ortbench.plan.plan import Plan, check
from ortbench.plan.plan_builder import eps_of, list_in, modes_to_compare, modes_to_measure, with_memory
from ortbench.plan.target import Inputs, Target
from ortbench.plan.toml_file import OPTIONS, Demand, Where, demand_of, keys_by_option

if TYPE_CHECKING:
    from ortbench.features.sweep.plan import Shape


Put = Callable[[str], str]  # gives something in place of a path
_DEFAULTS = ("defaults",)
_BASELINE, _SET = "baseline-", f"{BASELINE_SET}."
LOAD, SWEPT = "load", "sweep"
_OF_LOOPS = {it.flag for it in options_of(part_of("loop", "plan", "Steps", ()))}
_OF_LOADS = {it.flag for it in options_of(part_of(LOAD, "plan", "LoadPlan", ())) if it.rules.is_in_suites}
ONLY_SWEEPS = {it.flag for it in part_of(SWEPT, "plan", "IN_SUITES", ())}
# The options that only cases of a kind have that is named by a key of its own.
_OF_KINDS = flags_of_kinds()
# What cases of a kind have beside the options of its command.
_BESIDES = {LOAD: {"duration"}, SWEPT: {SLO.flag, *ONLY_SWEEPS}, **{kind: {kind} for kind in _OF_KINDS}}


def _is_for(kind: str, flag: str) -> bool:
    return flag not in OPTIONS or flag == "ep" or flag in _BESIDES[kind] or OPTIONS[flag].is_taken_by(kind)


@dataclass(frozen=True, kw_only=True)
class Job(AskedGate):
    """What a case asks: limits are empty without a gate, plans are none where it is skipped, `baseline` is its folder of an earlier suite."""

    case: SuiteCase  # of the suite
    shapes: tuple[Shape, ...] = ()  # of a sweep, whose first one's plan is the job's; else none
    slo: Slo | None = None  # what the best of them has to keep, or None

    @property
    def demand(self) -> Demand:
        return demand_of(self.case.needs, self.plans)


def jobs_of(suite: Suite, command: tuple[str, ...], elsewhere: bool = False) -> list[Job]:
    """A job a case, on machines `elsewhere` maybe; `BadInput`, with line and key, for an option that cannot be carried out."""
    return [
        _Maker(suite, case, command, elsewhere).job() if case.skip is None else Job(Limits(), False, case=case)
        for case in suite.cases
    ]


class _Maker:
    def __init__(self, suite: Suite, case: SuiteCase, command: tuple[str, ...], elsewhere: bool) -> None:
        self._file, self._environ = suite.file, suite.environ
        self._case = case
        self._command = command
        self._elsewhere = elsewhere
        self._given = {
            flag: value.given for flag, value in case.given.items() if value.given != {} or flag.startswith(_BASELINE)
        }
        arrivals = self._given.get("arrivals")
        # All paths are relative to the file.
        paths = ["arrivals"] if arrivals is not None and arrivals not in part_of(LOAD, "plan", "ARRIVALS") else []
        for flag in (*paths, *(it for it in ("ep", f"{_SET}ep") if is_library(self._given.get(it, "")))):
            self._given[flag] = str(self._file.path.parent / self._given[flag])
        # What is measured in place of a model, if that is so.
        self._part = import_module(candidates()[case.named_by]) if case.named_by in candidates() else None
        self._kind = self._find_kind()
        for flag in list(self._given):
            if self._is_default(flag) and not self._can_have(flag):
                del self._given[flag]

    def _find_kind(self) -> str:
        """What is measured: of what no model names that, a sweep, a load or a kind with a key of its own; "" of inferences and loops."""
        if self._part is not None:
            return self._case.named_by
        if SWEPT in self._given and is_there(SWEPT):
            return SWEPT
        if any(flag in _OF_LOADS and not self._is_default(flag) for flag in self._given):
            return LOAD
        return next((kind for kind in reversed(_OF_KINDS) if kind in self._given), "")

    def _can_have(self, flag: str) -> bool:
        """Whether an option that is a default is for this case: those of loops and loads are for these, and chains have few."""
        if flag in limits_of_kinds():
            return self._kind == limits_of_kinds()[flag][0]
        if self._part is not None:
            return bool(self._part.is_for(flag))
        if flag in {f"{_BASELINE}{it}" for it in candidates()}:
            return False
        if self._kind:
            return _is_for(self._kind, flag)
        if flag in ONLY_SWEEPS.union(_OF_LOADS, *_OF_KINDS.values()):
            return False
        if flag == "depth":
            return bool({*IN_FLIGHT} & {*modes_to_measure(self._given)})
        return "feedback" in self._given or flag not in _OF_LOOPS

    def job(self) -> Job:
        given, is_live, kind = self._given, has_live_baseline(self._given), self._kind
        self._check_gate(is_live)
        if kind and self._part is None:
            self._refuse_beside(kind)
        if kind in _OF_KINDS:
            with self._blaming(self._case.where):
                refuse_unchecked(kind, given)
        if SLO.flag in given:
            option = declared_options(part_of(SWEPT, "plan", "SweepOptions"))["slo"] if kind == SWEPT else SLO
            with self._file.blaming_key(self._key_of(SLO.flag)):
                given[SLO.flag] = option.read(given[SLO.flag])
        if kind == SWEPT:
            return self._sweep()
        self._refuse_lists()
        named = (*self._case.where, self._case.named_by)
        with self._blaming(named if self._part else self._case.where):
            limits = limits_of(given, is_live or "baseline" in given, modes_to_compare(given))
            plan = with_memory(self._plan(limits), limits.of_memory)
        if is_live and kind != LOAD:
            plan = live(plan, given, limits.phases())
        for key, flags in _OF_KINDS.items():
            if plan.part.folder != key and (flag := next((it for it in given if it in flags), None)):
                reason = f"is not for a {kind}" if self._part else f"is for a {key}: write {key} = true"
                raise self._file.mistake(self._key_of(flag), reason)
        with self._blaming(named):
            self._check(plan)
        if kind != LOAD:
            with self._blaming(self._case.where):
                own_ratio_tests(limits, plan.work)
        plans = [plan]
        if is_live:
            with self._blaming(self._key_of(f"{_BASELINE}{named[-1]}"), _BASELINE):
                of_part = self._part and self._part.baseline_of(plan, self._environ, given)
                plans.append(of_part or baseline_of(plan, given))
                self._check(plans[1])
            with self._blaming(self._key_of("metric")):
                if kind == LOAD:
                    part_of(LOAD, "gates", "check_live")(limits, plans)
                else:
                    regression_tests(limits, plan.modes, plan.work.common_work(plans[1].work))
        plans = [replace(it, name=self._case.id) for it in plans]
        case = replace(self._case, ep=" and ".join(eps_of(plan))) if self._part else self._case
        why = self._read_why(is_live and kind != LOAD and plan.work == INFERENCE)
        return Job(limits, "force" in given, tuple(plans), self._earlier(), why, case=case)

    def _check(self, plan: Plan) -> None:
        """Refuse a plan that cannot be carried out, as far as this machine can tell."""
        check(replace(plan, target=replace(plan.target, python=None)) if self._elsewhere else plan)

    def _sweep(self) -> Job:
        from ortbench.features.sweep.plan import SweepOptions, check_shapes, shapes_of

        self._read_why(can_be=False)
        case, given = self._case, self._given
        with self._blaming(case.where):
            slo = build(SweepOptions, given).slo
            own = {flag: value for flag, value in given.items() if flag != SLO.flag}
            limits = limits_of(own, "baseline" in given, modes_to_compare(given))
            limits = limits if slo is None else replace(limits, slo={slo.statistic: slo.limit_ns})
            own_ratio_tests(limits)
            found = shapes_of(case.model, given, self._command, limits.needed_modes())
            shapes = [replace(it, plan=with_memory(replace(it.plan, name=case.id), limits.of_memory)) for it in found]
        with self._blaming((*case.where, "model")):
            check_shapes(shapes)
        plans, earlier = (shapes[0].plan,), self._earlier()
        return Job(limits, "force" in given, plans, earlier, case=case, shapes=tuple(shapes), slo=slo)

    def _refuse_lists(self) -> None:
        """Refuse lists of sizes where there is but one shape."""
        flag = next((flag for flag in self._given if flag in ONLY_SWEEPS), list_in(self._given))
        if flag is not None:
            reason = "is for a sweep: write sweep = true, or, for a case each, shapes"
            raise self._file.mistake(self._key_of(flag), reason)

    def _refuse_beside(self, kind: str) -> None:
        """Refuse what a load, a sweep or a start has not, and a live gate where there is none."""
        for flag in self._given:
            if not all(_is_for(kind, it) for it in (flag, flag.removeprefix(_SET))):
                reason = f"is not for a {kind}; 'ortbench {kind} --help' lists what is"
                raise self._file.mistake(self._key_of(flag), reason)
        flag = next((it for it in live_baselines() if it in self._given), "")
        if flag and not kind_of(kind).live:
            instead = "write baseline, with the folder of that suite, instead"
            raise self._file.mistake(self._key_of(flag), f"a {kind} is compared with an earlier suite: {instead}")

    def _plan(self, limits: Limits) -> Plan:
        case, needed = self._case, limits.needed_modes()
        if self._kind == LOAD:
            from ortbench.features.load.plan import load_of

            return load_of(case.model, self._given, self._command, needed, is_live=has_live_baseline(self._given))
        if self._part is None:
            return candidate_of(case.model, self._given, self._command, limits)
        plan: Plan = self._part.candidate_of(Path(case.model), self._environ, self._given, self._command, needed)
        return plan

    def _is_default(self, flag: str) -> bool:
        return self._key_of(flag)[:1] == _DEFAULTS

    def _key_of(self, flag: str) -> Where:
        value = self._case.given.get(flag)
        return self._case.where if value is None else value.where

    def _blaming(self, otherwise: Where, prefix: str = "") -> AbstractContextManager[None]:
        """Bad input inside the block is a mistake where the option that it is about was given."""
        return self._file.blaming_option(keys_by_option(self._case.given, prefix), otherwise)

    def _check_gate(self, is_live: bool) -> None:
        for flag, why in (
            ("baseline", "a live gate measures its baseline itself"),
            ("iterations", "a live gate measures until its verdict is clear"),
            ("precision", "a live gate measures until its verdict is clear"),
        ):
            if is_live and flag in self._case.given:
                message = f"{why}: leave it out, or write {flag} = false where it should not hold"
                raise self._file.mistake(self._key_of(flag), message)
        has_baseline = is_live or "baseline" in self._case.given
        for flag in ("max-regression", "metric"):  # as a default each is for those that have a baseline
            if flag in self._case.given and not has_baseline and not self._is_default(flag):
                message = "needs something to compare with: baseline, or live baseline-model, baseline-set …"
                raise self._file.mistake(self._key_of(flag), message)

    def _read_why(self, can_be: bool) -> bool | None:
        """Whether the gate is to say what makes the difference, where it `can_be` said."""
        wanted: bool | None = self._given.get("why")
        if wanted and not can_be and not self._is_default("why"):
            reason = "explains single inferences beside a live baseline: baseline-model, baseline-set …"
            raise self._file.mistake(self._key_of("why"), reason)
        return wanted if can_be else None

    def _earlier(self) -> Path | None:
        if "baseline" not in self._given:
            return None
        folder = Path(self._given["baseline"])
        if not is_folder(folder):
            raise self._file.mistake(self._key_of("baseline"), f"no such folder: {folder}")
        return folder / self._case.id


def fingerprint(job: Job) -> str:
    """SHA-256 over everything that a case's outcome depends on, as far as it is known before, wherever it is carried out: its plans and
    limits, the content of their files, variables that they record, versions of packages. `OSError`: a file cannot be read."""
    essence = with_plans(with_files(job, _content), _essence)
    data = {it: asdict(essence)[it] for it in ("plans", "limits", "force", "why", "shapes", "slo", "baseline")}
    variables = [recorded_variables(plan.record_env, os.environ)[0] for plan in job.plans]
    text = json.dumps(
        {"ortbench": __version__, **data, "variables": variables, **_describe_packages(job)},
        sort_keys=True,
        default=str,
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _describe_packages(job: Job) -> dict[str, Any]:
    """What a job's outcome depends on of this machine's packages; EPs and custom operators can be named by theirs."""
    targets = [target for plan in job.plans for target in plan.targets]
    named = {eps.key(name) for target in targets for name in (target.ep, *target.custom_ops)}
    return {
        "packages": [it for it in _packages() if it.startswith("onnxruntime") or eps.key(it.split(" ")[0]) in named],
        "elsewhere": [packages_of(plan.target.python) for plan in job.plans if plan.target.python is not None],
    }


@cache
def _packages() -> list[str]:
    return sorted(f"{package.metadata['Name']} {package.version}" for package in metadata.distributions())


def _essence(plan: Plan) -> Plan:
    """A plan without what enters no figure: where engines are kept, names, and how a chain's file is written."""
    model, target = "" if plan.part.models else plan.model, replace(plan.target, engine_cache=None)
    return replace(plan, model=model, target=target, part=plan.part.essence(), command=(), name=None)


def with_plans(job: Job, change: Callable[[Plan], Plan]) -> Job:
    shapes = tuple(replace(it, plan=change(it.plan)) for it in job.shapes)
    return replace(job, plans=tuple(map(change, job.plans)), shapes=shapes)


def with_files(job: Job, to: Put, python: Put = str) -> Job:
    """A job with something else in place of the paths of its files and folders, and of interpreters."""

    def change_path(path: str | None) -> str | None:
        return None if path is None else to(path)

    def change_target(target: Target) -> Target:
        custom_ops = LIBRARIES.with_paths(target.custom_ops, to)
        interpreter = target.python and python(target.python)
        return replace(target, library=change_path(target.library), custom_ops=custom_ops, python=interpreter)

    def change_inputs(inputs: Inputs) -> Inputs:
        return replace(inputs, path=change_path(inputs.path), expect=change_path(inputs.expect))

    def change_plan(plan: Plan) -> Plan:
        part = plan.part.map_models(
            lambda stage: replace(
                stage, model=to(stage.model), target=change_target(stage.target), inputs=change_inputs(stage.inputs)
            )
        ).with_files(to)
        target, inputs = change_target(plan.target), change_inputs(plan.inputs)
        return replace(plan, model=to(plan.model), target=target, inputs=inputs, part=part)

    return replace(with_plans(job, change_plan), baseline=job.baseline and Path(to(str(job.baseline))))


@cache
def _content(path: str) -> str:
    """Names and hashes of what is at a path, see `files_at`."""
    return " ".join(f"{name} {sha256(file)}" for name, file in files_at(Path(path)).items())


def files_at(path: Path) -> dict[str, Path]:
    """The files of a folder, or a file with those beside it that it names if it is a model, by their paths from the folder above; none
    where nothing is."""
    if not path.exists():
        return {}
    files = path.rglob("*") if path.is_dir() else [path, *(path.parent / name for name in files_named_in(path))]
    return {it.relative_to(path.parent).as_posix(): it for it in sorted(files) if it.is_file()}
