"""What a result says of the run besides its figures: machine, model, EP, session, placement, sync, GPUs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from ortbench.analysis.items import dim_sizes, items_of
from ortbench.analysis.outputs import EXPECTED, add_comparison, comparison_record, reasons_without_shape
from ortbench.analysis.placement import nodes_stay
from ortbench.core import __version__
from ortbench.core.eps import CPU_EP, is_nvidia
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.core.expressions import by_size
from ortbench.core.features import part_of
from ortbench.core.files import CERTIFICATE, ModelFiles, note, state_file, write_atomically
from ortbench.core.safe_text import join_words
from ortbench.measure.gpus import known_card, leave_out, moves_to_warn_of, sentence, throttled_rounds
from ortbench.model.modes import BYTES_D2H, BYTES_H2D, CPU, MODES, mode_of
from ortbench.model.protocol import Finished, Opened, Prepared
from ortbench.model.result import UNSUPPORTED, Case, Result
from ortbench.model.schema import CaseCheck, GpuReading, Machine, Target, Throttled, is_on_nvidia
from ortbench.model.settings import recorded_variables
from ortbench.plan.options import settings
from ortbench.plan.plan import Plan
from ortbench.plan.target import POLICIES

_ENGINE_BYTES = 1 << 16  # the least room that an engine takes


def new_result(command: Sequence[str], **known: Any) -> Result:
    """A result of which so much is known before anything was opened."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return Result(tool={"name": "ortbench", "version": __version__}, created=created, command=list(command), **known)


def describe(result: Result, plan: Plan, machine: Machine, files: ModelFiles, run_id: str, opened: Opened) -> None:
    """Describe a run whose model is open. `BadInput`: CUPTI is to look into an EP that is not NVIDIA's, or items are to be what they
    cannot be. `BenchmarkFailed`: nodes stay on the CPU where none may."""
    result.environment = {**machine, **opened["runtime"]}
    if plan.record_env:
        result.environment["record_env"] = list(plan.record_env)
        result.environment["variables"], remarks = recorded_variables(plan.record_env, os.environ)
        for remark in remarks:
            result.warn("record-env", remark)
    result.model = {
        "path": plan.called or str(Path(plan.model)),
        "sha256": files.digest(plan.model),
        "inputs": opened["inputs"],
        "outputs": opened["outputs"],
    }
    plan = part_of(plan.work.kind, "measure", "describe_opened", lambda *_: plan)(result, plan, files, opened)
    if not plan.stages:  # whose stages may have batches, and dimensions of the same names, of their own
        result.items = items_of(opened["inputs"], plan.items, opened["guessed_dims"])
        several = {name: found for name, found in dim_sizes(opened["inputs"]).items() if len(found) > 1}
        if several:
            said = ", ".join(
                f"{name} is {join_words(list(map(str, sorted(found))))}" for name, found in several.items()
            )
            result.warn("dims-of-several-sizes", f"dimensions of one name have several sizes: {said}")
    result.target = _target(plan, opened)
    if opened["ep"] == CPU_EP and state_file(CERTIFICATE).exists():
        from ortbench.model.certificate import read_certificate, stale_reasons  # few machines have one

        kept = read_certificate()
        if kept is not None and not stale_reasons(kept, result.environment):
            result.environment["certificate"] = kept["certificate"]
    if plan.measure_copies and not is_nvidia(opened["ep"]):
        reason = f"is by NVIDIA's CUPTI, which sees nothing of {opened['ep']}: leave it out"
        raise BadInput(f"--measure-copies {reason}", "--measure-copies")
    result.placement = opened["placement"]
    result.setup = {
        "run_id": run_id,
        "session_ns": opened["session_ns"],
        "engine_cache": opened["engine_cache"],
        "first_inference_ns": opened["first_inference_ns"],
        "seed": plan.inputs.seed,
        "expected_outputs": opened["expected"] is not None,
    }
    if plan.pace.every_ns is not None:
        result.setup["every_ns"] = plan.pace.every_ns
    if (held := opened["expected"]) is not None:
        add_comparison(result, comparison_record(EXPECTED, held, [opened["ep"], *(it["ep"] for it in opened["eps"])]))
    for warning in (*plan.remarks, *opened["notes"]):
        result.warn(warning["code"], warning["message"])
    # A state that begins with 0 is no guess: trial steps showed that it grows.
    if guessed := {name: size for name, size in opened["guessed_dims"].items() if size}:
        sizes = (f"set to {size}: {', '.join(names)}" for size, names in by_size(guessed).items())
        result.warn("dims-set-to-1", f"symbolic dimensions {'; '.join(sizes)}; give others with --dim or --shape")
    binds = any(not mode_of(mode).of_cpu_tensors for mode in plan.modes)
    for reason in reasons_without_shape(opened["outputs"]):
        result.warn("outputs-without-shape", f"{reason}: bound without a shape" if binds else reason)
    for case in result.cases:
        if opened["unsupported"] is not None:
            case.status, case.reason = UNSUPPORTED, opened["unsupported"]
    _check_placement(result, plan.target.no_cpu_fallback)  # of stages the worker has checked it one by one


def _target(plan: Plan, opened: Opened) -> Target:
    target = {
        "ep": opened["ep"],
        "ep_requested": plan.target.ep,
        "policy": POLICIES.get(plan.target.ep),
        "ep_library": opened["library"],
        "ep_version": opened["version"],
        "device": opened["device"],
        "memory": opened["memory"],
        **({"eps": opened["eps"]} if opened["eps"] else {}),
        "sync": None,
        **settings(plan.target),
        "ep_options": opened["ep_options"],
    }
    return cast(Target, target)  # the keys of settings are declared with the options


def _check_placement(result: Result, required: bool) -> None:
    operators = result.placement["cpu_operators"]
    if not operators:
        return
    count = sum(operators.values())
    listed = ", ".join(f"{name} ({n})" if n > 1 else name for name, n in operators.items())
    memcpy = result.placement["memcpy_nodes"]
    verb = "node copies" if memcpy == 1 else "nodes copy"
    copies = f"; {memcpy} Memcpy {verb} between them in each inference" if memcpy else ""
    message = f"{nodes_stay(count)} on the CPU: {listed}{copies}"
    if required:
        raise BenchmarkFailed(f"{message} (--no-cpu-fallback)")
    result.warn("cpu-nodes", message)


def describe_prepared(case: Case, answer: Prepared) -> None:
    """What is known of a mode that is set up."""
    case.set_metric(BYTES_H2D, answer["bytes_in"])
    case.set_metric(BYTES_D2H, answer["bytes_out"])
    case.sync = answer["sync"]
    checks: dict[str, CaseCheck] = {"outputs": {"verdict": "passed"}}
    claims = {"zero_copy": answer["zero_copy"], "external": answer["external"], "graph": answer["graph"]}
    for name, claim in claims.items():
        if claim is not None:
            how: Any = {key: value for key, value in claim.items() if key != "verified"}
            checks[name] = cast(CaseCheck, {"verdict": "passed" if claim["verified"] else "unclear", **how})
    case.checks = checks
    case.pipeline = answer["pipeline"]
    case.places = answer["places"]
    case.inferences_per_sample = answer["inferences_per_sample"]
    case.stage_bytes = answer.get("stage_bytes")
    case.step_bytes = answer.get("step_bytes")


def describe_finished(result: Result, case: Case, answer: Finished) -> None:
    """What is measured of a mode only once."""
    if (once := answer["once"]) is not None:
        case.set_metric("once_h2d", once["h2d_ns"])
        case.set_metric("once_d2h", once["d2h_ns"])
    part_of(result.kind, "measure", "describe_finished", lambda *_: None)(result, case, answer)


def note_lost_engine(result: Result) -> None:
    """Note it where the EP left no engine because nothing can be written; EPs themselves go on without a word."""
    cache = result.setup.get("engine_cache")
    if cache is None:
        return
    folder = Path(cache["path"])
    try:
        if any(file.stat().st_size for file in folder.iterdir()):
            return
        probe = folder / "probe"
        write_atomically(probe, bytes(_ENGINE_BYTES))
        probe.unlink()
    except OSError as error:
        note(f"the engine in {folder}", error)


def describe_sync(result: Result) -> None:
    """The sync of the target is that of runs without copies, or of the first mode that is there."""
    for mode in (MODES[CPU].without_copies, *(case.mode for case in result.cases)):
        case = result.case(mode)
        if case is not None and case.sync is not None:
            sync = case.sync
            result.target["sync"] = {"kind": sync["kind"], "cost_ns": sync["cost_ns"], "how": sync["how"]}
            return


def describe_gpus(
    results: Sequence[Result], readings: Sequence[GpuReading], decided: bool, leaves_out: bool = True
) -> None:
    """What NVML said while configurations were measured, and whether rounds are left out for it: none where a gate has
    `decided` by all of them, and none of what never `leaves_out` any."""
    if not leaves_out:
        for result in results:
            _note_moves(result, readings)
        return
    measured = [card for result in results for card in _cards(result, readings)]
    moved = throttled_rounds(readings, [case for result in results for case in result.cases], measured)
    if moved is not None and decided:
        moved["left_out"] = False
    for result in results:
        _note_moves(result, readings, moved)
        if moved is None:
            continue
        result.throttled = moved
        result.warn("throttled", sentence(moved, decided))
        for case in result.cases if moved["left_out"] else ():
            leave_out(case, set(moved["rounds"]))


def _note_moves(result: Result, readings: Sequence[GpuReading], throttled: Throttled | None = None) -> None:
    """Put into a result what was read of GPUs, and warn where their state moved, but for what is left out of figures."""
    if readings:
        result.environment["gpu_readings"] = list(readings)
    for message in moves_to_warn_of(readings, throttled):
        result.warn("gpu-state", message)


def _cards(result: Result, readings: Sequence[GpuReading]) -> set[int]:
    """The GPUs that may be the one of a result: where it cannot be told, all that there are."""
    if not is_on_nvidia(result.target):
        return set()
    if result.environment["gpus"][1:] and (card := known_card(result.target)) is not None:
        return {card}
    return {reading["gpu"] for reading in readings}
