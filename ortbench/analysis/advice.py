"""A finding, with what to do next: commands that write a mode's program, measure again, or show placement. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ortbench.core.features import part_of
from ortbench.core.safe_text import join_words
from ortbench.model.kinds import kind_of
from ortbench.model.modes import CPU
from ortbench.model.result import Result
from ortbench.model.settings import OF_SESSION, needed_variables, setting_words
from ortbench.plan.next_command import CarriedOut, name_of, next_command


class Weight(IntEnum):
    """How much a finding matters to somebody who has to decide something."""

    DETAIL = 0  # how a figure was checked, or what else is known of it
    COST = 1  # what takes time or memory beside, or needs care
    GAIN = 2  # what makes an inference faster
    ANSWER = 3  # what the command was asked for
    DOUBT = 4  # the figures are of something else than what was asked for


class Command(str):
    """A command to copy, quoted for a shell."""

    __slots__ = ()


class Finding(NamedTuple):
    what: str  # the finding with its figure: a sentence without a period
    next: str = ""  # what to do: a command to copy, or a sentence without a period
    weight: Weight = Weight.GAIN
    tone: str = ""  # "good", "bad", "unclear", as reports colour it; "" for neither
    row: tuple[str, ...] = ()  # what names the row of a table that it is about

    @property
    def text(self) -> str:
        return f"{self.what}."

    @property
    def is_command(self) -> bool:
        """Whether what to do next is a command."""
        return isinstance(self.next, Command)


# Commands to copy


# What no program is written with, by the settings of a result.
_NOT_WRITTEN = ("policy",)
# What a search of settings is not given.
_SEARCHED = ("intra-op-threads", "inter-op-threads", "execution-mode", "cpu-mem-arena", "mem-pattern", "opt-level")
_OF_INFERENCES = ("expect", "input", "shape", "dim", "sequence-tensors", "range")  # what a decoder finds by itself
_MOST_THREADS = 64
_SEARCH = "tune"  # whose results are runs


def command(result: Result, name: str, *changes: str, without: Collection[str] = ()) -> str:
    return Command(next_command(carried_out(result), name, *changes, without=without))


def carried_out(result: Result) -> CarriedOut:
    """What a result says of how it was measured, of a sweep with the first of its shapes; copies are of no model."""
    model = result.model or {"path": "", "inputs": []}
    inputs = next((it.inputs for it in result.shapes), model["inputs"])
    variables = needed_variables(result.environment)
    work = [*part_of(result.kind, "analysis", "options_of_work", lambda _: ())(result)]
    return CarriedOut(result.command, model["path"], inputs, [*_session(result)], work, variables)


def how_to_write(result: Result, mode: str) -> str:
    """The command that writes the program of a mode; nothing for `cpu-tensors`, which any sample shows, or where none is written."""
    target = result.target
    if mode == CPU or any(target.get(key) for key in _NOT_WRITTEN) or kind_of(result.kind).of_stages:
        return ""
    is_written = part_of(result.kind, "analysis", "can_be_written", lambda _: True)(result)
    if any("tensors" in it for it in result.model["inputs"]) or not is_written:
        return ""
    case = result.case(mode)
    depth = ["--depth", str(case.pipeline["depth"])] if case is not None and case.pipeline is not None else []
    return command(result, "code", "--mode", mode, *depth)


def again(result: Result, *more: str, without: Collection[str] = ()) -> str:
    """The command that was typed, with something more, or without an option; in words where the result is of none that measures the same
    again."""
    name = name_of(result.command)
    found = command(result, name, *more, without=without) if name in (result.kind, _SEARCH) else ""
    return found or f"measure again {f'with {shlex.join(more)}' if more else f'without --{join_words([*without])}'}"


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
    if of_kind := part_of(result.kind, "analysis", "inside"):
        return str(of_kind(result))
    if result.nodes is None:
        return node_times(result)
    return command(result, "tune", without=_SEARCHED)


def inspection(result: Result) -> str:
    """The command that shows which nodes run on which EP; nothing for a chain, whose stages are several models."""
    if kind_of(result.kind).of_stages:
        return ""
    placed = {"--ep", "--ep-library"} & {*_session(result)}
    return command(result, "inspect", *(() if placed else ("--ep", "auto")))


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
    yield from setting_words((it for it in OF_SESSION if it.option != "optimized-model"), result.target)


def pairs_of(flag: str, entries: Mapping[str, object]) -> Iterator[str]:
    """The words of an option that takes pairs."""
    for key, value in entries.items():
        yield from (f"--{flag}", f"{key}={value}")
