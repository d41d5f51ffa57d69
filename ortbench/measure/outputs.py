"""Whether configurations that take the same inputs give the same outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from ortbench.analysis.outputs import likely_cause, put, told, trust
from ortbench.core.errors import BenchmarkFailed
from ortbench.core.files import temporary_folder
from ortbench.measure.configuration import Configuration
from ortbench.model.protocol import OutputComparison, Saved
from ortbench.model.result import Result

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
            check = told(base.name, held, [it.target["ep"] for it in (result, base.result)] if may_lower else [])
            put(result, check)
            if held["differs"] is None or check["doubt"] is not None:
                continue
            message = f"the outputs of {other.name} are not those of {base.name}: {held['differs']}"
            if not same_model:
                result.warn("outputs-differ", message)
                continue
            message += likely_cause(eps, held["relative"])
            if must_equal:
                raise BenchmarkFailed(message)
            other.reject(message)


def _ep(result: Result) -> tuple[str, dict[str, str]]:
    """What may choose a precision."""
    return result.target["ep"], result.target["ep_options"]
