"""What is measured once all blocks are: passes over each configuration, only where an option asks for them.

Nothing of them may enter a figure of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module
from itertools import starmap
from typing import Any, NamedTuple

from ortbench.analysis.outputs import add_comparison, are_unrelated, comparison_record, likely_cause, trust
from ortbench.core import features
from ortbench.core.errors import BenchmarkFailed
from ortbench.core.files import temporary_folder
from ortbench.measure.configuration import Configuration
from ortbench.measure.progress import Step
from ortbench.model.modes import CPU_TIME, NO_SPIN
from ortbench.model.protocol import OutputComparison, Saved
from ortbench.model.result import OK, Result
from ortbench.plan.plan import Plan

_EXTRA = "ortbench.measure.extra_inferences"
# Codes of warnings.
NODES_FAILED = "nodes-failed"
COPIES_NOT_MEASURED = "copies-not-measured"
SPIN_NOT_MEASURED = "spin-not-measured"


def without_passes(plan: Plan) -> Plan:
    """A plan of blocks alone, whose configurations are looked at no closer afterwards."""
    return replace(plan, nodes=False, measure_copies=False, passes={}, spin=False)


class Pass(NamedTuple):
    """A pass: `wanted` says whether a configuration is to have it, and a function of a module, loaded then, does it. It
    begins with `text`, unless it tells that itself, and the forecast counts on the time of `step` for each of its words."""

    wanted: Callable[[Configuration], bool]
    module: str
    function: str
    text: str = ""
    step: Step | None = None

    def carry_out(self, configuration: Configuration, tell: Callable[[str], None]) -> None:
        function: Any = getattr(import_module(self.module), self.function)
        function(configuration, tell)


def wanted_passes(
    passes: Iterable[Pass], configurations: Sequence[Configuration]
) -> Iterator[tuple[Pass, Configuration]]:
    """What is to be carried out on which configuration, one pass after the other; asked when it is its turn."""
    return ((it, configuration) for it in passes for configuration in configurations if it.wanted(configuration))


def _part_in_worker(option: str, of: tuple[str, features.Pass]) -> Pass:
    feature, declared = of
    module, function = features.module_of(feature, "measure"), option.replace("-", "_")
    step: Step | None = "pass" if declared.is_forecast else None
    return Pass(lambda it: it.plan.has_pass(option) and bool(it.modes), module, function, declared.text, step)


def _part_apart(option: str, of: tuple[str, features.Pass]) -> Pass:
    module, function = features.module_of(of[0], "measure"), f"{option.replace('-', '_')}_apart"
    return Pass(lambda it: option in it.kept, module, function)


# In the workers that have measured. CUPTI is the last that looks into runs, as it stays in their processes.
IN_WORKERS = (
    Pass(lambda it: it.timeline is not None and it.has_close_ups, _EXTRA, "look_closer"),
    *starmap(_part_in_worker, features.passes().items()),
    Pass(lambda it: it.plan.measure_copies, _EXTRA, "measure_copies", "measuring copies with CUPTI"),
)

# In workers of their own, when those have ended.
APART = (
    Pass(lambda it: it.plan.nodes, _EXTRA, "profile_nodes", "profiling nodes"),
    *(_part_apart(*it) for it in features.passes().items() if it[1][1].is_apart),
)


def give_up(configuration: Configuration) -> None:
    """Say of what was asked of a configuration and has not come that it was interrupted."""
    plan, result, why = configuration.plan, configuration.result, "it was interrupted"
    done = [case for case in result.cases if case.status == OK]
    for case in done:
        for option, (feature, declared) in features.passes().items():
            if plan.has_pass(option):
                case.own.setdefault(declared.key, features.part_of(feature, "model", "lacking")(why))
    for option, code, lacking in (
        ("nodes", NODES_FAILED, plan.nodes and result.nodes is None),
        ("measure-copies", COPIES_NOT_MEASURED, plan.measure_copies and all(case.recorded is None for case in done)),
        ("spin", SPIN_NOT_MEASURED, plan.spin and all(f"{CPU_TIME}_{NO_SPIN}" not in case.metrics for case in done)),
    ):
        if lacking and done and all(warning["code"] != code for warning in result.warnings):
            result.warn(code, f"--{option} gave nothing: {why}")
    configuration.keep()


# Whether configurations that take the same inputs give the same outputs


Wake = Callable[[Configuration], AbstractContextManager[None]]  # inside, all other configurations are paused


def compare_outputs(configurations: Sequence[Configuration], awake: Wake, must_equal: bool) -> None:
    """Compare outputs with those of the CPU EP, or of the first; where they `must_equal`, as in a gate, with the baseline's, which comes
    last.

    The same model must give the same outputs wherever it runs, but for a lower precision that an EP chose, which is marked; another
    model may differ, and then says so.

    Raises:
        BenchmarkFailed: outputs of the same model differ and must not; else the modes of the configuration that differs fail.
    """
    groups: dict[str, list[Configuration]] = {}
    for configuration in configurations:
        groups.setdefault(configuration.accepts(), []).append(configuration)
    for group in groups.values():
        base = group[-1] if must_equal else min(group, key=lambda it: trust(it.result.target["ep"]))
        if others := [it for it in group if it is not base]:
            _compare_with(base, others, awake, must_equal)


def _compare_with(base: Configuration, others: Sequence[Configuration], awake: Wake, must_equal: bool) -> None:
    with temporary_folder() as folder:
        with awake(base):
            written: Saved = base.ask("save_outputs", folder=folder)
            if not written["saved"]:
                return
        for other in others:
            with awake(other):
                held: OutputComparison = other.ask("compare_saved_outputs", folder=folder)
            result = other.result
            eps = list(dict.fromkeys(it.target["ep"] for it in (result, base.result)))
            same_model = result.model["sha256"] == base.result.model["sha256"]
            may_lower = same_model and not other.plan.inputs.strict_outputs and _ep(result) != _ep(base.result)
            check = comparison_record(
                base.name, held, [it.target["ep"] for it in (result, base.result)] if may_lower else []
            )
            add_comparison(result, check)
            if held["differs"] is None or check["doubt"] is not None:
                continue
            if not same_model:
                more = "; the two models compute different functions" if are_unrelated(held) else ""
                result.warn("outputs-differ", f"the outputs are not those of {base.name}: {held['differs']}{more}")
                continue
            message = f"the outputs of {other.name} are not those of {base.name}: {held['differs']}"
            message += likely_cause(eps, held["relative"])
            if must_equal:
                raise BenchmarkFailed(message)
            other.reject(message)


def _ep(result: Result) -> tuple[str, dict[str, str]]:
    """What may choose a precision."""
    return result.target["ep"], result.target["ep_options"]
