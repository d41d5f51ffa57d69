"""The commands as functions: from the values of a call to plans, what comes of them, and its errors.

An option is that of the command of the same name and means what it means there; None leaves the default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ortbench.analysis.naming import short_names
from ortbench.api.calls import AnyPath, Interrupted, Model, Tell, check_saved, measuring, with_options
from ortbench.api.results import Comparison, Result, Saved, read
from ortbench.api.values import Lent, command_line, given_of, in_python, lend_files, options_for
from ortbench.core.errors import BadInput, BenchmarkFailed, Unsupported
from ortbench.core.features import plan_function, record_of
from ortbench.model.result import Result as StoredResult
from ortbench.plan.options import RawOptions
from ortbench.plan.plan import Plan, check
from ortbench.plan.plan_builder import compared_of, run_of

Measured = TypeVar("Measured", bound=Saved)


@dataclass(frozen=True)
class Call:
    given: RawOptions  # options
    typed: tuple[str, ...]  # the command that does the same, for results
    model: str  # the path of the model, "" where there is none
    out: Path | None  # where what is measured is to be saved; None for nowhere
    lent: Lent  # what was given in memory

    def name_model(self, plan: Plan) -> Plan:
        """A plan whose results call a model from memory by a name, not by its file."""
        return replace(plan, called=self.lent.called.get(plan.model))


@contextmanager
def read_call(command: str, named: Mapping[str, Any], *positional: str, model: Any = None) -> Iterator[Call]:
    """A call's values, `named` by parameters, as options of the command; what is wrong inside the block is said in Python's names
    (`BadInput`). `positional` and `model` are what the command has besides options, the former in the words of a shell."""
    options = options_for(command)
    with Lent() as lent:
        try:
            path = "" if model is None else lent.model(model, "model")
            given, typed = given_of(options, lend_files(options, named, lent))
            shown = {flag: lent.display(value) for flag, value in typed.items()}
            words = [*positional, *filter(None, [lent.display(path)])]
            yield Call(given, command_line(command, words, shown), path, given.get("out"), lent)
        except BadInput as error:
            raise in_python(error, options) from None
        except Unsupported as error:
            raise BenchmarkFailed(str(error)) from None


@with_options
def run(model: Model, *, progress: Tell | None = None, **options: Any) -> Result:
    """Measure a model in its I/O modes: what the copies cost.

    Returns:
        what was measured, all modes with all samples; a mode that could not be measured says why, and raises nothing.
    """
    return measure_model("run", model, options, progress, run_of)


def __getattr__(name: str) -> Callable[..., Result]:
    """The function of a feature's command whose record names what makes the plan of a model."""
    record = record_of(name)
    if not record.plan:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def measure(model: Model, *, progress: Tell | None = None, **options: Any) -> Result:
        return measure_model(name, model, options, progress, plan_function(name, record.plan))

    measure.__name__ = measure.__qualname__ = name
    measure.__doc__ = f"{record.sentence}\n\nReturns:\n    {record.returns}"
    return with_options(measure)


def measure_model(
    command: str, model: Model, options: Mapping[str, Any], tell: Tell | None, made: Callable[..., Plan]
) -> Result:
    with read_call(command, options, model=model) as call:
        return measure_plan(made(call.model, call.given, call.typed), call, tell)


def measure_plan(plan: Plan, call: Call, tell: Tell | None) -> Result:
    from ortbench.jobs.run import measure_plans, resolve_model

    plan = resolve_model(plan)
    check(plan)
    with measuring(tell) as observer, until_interrupted():
        launched = measure_plans([call.name_model(plan)], call.out, call.given, observer=observer)
        if launched.not_opened:
            raise launched.not_opened[0][1]
        result = Result.wrap(launched.result, launched.folder, *(samples() for samples in launched.samples))
        return whole(result, launched.interrupted)


def whole(found: Measured, interrupted: bool) -> Measured:
    """What was measured, where nothing cut it off (`Interrupted`) and all of it was saved that was to be (`NotSaved`)."""
    if interrupted:
        raise Interrupted([found])
    check_saved(found)
    return found


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Ctrl-C inside the block is told as what it is to the caller (`Interrupted`); by then the workers have ended."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted from None


@with_options
def compare(results: Sequence[Result | StoredResult | AnyPath] | AnyPath, **options: Any) -> Comparison:
    """Compare results: which differences are real.

    Args:
        results: two or more in all; a folder may hold several.

    Returns:
        which differences are real.

    Raises:
        BadInput, NotComparable: as their own docstrings say.
    """
    from ortbench.jobs.compare import compare_results, explain, refuse_not_shown, results_at

    if isinstance(results, (str, os.PathLike)):
        results = [results]
    loaded: list[Result] = []
    for result in results:
        found = [result] if isinstance(result, StoredResult) else map(read, results_at([Path(result)]))
        loaded += [one if isinstance(one, Result) else Result.wrap(one) for one in found]
    if len(loaded) < 2:
        raise BadInput(f"compare needs at least two results, and {len(loaded)} was given")
    with read_call("compare", options) as call:
        only = compared_of(call.given)
        # What lies nowhere goes by its number where nothing else tells it apart.
        paths = [it.folder / "result.json" if it.folder else Path(f"#{at}") for at, it in enumerate(loaded, 1)]
        names = short_names(loaded, paths)
        why = explain(call.given, loaded, only)
        compared = compare_results(loaded, names, only, "force" in call.given, why)
        refuse_not_shown([loaded], only)
        return Comparison(loaded, names, compared.records, compared.findings, compared.report, why)
