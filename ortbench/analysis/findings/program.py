"""The command that writes the program of a mode that was measured. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ortbench.model.kinds import KINDS
from ortbench.model.modes import CPU, HOST_ACCESSIBLE, MODES, SHARED
from ortbench.model.result import LOOP, Result
from ortbench.model.schema import Loop

# Modes that take another program than most have; how `cpu-tensors` and `device-tensors` are written is known from any sample.
_WORTH = (MODES[CPU].without_copies, HOST_ACCESSIBLE, SHARED.name)
# What no program is written with, by the settings of a result.
_NOT_WRITTEN = ("policy", "free_dims")


def how_to_write(result: Result, mode: str) -> list[str]:
    """The sentence that names the command for a mode, or none where a program says nothing new or is not written."""
    target = result.target
    if mode not in _WORTH or any(target.get(key) for key in _NOT_WRITTEN) or KINDS[result.kind].of_stages:
        return []
    if any("tensors" in it for it in result.model["inputs"]):
        return []
    return [f"The program that does so: {program_command(result, mode)}"]


def program_command(result: Result, mode: str) -> str:
    """The command, quoted for a shell: with the model, the EP, the settings and the sizes of the result."""
    sizes = _WORKS.get(result.kind, _sizes)(result)
    return shlex.join(["ortbench", "code", result.model["path"], "--mode", mode, *_target(result), *sizes])


def _target(result: Result) -> Iterator[str]:
    target: dict[str, Any] = {**result.target}
    library = target.get("ep_library")
    if library is not None and any(library in word for word in result.command):  # the user named it
        yield from ("--ep-library", str(library))
    if (asked := target.get("ep_requested", "auto")) != "auto":
        yield from ("--ep", str(asked))
    for flag, key in (("ep-option", "ep_options"), ("session-config", "session_config"), ("run-config", "run_config")):
        yield from _pairs(flag, target.get(key) or {})
    if target.get("threads") is not None:
        yield from ("--threads", str(target["threads"]))
    if target.get("opt_level", "all") != "all":
        yield from ("--opt-level", target["opt_level"])
    for flag, key in (("external", "external"), ("stream", "stream")):
        if target.get(key):
            yield from (f"--{flag}", str(target[key]))
    for flag, key in (("dynamic-outputs", "dynamic_outputs"), ("cuda-graph", "cuda_graph")):
        if target.get(key):
            yield f"--{flag}"


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
