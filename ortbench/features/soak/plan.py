"""What a soak is asked to be: inferences for long, while memory is read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ortbench.core.eps import CUDA_EP, SHORT_NAMES
from ortbench.core.errors import BadInput
from ortbench.features.soak import FEATURE
from ortbench.model.modes import CPU, LATENCY, Part
from ortbench.plan.option_types import FLAG, SIZE, WHOLE
from ortbench.plan.options import LIMIT, MEASURED, RawOptions, at_least, build, new_option, option
from ortbench.plan.plan import Plan
from ortbench.plan.plan_builder import plan_of, plan_stream

ARENA = "arena"  # what --try can be
_DURATION_S = FEATURE.commands["soak"].options["duration"]["default"]
_MAX_SHAPES = 1024
# What makes a bench of a suite a soak.
IN_SUITES = (new_option("soak", "", "Inferences for long, while memory is read.", MEASURED, FLAG, commands=()),)
LIMITS = (
    new_option(
        "max-growth",
        "SIZE",
        "Allow a soak at most this growth per 1,000 inferences: 1MB.",
        LIMIT,
        SIZE,
        commands=("gate",),
    ),
)


@dataclass(frozen=True)
class Soak(Part):
    """A soak; with `reopen` the session is closed after so many inferences and opened again, `tried` is what is soaked beside it."""

    folder = "soak"

    tried: str | None = option(
        "try", "WHAT", f"Compare with configurations that may need less memory: {ARENA}.", MEASURED, choices=(ARENA,),
        commands=("soak",), is_in_suites=False, is_in_python=False, is_live_only=True,
    )  # fmt: skip

    reopen: int | None = option(
        "reopen", "N", "Close the session after every N inferences and open it again.", MEASURED, kind=WHOLE,
        check=at_least(1, "at least one inference lies between"), commands=("soak", "gate"), common=("soak",), is_live_only=True,
    )  # fmt: skip


def soak_of(model: str, given: RawOptions, command: tuple[str, ...] = (), _: Collection[str] = ()) -> Plan:
    """The plan of a soak that options describe; see `plan_of`. Lists are its shapes. `BadInput`: besides, several modes, too many
    shapes, or what a mode cannot do."""
    given = {"duration": _DURATION_S, **given}
    plan = plan_stream("soak", given, lambda options: plan_of(model, options, command), _MAX_SHAPES)
    if len(plan.modes) > 1:
        raise BadInput(f"--mode: a soak has one mode, not {' and '.join(plan.modes)}", "--mode")
    soak = build(Soak, given)
    if soak.reopen is not None and plan.modes != (CPU,):
        raise BadInput(f"--reopen: is for mode {CPU}", "--reopen")
    loop = replace(plan.loop, warmup=given.get("warmup", 1), precision=0.0, phases=(LATENCY,))
    return replace(plan, part=soak, loop=loop)


_SHRINKS = "memory.enable_memory_arena_shrinkage"


def plans_to_try(plan: Plan) -> list[Plan]:
    """The plan of a soak and, where that is to be tried, what may make its arenas smaller."""
    target, on_cuda = plan.target, SHORT_NAMES.get(plan.target.ep, plan.target.ep) == CUDA_EP
    if not isinstance(plan.part, Soak) or plan.part.tried is None:
        return [plan]
    shrinks = {_SHRINKS: "cpu:0;gpu:0" if on_cuda else "cpu:0"}
    remedies = {
        "no CPU arena": replace(target, cpu_mem_arena=False),
        "arena shrinks": replace(target, run_config={**target.run_config, **shrinks}),
    }
    if on_cuda:
        grows = {"arena_extend_strategy": "kSameAsRequested"}
        remedies["arena grows as requested"] = replace(target, options={**target.options, **grows})
    others = [replace(plan, target=it, beside=name) for name, it in remedies.items() if it != target]
    return [replace(plan, beside="default"), *others]
