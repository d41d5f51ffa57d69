"""Commands to copy: one that writes the program of a mode that was measured, one that measures again, one that shows placement. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from ortbench.analysis.findings.finding import Command
from ortbench.analysis.variables import needed_variables
from ortbench.core.safe_text import listed
from ortbench.model.kinds import kind_of
from ortbench.model.modes import CPU
from ortbench.model.result import LOOP, Result
from ortbench.model.schema import Loop
from ortbench.model.settings import OF_SESSION, typed
from ortbench.plan.next_command import CarriedOut, name_of, next_command

# What no program is written with, by the settings of a result.
_NOT_WRITTEN = ("policy",)
# What a search of settings is not given.
_SEARCHED = ("intra-op-threads", "inter-op-threads", "execution-mode", "cpu-mem-arena", "mem-pattern", "opt-level")
_OF_INFERENCES = ("expect", "input", "shape", "dim", "sequence-tensors", "range")  # what a decoder finds by itself
_MOST_THREADS = 64
_SEARCH = "tune"  # whose results are runs


def command(result: Result, name: str, *changes: str, without: Collection[str] = ()) -> str:
    """See `next_command`."""
    return Command(next_command(carried_out(result), name, *changes, without=without))


def carried_out(result: Result) -> CarriedOut:
    """What a result says of how it was measured, of a sweep with the first of its shapes; copies are of no model."""
    model = result.model or {"path": "", "inputs": []}
    inputs = next((it.inputs for it in result.shapes), model["inputs"])
    variables = needed_variables(result.environment)
    return CarriedOut(result.command, model["path"], inputs, [*_session(result)], [*_loop(result)], variables)


def how_to_write(result: Result, mode: str) -> str:
    """The command that writes the program of a mode; nothing for `cpu-tensors`, which any sample shows, or where none is written."""
    target = result.target
    if mode == CPU or any(target.get(key) for key in _NOT_WRITTEN) or kind_of(result.kind).of_stages:
        return ""
    if any("tensors" in it for it in result.model["inputs"]) or result.generation:
        return ""
    return program_command(result, mode)


def program_command(result: Result, mode: str) -> str:
    """The command that writes the program of a mode."""
    case = result.case(mode)
    depth = ["--depth", str(case.pipeline["depth"])] if case is not None and case.pipeline is not None else []
    return command(result, "code", "--mode", mode, *depth)


def again(result: Result, *more: str, without: Collection[str] = ()) -> str:
    """The command that was typed, with something more, or without an option; in words where the result is of none that measures the same
    again."""
    name = name_of(result.command)
    found = command(result, name, *more, without=without) if name in (result.kind, _SEARCH) else ""
    return found or f"measure again {f'with {shlex.join(more)}' if more else f'without --{listed([*without])}'}"


def lever(result: Result) -> str:
    """The command that tries what makes an inference on the CPU faster: numbers of threads, then what takes the time."""
    cores = min(result.environment["cpu"].get("usable_cores") or 1, _MOST_THREADS)
    if result.target.get("intra_op_threads") is None and cores > 1:
        numbers = [2**power for power in range(cores.bit_length()) if 2**power < cores]
        return again(result, "--intra-op-threads", ",".join(map(str, [*numbers[-3:], cores])))
    return "" if result.nodes is not None else node_times(result)


def node_times(result: Result) -> str:
    """The command that says what takes the time inside the graph: of a run node by node, else which nodes are where."""
    return command(result, result.kind, "--measure-nodes") if kind_of(result.kind).times_nodes else inspection(result)


def inside(result: Result) -> str:
    """The command for what no mode makes faster, as its time is in inferences: it times nodes, or searches settings where they were timed."""
    if (told := _INSIDE.get(result.kind)) is not None:
        return told(result, result.part)
    if result.nodes is None:
        return node_times(result)
    return command(result, "tune", without=_SEARCHED)


def inspection(result: Result) -> str:
    """The command that shows which nodes run on which EP; nothing for a chain, whose stages are several models."""
    if kind_of(result.kind).of_stages:
        return ""
    placed = {"--ep", "--ep-library"} & {*_session(result)}
    return command(result, "inspect", *(() if placed else ("--ep", "auto")))


def both_steps(result: Result, loop: Loop, step: int) -> str:
    """The command that times the nodes of a step of a loop and of the one before, each alone; nothing where no state grows along a
    dimension with a name."""
    inputs = {it["name"]: it for it in result.model["inputs"]}
    sized = [pair for it in inputs.values() for pair in zip(it["model_shape"], it["shape"] or (), strict=False)]
    for (_, name), (before, after) in zip(loop["feedback"], loop["state_shapes"], strict=False):
        state = inputs.get(name)
        axes = () if state is None else zip(state["model_shape"], state["shape"] or (), before, after, strict=False)
        for symbol, last, begun, ended in axes:  # `last`: in the last step
            if isinstance(symbol, str) and symbol.isidentifier() and begun != ended > last:
                each = ended - last
                here = last - (loop["steps"] - 1 - step) * each
                dims = {
                    dim: f"{symbol}+{each}" if size == ended else size  # a mask is as long as the state then is
                    for dim, size in sized
                    if isinstance(dim, str) and dim.isidentifier() and size != 1
                }
                dims[symbol] = f"{here - each},{here}"
                return command(result, "run", *_pairs("dim", dims), "--measure-nodes")
    return ""


def step_nodes(result: Result, loop: Loop) -> str:
    """The command that times the nodes of the last step of a loop, beside those of the one before where its state grows; where neither
    its sizes nor the model say what a step takes, the one that shows which nodes are where."""
    if any(isinstance(dim, str) for it in result.model["inputs"] for dim in it["model_shape"]):
        return both_steps(result, loop, loop["steps"] - 1) or inspection(result)
    return command(result, "run", "--measure-nodes")


def loop_command(done: CarriedOut, state: Collection[str], settings: Sequence[str]) -> str:
    """The command that measures a model as a loop, whose `state` is fed back, with these `settings`; what generates has none."""
    if not settings:
        return Command(next_command(done, "loop", without=_OF_INFERENCES))
    pairs = zip(settings[::2], settings[1::2], strict=True)
    made = {word.partition("=")[0] for flag, word in pairs if flag != "--feedback"}  # anew in each step
    sized = [it["name"] for it in done.inputs if made & {it["name"], *map(str, it["model_shape"])}]
    without = ["expect", *(f"range:{name}" for name in (*state, *made)), *(f"shape:{name}" for name in sized)]
    return Command(next_command(done, "loop", *settings, without=[*without, *(["input"] if made else [])]))


def _session(result: Result) -> Iterator[str]:
    """The EP and the session, as they were recorded."""
    library, asked = result.target.get("ep_library"), str(result.target.get("ep_requested", "auto"))
    package = re.split(r"[/\\]", library or "")[0].replace("_", "-")
    packaged = package in ("onnxruntime", *result.environment.get("packages", ()))
    if library is not None and ((asked == "auto" and not packaged) or any(library in word for word in result.command)):
        yield from ("--ep-library", str(library))
    if asked != "auto":
        yield from ("--ep", asked)
    yield from typed((it for it in OF_SESSION if it.option != "optimized-model"), result.target)


def _loop(result: Result) -> Iterator[str]:
    """What makes it a loop; nothing of what generates, which finds that by itself."""
    loop = result.part or {}
    if "feedback" not in loop or result.generation:
        return
    for out, into in loop["feedback"]:
        yield from ("--feedback", f"{out}={into}")
    yield from ("--steps", str(loop["steps"]))
    yield from _pairs("first-dim", loop["first"] or {})
    yield from _pairs("fill", loop["fill"])
    for flag, names in (("keep", loop["keep"]), ("resident", loop["resident"])):
        for name in names:
            yield from (f"--{flag}", name)


_INSIDE = {LOOP: step_nodes}


def _pairs(flag: str, entries: Mapping[str, object]) -> Iterator[str]:
    for key, value in entries.items():
        yield from (f"--{flag}", f"{key}={value}")
