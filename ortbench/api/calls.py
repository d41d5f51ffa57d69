"""What the functions of `ortbench.api.commands` do: from the values of a call to plans, what comes of them, and its errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ortbench.analysis.comparing.naming import called
from ortbench.api.given import command_line, given_of, in_python, options_for
from ortbench.api.lent import Lent
from ortbench.api.results import Bandwidth, Comparison, Result, Verdict, read
from ortbench.api.running import Interrupted, Progress, measuring, saved
from ortbench.core.errors import BadInput, BenchmarkFailed, Unsupported
from ortbench.model.protocol import Inspected, Listed
from ortbench.model.result import Result as Stored
from ortbench.plan.bandwidth_plan import CopyPlan
from ortbench.plan.bandwidth_plan import check as check_copies
from ortbench.plan.compare_options import compared_of
from ortbench.plan.load_plan import load_of
from ortbench.plan.loop_plan import steps_of
from ortbench.plan.options import Given, check_values, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import Plan, check, check_amount
from ortbench.plan.plan_builder import inspection_of, plan_of, target_of
from ortbench.plan.sweep_plan import Swept, check_shapes, shapes_of

Tell = Callable[[Progress], object] | None
Measured = TypeVar("Measured", Result, Bandwidth)
_ARRAYS = ("input", "expect", "baseline_input", "baseline_expect")
_SETS = ("data",)  # of arrays, or of paths
_MODELS = ("model", "baseline_model")


@dataclass(frozen=True)
class Call:
    """A call, read.

    Attributes:
        given: options.
        typed: the command that does the same, for results.
        model: the path of the model, "" where there is none.
        out: where what is measured is to be saved; None for nowhere.
        lent: what was given in memory.
    """

    given: Given
    typed: tuple[str, ...]
    model: str
    out: Path | None
    lent: Lent

    def called(self, plan: Plan) -> Plan:
        """A plan whose results call a model from memory by a name, not by its file."""
        return replace(plan, called=self.lent.called.get(plan.model))


@contextmanager
def _reading(command: str, values: Mapping[str, Any], *positional: str, model: Any = None) -> Iterator[Call]:
    """A call's values as options; what is wrong inside the block is said in Python's names.

    Args:
        command: of the same name.
        values: by the names of the parameters; those that are no options are left alone.
        positional: what the command has besides options, in the words of a shell.
        model: that the command has besides options.

    Raises:
        BadInput: a value that cannot be.
    """
    options = options_for(command)
    with Lent() as lent:
        try:
            path = "" if model is None else lent.model(model, "model")
            found = {name: values.get(name) for name in options}
            found |= {name: lent.arrays(found[name], name) for name in _ARRAYS if name in found}
            found |= {name: lent.several(found[name], name) for name in _SETS if name in found}
            found |= {name: lent.model(found[name], name) for name in _MODELS if found.get(name) is not None}
            given, typed = given_of(options, found)
            shown = {flag: lent.shown(value) for flag, value in typed.items()}
            words = [*positional, *filter(None, [lent.shown(path)])]
            yield Call(given, command_line(command, words, shown), path, given.get("out"), lent)
        except BadInput as error:
            raise in_python(error, options) from None
        except Unsupported as error:
            raise BenchmarkFailed(str(error)) from None


def run(model: Any, values: Mapping[str, Any], command: str = "run") -> Result:
    """A run, or a loop: see `ortbench.api.commands`."""
    with _reading(command, values, model=model) as call:
        check_amount(call.given)
        if command == "loop":
            steps_of(call.given, needed=True)
        return _measured(plan_of(call.model, call.given, call.typed), call, values["progress"])


def chain(file: str | os.PathLike[str], values: Mapping[str, Any]) -> Result:
    """A chain."""
    from ortbench.suite.chain_file import plan_of as plan_of_chain

    with _reading("chain", values, os.fspath(file)) as call:
        check_amount(call.given)
        return _measured(plan_of_chain(Path(file), os.environ, call.given, call.typed), call, values["progress"])


def _measured(plan: Plan, call: Call, tell: Tell) -> Result:
    from ortbench.jobs.run import measured

    check(plan)
    bandwidth = call.given.get("bandwidth")
    if bandwidth is not None and not bandwidth.exists():
        raise BadInput(f"--bandwidth: no such file or folder: {bandwidth}", "--bandwidth")
    with measuring(tell) as observer, _ended():
        launched = measured([call.called(plan)], call.out, bandwidth, observer=observer)
        if launched.not_opened:
            raise launched.not_opened[0][1]
        result = Result.of(launched.result, launched.folder)
        return _whole(result, launched.interrupted)


def load(model: Any, values: Mapping[str, Any]) -> Result:
    """A load."""
    from ortbench.jobs.load_samples import arrays
    from ortbench.jobs.measuring import measure, new_place

    with _reading("load", values, model=model) as call:
        plan, put = load_of(call.model, call.given, call.typed)
        place = new_place(call.out, [plan], "load")
        with measuring(values["progress"]) as observer, _ended():
            loaded = measure([call.called(plan)], place, load=put, quiet=True, observer=observer)
            return _whole(Result.of(loaded.result, loaded.folder, arrays(loaded.taken[0])), loaded.interrupted)


def sweep(model: Any, values: Mapping[str, Any]) -> Result:
    """A sweep of shapes."""
    from ortbench.jobs.axes import swept as measured
    from ortbench.jobs.measuring import new_place

    with _reading("sweep", values, model=model) as call:
        check_amount(call.given)
        shapes = shapes_of(call.model, call.given, call.typed)
        check_shapes(shapes)
        shapes = [replace(shape, plan=call.called(shape.plan)) for shape in shapes]
        with measuring(values["progress"]) as observer, _ended():
            place = new_place(call.out, [shapes[0].plan], "sweep")
            swept = measured(shapes, make(Swept, call.given).slo, place, quiet=True, observer=observer)
            return _whole(Result.of(swept.result, swept.folder), swept.interrupted)


def _whole(found: Measured, interrupted: bool) -> Measured:
    """What was measured, where nothing cut it off and all of it was saved that was to be.

    Raises:
        Interrupted: Ctrl-C did.
        NotSaved: some was not.
    """
    if interrupted:
        raise Interrupted([found])
    saved(found)
    return found


@contextmanager
def _ended() -> Iterator[None]:
    """Ctrl-C inside the block is told as what it is to the caller; by then the workers have ended.

    Raises:
        Interrupted: it came.
    """
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted from None


def gate(result: Any, values: Mapping[str, Any]) -> Verdict:
    """A gate, of a result or live."""
    from ortbench.jobs import gate as job
    from ortbench.jobs.gate import asked_gate
    from ortbench.jobs.measuring import new_place

    stored, baseline = _result(result), values["baseline"]
    is_there = isinstance(baseline, Stored)
    named = {**values, "baseline": "RESULT" if is_there else baseline}
    with _reading("gate", named, *_names(result)) as call:
        asked = asked_gate(call.given, stored is not None, call.typed)
        if stored is not None:
            base = baseline if is_there else None if asked.baseline is None else _result(asked.baseline)
            return Verdict.of(job.gate_stored(stored, base, asked.limits, asked.force))
        plans = [call.called(plan) for plan in asked.plans]
        folder = new_place(call.out, plans[:1], "gate")
        with measuring(values["progress"]) as observer, _ended():
            found = job.gate_live(replace(asked, plans=tuple(plans)), folder, quiet=True, observer=observer)
            if found is None:
                raise Interrupted
            verdict = Verdict.of(found)
            saved(verdict)
            return verdict


def _result(given: Any) -> Stored | None:
    """A result, or that at a place; None for none."""
    return given if given is None or isinstance(given, Stored) else read(given)


def _names(result: Any) -> list[str]:
    """What a command line would say of a result."""
    if result is None:
        return []
    return [os.fspath(result)] if isinstance(result, (str, os.PathLike)) else ["RESULT.json"]


def compare(results: Sequence[Any] | str | os.PathLike[str], values: Mapping[str, Any]) -> Comparison:
    """A comparison."""
    from ortbench.jobs.compare import held, results_at

    if isinstance(results, (str, os.PathLike)):
        results = [results]
    loaded: list[Result] = []
    for it in results:
        found = [it] if isinstance(it, Stored) else map(read, results_at([Path(it)]))
        loaded += [one if isinstance(one, Result) else Result.of(one) for one in found]
    if len(loaded) < 2:
        raise BadInput(f"compare needs at least two results, and {len(loaded)} was given")
    with _reading("compare", values) as call:
        only = compared_of(call.given)
        # What lies nowhere goes by its number where nothing else tells it apart.
        places = [it.folder / "result.json" if it.folder else Path(f"#{at}") for at, it in enumerate(loaded, 1)]
        names = called(loaded, places)
        report, records = held(loaded, names, only, "force" in call.given)
        return Comparison(loaded, names, records, report)


def bandwidth(values: Mapping[str, Any]) -> Bandwidth:
    """A sweep of copies."""
    from ortbench.jobs.axes import copied as measured

    with _reading("bandwidth", values) as call:
        plan = make(CopyPlan, call.given, target=target_of(call.given), command=call.typed)
        check_copies(plan)
        with measuring(values["progress"]) as observer, _ended():
            found = measured(plan, call.out, quiet=True, observer=observer)
            return _whole(Bandwidth.of(found.result, found.folder), found.interrupted)


def devices(values: Mapping[str, Any]) -> Listed:
    """The installed EPs."""
    from ortbench.jobs.look import listed

    with _reading("devices", values) as call, _ended():
        target = target_of(call.given)
        check_values(target)
        wanted = make(Wanted, call.given)
        check_values(wanted)
        return listed(target.library, target.python, wanted.check)


def inspect(model: Any, values: Mapping[str, Any]) -> Inspected:
    """What a model is."""
    from ortbench.jobs.look import inspected

    with _reading("inspect", values, model=model) as call, _ended():
        plan, placed = inspection_of(call.model, call.given)
        found = inspected(call.model, plan.target, placed, plan.inputs)
        return {**found, "path": call.lent.called.get(call.model, call.model)}
