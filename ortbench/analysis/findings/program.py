"""Commands to copy: one that writes the program of a mode that was measured, one that measures again, one that shows placement. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from ortbench.model.kinds import KINDS
from ortbench.model.modes import CPU
from ortbench.model.result import LOOP, Result
from ortbench.model.schema import Loop
from ortbench.model.settings import OF_SESSION, typed

# What no program is written with, by the settings of a result.
_NOT_WRITTEN = ("policy",)
# Of settings: those that stand with the EP, and with these what is no part of what a program does.
_OF_PROVIDER = ("ep-option", "session-config", "custom-ops")
_ELSEWHERE = (*_OF_PROVIDER, "python", "optimized-model")


def how_to_write(result: Result, mode: str) -> str:
    """The command that writes the program of a mode; nothing for `cpu-tensors`, which any sample shows, or where none is written."""
    target = result.target
    if mode == CPU or any(target.get(key) for key in _NOT_WRITTEN) or KINDS[result.kind].of_stages:
        return ""
    if any("tensors" in it for it in result.model["inputs"]) or result.generation:
        return ""
    return program_command(result, mode)


def program_command(result: Result, mode: str) -> str:
    """The command, quoted for a shell: with the model, the EP, the settings and the sizes of the result."""
    sizes = _WORKS.get(result.kind, _sizes)(result)
    case = result.case(mode)
    depth = ["--depth", str(case.pipeline["depth"])] if case is not None and case.pipeline is not None else []
    return shlex.join(["ortbench", "code", result.model["path"], "--mode", mode, *depth, *_target(result), *sizes])


def again(result: Result, *more: str) -> str:
    """The command that measures the same again with something more; in words where the result is of no such command."""
    return retyped(result.command, result.kind, *more) or f"measure again with {shlex.join(more)}"


def retyped(command: Sequence[str], name: str, *more: str) -> str:
    """A command that was typed, with something more; nothing where it is not that of this name."""
    try:
        typed = [word for quoted in command for word in shlex.split(quoted)]
    except ValueError:  # nobody typed that
        typed = []
    return shlex.join([*_without(typed, more[0]), *more]) if typed[:2] == ["ortbench", name] else ""


def _without(typed: Sequence[str], flag: str) -> list[str]:
    """The words of a command without an option that is given another value, and without the files that it wrote."""
    kept, words = [], iter(typed)
    for word in words:
        name, equals, _ = word.partition("=")
        if (name == flag and flag not in _REPEATABLE) or name in _FILES:
            if not equals:
                next(words, None)
            continue
        kept.append(word)
    return kept


_MOST_THREADS = 64
_REPEATABLE = ("--session-config", "--ep-option", "--run-config")
_FILES = (
    "--out",
    "--resume",
    "--name",
    "--json",
    "--junit",
    "--action-json",
    "--bmf",
    "--markdown",
    "--trace",
    "--html",
)


def lever(result: Result) -> str:
    """The command that tries what makes an inference on the CPU faster: numbers of threads, then what takes the time."""
    cores = min(result.environment["cpu"].get("usable_cores") or 1, _MOST_THREADS)
    if result.target.get("intra_op_threads") is None and cores > 1:
        numbers = [2**power for power in range(cores.bit_length()) if 2**power < cores]
        return again(result, "--intra-op-threads", ",".join(map(str, [*numbers[-3:], cores])))
    return "" if result.nodes is not None else node_times(result)


def node_times(result: Result) -> str:
    """The command that says what takes the time inside the graph: of a run node by node, else which nodes are where."""
    return again(result, "--measure-nodes") if KINDS[result.kind].times_nodes else inspection(result)


def inside(result: Result) -> str:
    """The command for what no mode makes faster, as its time is in inferences: it times nodes, or searches settings where they were timed."""
    if (told := _INSIDE.get(result.kind)) is not None:
        return told(result, result.part)
    if result.nodes is None:
        return node_times(result)
    return shlex.join(["ortbench", "tune", result.model["path"], *_provider(result), *_sizes(result)])


def inspection(result: Result) -> str:
    """The command that shows which nodes run on which EP; nothing for a chain, whose stages are several models."""
    if KINDS[result.kind].of_stages:
        return ""
    return shlex.join(["ortbench", "inspect", result.model["path"], *_provider(result, auto=True)])


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
                run = ["ortbench", "run", result.model["path"], *_target(result)]
                return shlex.join([*run, *_pairs("dim", dims), "--measure-nodes"])
    return ""


def step_nodes(result: Result, loop: Loop) -> str:
    """The command that times the nodes of the last step of a loop, beside those of the one before where its state grows; where neither
    its sizes nor the model say what a step takes, the one that shows which nodes are where."""
    if any(isinstance(dim, str) for it in result.model["inputs"] for dim in it["model_shape"]):
        return both_steps(result, loop, loop["steps"] - 1) or inspection(result)
    return shlex.join(["ortbench", "run", result.model["path"], *_target(result), "--measure-nodes"])


def on_same_ep(result: Result, command: str) -> str:
    """A command, with the EP and its options."""
    return " ".join(filter(None, (command, shlex.join(_provider(result)))))


def _provider(result: Result, auto: bool = False) -> Iterator[str]:
    """The EP and its options; where `auto` also that ortbench is to choose one."""
    library, asked = result.target.get("ep_library"), str(result.target.get("ep_requested", "auto"))
    named = library is not None and any(library in word for word in result.command)  # by the user
    if named:
        yield from ("--ep-library", str(library))
    if asked != "auto" or (auto and not named):
        yield from ("--ep", asked)
    yield from typed((it for it in OF_SESSION if it.option in _OF_PROVIDER), result.target)


def _target(result: Result) -> Iterator[str]:
    yield from _provider(result)
    yield from typed((it for it in OF_SESSION if it.option not in _ELSEWHERE), result.target)


def _loop(result: Result) -> Iterator[str]:
    """What makes it a loop, and the sizes of symbolic dimensions."""
    loop: Loop = result.part
    for out, into in loop["feedback"]:
        yield from ("--feedback", f"{out}={into}")
    yield from ("--steps", str(loop["steps"]))
    yield from _pairs("first-dim", loop["first"] or {})
    yield from _pairs("fill", loop["fill"])
    for flag, names in (("keep", loop["keep"]), ("resident", loop["resident"])):
        for name in names:
            yield from (f"--{flag}", name)
    for dim in _typed_dims(result.command):
        yield from ("--dim", dim)


_WORKS = {LOOP: _loop}
_INSIDE = {LOOP: step_nodes}


def _sizes(result: Result) -> Iterator[str]:
    sizes: dict[str, int] = {}
    for it in result.model["inputs"]:
        for symbol, size in zip(it["model_shape"], it["shape"] or (), strict=False):
            if isinstance(symbol, str):
                sizes.setdefault(symbol, size)
    yield from _pairs("dim", {dim: size for dim, size in sizes.items() if size != 1})


def _typed_dims(command: Sequence[str]) -> Iterator[str]:
    """The values of ``--dim`` in a command: those of a loop can be sums, which its result has the last value of alone."""
    words = [shlex.split(word)[0] if word else word for word in command]  # each is quoted for a shell
    for word, behind in zip(words, [*words[1:], ""], strict=True):
        flag, equals, value = word.partition("=")
        if flag == "--dim":
            yield value if equals else behind


def _pairs(flag: str, entries: Mapping[str, object]) -> Iterator[str]:
    for key, value in entries.items():
        yield from (f"--{flag}", f"{key}={value}")
