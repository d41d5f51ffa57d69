"""Chain files: what `ortbench chain` reads, with the line and the key of every mistake.

``[[stage]]`` has a name, a model and the options of its session and inputs, as a suite writes them; ``[defaults]`` those
that hold where a stage says nothing else. ``[[link]]`` joins an output and an input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.features.chain.model import MODES as CHAIN_MODES
from ortbench.features.chain.plan import IN_GATES, Chain, End, Link, Stage
from ortbench.features.loop.plan import Steps
from ortbench.model.modes import ALL_MODES, named_modes
from ortbench.plan.baseline import BASELINE_PYTHON, STORED_BASELINE, baseline_python, live_options
from ortbench.plan.option_types import is_library, whole_of
from ortbench.plan.options import LIMIT, RawOptions, build, options_for, options_of
from ortbench.plan.plan import PLAN, Loop, OutputOptions, Plan, check
from ortbench.plan.plan_builder import target_of
from ortbench.plan.target import Inputs, Target
from ortbench.plan.toml_file import Layer, SuiteFile, Tables, Value, Where, dotted_key, keys_by_option, merge_layers

# Of a stage: what a loop's session and inputs have, but for what is said of the chain as a whole.
_WHOLE = ("python", "engine-cache", "seed", "rtol", "atol", "expect", "strict-outputs", "steps", "optimized-model")
OPTIONS = {
    option.flag: option._replace(lists=None)
    for option in options_of(Target, Inputs, Steps)
    if option.is_taken_by("loop") and option.flag not in _WHOLE
}
REPEAT, FEEDBACK = "repeat", "feedback"
KEYS = ("name", "model", REPEAT, *OPTIONS)


def plan_of(path: Path, environ: Mapping[str, str], given: RawOptions, command: tuple[str, ...] = ()) -> Plan:
    """The plan of a chain's file with a command's options, which hold for all of it; `BadInput` with line and key."""
    if path.suffix in (".onnx", ".ort"):
        raise BadInput(
            f"{path} is a model; name a chain's file, a TOML file that lists models: ortbench explain --more chains"
        )
    inputs, target = build(Inputs, given), build(Target, given)
    chain = _Reader(SuiteFile(path, environ), inputs).chain()
    stages = tuple(replace(it, target=replace(it.target, python=target.python)) for it in chain.stages)
    return build(
        Plan,
        given,
        model=str(path),
        target=stages[0].target,
        inputs=inputs,
        modes=named_modes(given.get("mode", ()), CHAIN_MODES),
        loop=build(Loop, given),
        part=replace(chain, stages=stages),
        command=command,
    )


class _Reader:
    """Makes a chain of a file's data, with the seed and the tolerances of all stages."""

    def __init__(self, file: SuiteFile, inputs: Inputs) -> None:
        self._file, self._inputs = file, inputs
        self._tables = Tables(file, OPTIONS)
        self._base = file.path.parent

    def chain(self) -> Chain:
        data = self._file.data
        self._tables.check_keys(data, (), ("defaults", "stage", "link"))
        defaults = self._tables.table(data.get("defaults", {}), ("defaults",), (*OPTIONS,))
        layer = self._tables.layer(defaults, ("defaults",))
        tables = self._tables.tables(data, "stage")
        if not tables:
            raise self._file.mistake(("stage",), "there is nothing to run: give at least one [[stage]] with a model")
        stages: dict[str, Stage] = {}
        for number, (table, where) in enumerate(tables):
            stage = self._stage(table, where, layer, number)
            if stage.name in stages:
                raise self._file.mistake((*where, "name"), f"there is a stage {stage.name!r} already")
            stages[stage.name] = stage
        links = self._links(data, stages)
        return Chain(tuple(self._in_order(stages, links)), tuple(links))

    def _stage(self, table: dict[str, Any], where: Where, defaults: Layer, number: int) -> Stage:
        self._tables.check_keys(table, where, KEYS)
        self._tables.require_key(table, where, "model", "name a model")
        model = self._base / self._tables.text(table, where, "model")
        name = self._tables.text(table, where, "name", model.stem)
        if "." in name or not name.strip():
            raise self._file.mistake(
                (*where, "name"), f"{name!r}: a name without a dot, which links end a stage's name by"
            )
        given = merge_layers([defaults, self._tables.layer(table, where)], OPTIONS)
        count = self._repeat(table, where, given)
        options = {flag: self._with_whole_paths(flag, value) for flag, value in given.items()}
        with self._file.blaming_option(keys_by_option(given), (*where, "model")):
            target, inputs = target_of(options), build(Inputs, options)
            steps = replace(build(Steps, options), count=count)
            inputs = replace(inputs, seed=self._inputs.seed + number, rtol=self._inputs.rtol, atol=self._inputs.atol)
            keys = {"": where, **{flag: value.where for flag, value in given.items()}}
            keys |= {key: (*where, key) for key in ("model", REPEAT) if key in table}
            locations = {key: self._file.describe(path) for key, path in keys.items()}
            stage = Stage(name, str(model), target, inputs, steps, locations)
            # What a loop has not is refused of any stage: one that is none is a loop of one step.
            check(Plan(stage.model, target, inputs, CHAIN_MODES, part=steps))
        return stage

    def _repeat(self, table: Mapping[str, Any], where: Where, given: Mapping[str, Value]) -> int:
        if REPEAT not in table:
            if FEEDBACK in given:
                message = f"needs {REPEAT}, the number of steps in which an output is an input of the next one"
                raise self._file.mistake(given[FEEDBACK].where, message)
            return 1
        key = (*where, REPEAT)
        if FEEDBACK not in given:
            raise self._file.mistake(
                key, f'needs {FEEDBACK}, which says what a step hands to the next, such as {FEEDBACK} = "out=in"'
            )
        with self._file.blaming_key(key):
            count = whole_of(table[REPEAT])
            if count < 1:
                raise BadInput("a stage runs at least once")
        return count

    def _with_whole_paths(self, flag: str, value: Value) -> Any:
        if flag == "ep" and is_library(value.given):
            return str(self._base / value.given)
        return OPTIONS[flag].kind.with_paths(value.given, lambda path: str(self._base / path))

    def _links(self, data: Mapping[str, Any], stages: Mapping[str, Stage]) -> list[Link]:
        links: list[Link] = []
        for table, where in self._tables.tables(data, "link"):
            self._tables.check_keys(table, where, ("from", "to"))
            source, to = (self._end(table, key, where, stages) for key in ("from", "to"))
            if source.tensor.count("*") != to.tensor.count("*"):
                raise self._file.mistake((*where, "to"), f"{to}: there are as many * in to as in from")
            twin = next((number for number, link in enumerate(links) if link.to == to), None)
            if twin is not None:
                raise self._file.mistake((*where, "to"), f"{to} is linked already, by {dotted_key(('link', twin))}")
            locations = {key: self._file.describe((*where, key)) for key in ("from", "to")}
            links.append(Link(source, to, locations))
        return links

    def _end(self, table: Mapping[str, Any], key: str, where: Where, stages: Mapping[str, Stage]) -> End:
        own_key = self._tables.require_key(table, where, key, 'write it as "stage.tensor"')
        text = self._tables.text(table, where, key)
        with self._file.blaming_key(own_key):
            stage, dot, tensor = text.partition(".")
            if not dot or not stage or not tensor:
                raise BadInput(f'{text!r}: write it as "stage.tensor"')
            if stage not in stages:
                raise BadInput(f"there is no stage {stage!r}; there are {', '.join(stages)}")
        return End(stage, tensor)

    def _in_order(self, stages: Mapping[str, Stage], links: Sequence[Link]) -> Iterator[Stage]:
        """Each stage behind those that it takes something of, and as they were given where that is all the same."""
        before = {name: {link.source.stage for link in links if link.to.stage == name} for name in stages}
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            raise self._describe_circle(error.args[1], links) from None
        left = list(stages)
        while left:
            left.remove(name := next(it for it in left if not before[it] & {*left}))
            yield stages[name]

    def _describe_circle(self, circle: list[str], links: Sequence[Link]) -> BadInput:
        """A mistake at the last of the links that make a circle."""
        pairs = set(pairwise(circle))
        number = max(at for at, link in enumerate(links) if (link.source.stage, link.to.stage) in pairs)
        reason = f"{' → '.join(circle)} is a circle, so that no stage could be the first"
        if len(circle) == 2:
            reason = f"{circle[0]} would wait for itself; {REPEAT} and {FEEDBACK} make a stage a loop"
        return self._file.mistake(("link", number), reason)


_, BASELINE_CHAIN = IN_GATES
_OWN = {
    *(it.flag for it in options_of(*PLAN, OutputOptions) if it.is_taken_by("chain")),
    *(it.flag for it in options_for("gate") if it.texts.panel == LIMIT),
    *(it.flag for it in options_of(STORED_BASELINE, BASELINE_PYTHON)),
    BASELINE_CHAIN.flag,
}
_KNOWN = {it.flag: it.name for it in options_of(*PLAN, Steps, live_options(), BASELINE_CHAIN)}


def is_for(flag: str) -> bool:
    return flag in _OWN


def refusal(name: str) -> str | None:
    """Why an option of other commands is not for a chain; None where it is, or where there is no such option."""
    flag = name.removeprefix("--")
    if flag not in _KNOWN or is_for(flag):
        return None
    if flag.startswith("baseline"):
        return (
            f"{_KNOWN[flag]} is of one model: give the baseline's chain a file of its own, {BASELINE_CHAIN.name} FILE"
        )
    return f"{_KNOWN[flag]} is not for a chain, whose file says how each stage runs"


def candidate_of(
    path: Path, environ: Mapping[str, str], given: RawOptions, command: tuple[str, ...], needed: Collection[str]
) -> Plan:
    """The same for a gate, with the modes that its limits need; options that say nothing of a plan are left alone."""
    for flag in given:
        if reason := refusal(f"--{flag}"):
            raise BadInput(reason, _KNOWN[flag])
    plan = plan_of(path, environ, given, command)
    more = (name for name in ALL_MODES if name in needed and name not in plan.modes)
    return replace(plan, modes=(*plan.modes, *more))


def baseline_of(plan: Plan, environ: Mapping[str, str], given: RawOptions) -> Plan:
    """The baseline's plan: of another chain, with another interpreter, or both."""
    python = baseline_python(plan, given)
    same = {flag: value for flag, value in given.items() if flag != "python"}
    path = Path(given.get(BASELINE_CHAIN.flag) or plan.model)
    found = plan_of(path, environ, same if python is None else {**same, "python": python}, plan.command)
    return replace(found, modes=plan.modes, loop=plan.loop)
