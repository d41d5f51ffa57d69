"""What to type next: the command, made of what was carried out and of what is changed or added, and lines of code that set a session. Pure."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, NamedTuple

from ortbench.core.errors import BadInput
from ortbench.core.expressions import named_dims, names_in
from ortbench.core.features import record_of
from ortbench.model.schema import Tensor
from ortbench.model.settings import OF_SESSION, split_lists
from ortbench.plan.option_types import finite, is_library
from ortbench.plan.options import INPUT, LOOP, RUNS, WRITTEN, Option, exclusions, options_for
from ortbench.plan.plan_builder import MAX_CONFIGURATIONS
from ortbench.plan.target import ORT_OPT_LEVELS

_PROGRAM = "ortbench"
_RECORDED = {"ep", "ep-library", *(it.option for it in OF_SESSION)}  # what a result has of its session
_WRITES = "optimized-model"  # a file, beside the options of the panel WRITTEN
_ELSEWHERE = (RUNS, INPUT, LOOP)  # the panels of what other commands carry out too
_DATA = ("input", "data")  # files that say how inputs look, and exclude
_SIZES = ("shape", "dim", "sequence-tensors", "range")
_FROM_INPUTS = ("run", "tune")  # commands of the core that need no more than a model and its inputs


@dataclass(frozen=True)
class CarriedOut:
    """What was carried out: the `command` as it was typed, each word quoted for a shell, and the model that it was of.

    Attributes:
        inputs: as they were measured.
        session: the words that set the EP and the session as a result records them; None for those that were typed.
        loop: the words that make it a loop, as a result records them.
        variables: those of the environment that it needs.
    """

    command: Sequence[str]
    model: str
    inputs: Sequence[Tensor] = ()
    session: Sequence[str] | None = None
    loop: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


class _Given(NamedTuple):
    """An option and the text of its value; of a flag what stands before its name."""

    option: Option
    text: str

    @property
    def flag(self) -> str:
        return self.option.flag

    @property
    def entry(self) -> str:
        """The name of an entry of a table; "" of other options."""
        entries = self.option.kind.entries
        if entries is None:
            return ""
        return (self.text.rpartition if entries.last else self.text.partition)(entries.joint)[0]

    @property
    def several(self) -> int:
        """How many values a list has."""
        if self.option.lists is None:
            return 1
        try:
            return len(split_lists(self.option.read([self.text] if self.option.kind.repeatable else self.text)))
        except BadInput:
            return 1

    @property
    def words(self) -> list[str]:
        if self.option.kind.word is bool:
            return [f"--{self.text}{self.flag}"]
        return [f"--{self.flag}={self.text}"] if self.text.startswith("-") else [f"--{self.flag}", self.text]


def next_command(done: CarriedOut, name: str, *changes: str, without: Collection[str] = ()) -> str:
    """The command `name` for what was carried out, with the words of `changes`, quoted for a shell; empty where there is none.

    The same command has all that was typed; another one the model, the EP, the session, the inputs and the loop, as far as it takes
    them. Files that were written are left out, and so are options and entries (``range:x``) in `without`.
    """
    options = _options(name)
    before, source, typed = _split_words(done.command)
    positional, given = _read(typed, _options(source))
    _, changed = _read(changes, options)
    is_same, is_known = source == name and bool(positional), "ep" in _options(source)
    given = [it for it in given if it.option.texts.panel != WRITTEN and it.flag != _WRITES]
    if not is_same:
        given = [it for it in given if it.option.texts.panel in _ELSEWHERE]
    if len(changed) < sum(it.startswith("--") for it in changes):  # an option that the command has not
        return ""
    lists = prod(it.several for it in changed)
    if not options or not (is_same or name in _FROM_INPUTS or record_of(name).from_inputs):
        return ""  # what else it takes is known from the command alone
    if not is_same or (lists > 1 and lists * _configurations(given) > MAX_CONFIGURATIONS):
        given = [*_of_session(done, given), *_of_inputs(done, given, source, name)]
        if not is_known:
            given += _read([*done.loop, *_sizes(done.inputs), *_ranges(done.inputs)], _options("loop"))[1]
    given = [it for it in given if it.flag in options and not {it.flag, f"{it.flag}:{it.entry}"} & {*without}]
    if (kept := _keep(given, changed, done.inputs)) is None:
        return ""
    model = positional[0] if is_same else done.model
    words = [*before, _PROGRAM, name, f"./{model}" if model.startswith("-") else model]
    words += [word for it in ([*kept, *changed] if is_same else [*changed, *kept]) for word in it.words]
    return " ".join([*(f"{key}={shlex.quote(text)}" for key, text in done.variables.items()), shlex.join(words)])


def name_of(command: Sequence[str]) -> str:
    """The name of a command that was typed; empty where nobody typed one."""
    _, name, words = _split_words(command)
    return name if words else ""


@cache
def _options(command: str) -> dict[str, Option]:
    """The options of a command by their flags, as it has them."""
    return {it.flag: it.for_command(command) for it in options_for(command)}


def _split_words(command: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """What stands before the program in a command, the name of the command, and the words behind that."""
    try:
        words = [word for quoted in command for word in shlex.split(quoted)]
        at = words.index(_PROGRAM)
    except ValueError:  # nobody typed that
        return [], "", []
    before, rest = words[:at], words[at + 1 :]
    return (before, rest[0], rest[1:]) if rest and _options(rest[0]) else (before, "run", rest)


def _read(words: Sequence[str], options: Mapping[str, Option]) -> tuple[list[str], list[_Given]]:
    """The words of a command that are no option's, and its options."""
    positional: list[str] = []
    given: list[_Given] = []
    left = iter(words)
    for word in left:
        if word == "--":
            positional += left
        elif word.startswith("--"):
            flag, equals, text = word[2:].partition("=")
            off = "no-" if flag not in options and flag.removeprefix("no-") in options else ""
            option = options.get(flag.removeprefix(off))
            if option is not None and option.kind.word is bool:
                given.append(_Given(option, off))
                continue
            text = text if equals else next(left, "")
            given += [] if option is None else [_Given(option, text)]
        elif not word.startswith("-"):
            positional.append(word)
    return positional, given


def _configurations(given: Sequence[_Given]) -> int:
    """How many configurations there are, of lists and of options that are repeated."""
    repeated: dict[tuple[str, str], int] = {}
    for word in given:
        if word.option.lists is not None:
            here = (word.flag, word.entry)
            repeated[here] = repeated.get(here, 0) + word.several
    return prod(repeated.values())


def _of_session(done: CarriedOut, given: Sequence[_Given]) -> list[_Given]:
    """What sets the EP and the session of one configuration."""
    typed = [it for it in given if it.option.texts.panel == RUNS]
    if done.session is None:
        return typed
    recorded = _read(done.session, _options("run"))[1]
    return [*recorded, *(it for it in typed if it.flag not in _RECORDED and it.several == 1)]


def _of_inputs(done: CarriedOut, given: Sequence[_Given], source: str, name: str) -> list[_Given]:
    """All else of one configuration, from one command to another; a file of inputs that this one does not take is replaced by their
    sizes, and what an input of a loop holds by its range."""
    options = _options(name)
    leaves_loop = source == "loop" and "feedback" not in options
    kept, lacking = list[_Given](), False
    for word in given:
        if word.option.texts.panel == RUNS or (word.flag == "expect" and (source == "loop") != (name == "loop")):
            continue
        if word.flag == "input" and (
            leaves_loop or word.flag not in options or not word.text.endswith(record_of(name).input_suffix)
        ):
            lacking = True
            continue
        one = word if word.several == 1 else _size_of(word, done.inputs)
        if (
            word.flag == "fill"
            and leaves_loop
            and "range" in options
            and not math.isnan(finite(value := word.text.partition("=")[2]))
        ):
            one = _Given(options["range"], f"{word.entry}:{value},{value}")
        kept += [] if one is None else [one]
    return [*kept, *(_read([*_sizes(done.inputs)], _options("loop"))[1] if lacking else [])]


def _size_of(listed: _Given, inputs: Sequence[Tensor]) -> _Given | None:
    """Of a list of shapes or sizes the one that inputs were measured with; None where they do not say."""
    for tensor in inputs:
        if listed.flag == "shape" and tensor["name"] == listed.entry:
            return listed._replace(text=f"{tensor['name']}:{'x'.join(map(str, tensor['shape'] or ()))}")
        for dim, size in _dims(tensor):
            if listed.flag == "dim" and dim == listed.entry:
                return listed._replace(text=f"{dim}={size}")
    return None


def _sizes(inputs: Sequence[Tensor]) -> Iterator[str]:
    """The words that give inputs their sizes, those above 1: of dimensions, or of inputs where one name has several."""
    sizes: dict[str, int] = {}
    for tensor in inputs:
        if "tensors" in tensor:
            yield from ("--sequence-tensors", f"{tensor['name']}={len(tensor['tensors'])}")
            continue
        shape = tensor["shape"] or ()
        own = {(dim, size) for dim, size in _dims(tensor) if isinstance(dim, str)}
        if 0 not in shape and len({*sizes.items(), *own}) > len({*sizes, *(dim for dim, _ in own)}):
            yield from ("--shape", f"{tensor['name']}:{'x'.join(map(str, shape))}")
        else:
            sizes |= {dim: size for dim, size in _dims(tensor) if isinstance(dim, str)}
    for dim, size in sizes.items():
        if size > 1 and names_in(dim) in (None, {dim}):  # else it is the sum that it is called
            yield from ("--dim", f"{dim}={size}")


def _dims(tensor: Tensor) -> Iterator[tuple[int | str, int]]:
    """The dimensions of an input, by size or name, and their sizes."""
    yield from zip(named_dims(tensor["name"], tensor["model_shape"]), tensor["shape"] or (), strict=False)


def _ranges(inputs: Sequence[Tensor]) -> Iterator[str]:
    """The words that give inputs the values that they had, but for those that floats have by themselves."""
    for tensor in inputs:
        if (ends := tensor.get("range")) and [*ends] != [0, 1]:
            yield from ("--range", f"{tensor['name']}:{','.join(str(end).removesuffix('.0') for end in ends)}")


def _keep(given: Sequence[_Given], changed: Sequence[_Given], inputs: Sequence[Tensor]) -> list[_Given] | None:
    """What stands beside the changes: no entry that is given another value, and no option that they exclude; None where what says
    how inputs look leaves no room for them."""
    sizes = {it.entry for it in changed if it.flag == "dim"}
    flags = {it.flag for it in changed}
    if {*_SIZES} & flags and any(it.flag in _DATA for it in given):
        return None
    new = {(it.flag, it.entry) for it in changed}
    excluding = exclusions(_options("run").values())
    excluded = {other for flag in flags for other in excluding.get(flag, ())}
    kept = list[_Given]()
    shapes = {it["name"]: named_dims(it["name"], it["model_shape"]) for it in inputs}
    for word in given:
        dims = shapes.get(word.entry, ()) if word.flag == "shape" else ()
        if sizes & {*dims}:  # the shape says the size too: say those of its other dimensions alone
            if word.several > 1:
                return None
            texts = word.text.rpartition(":")[2].replace(",", "x").split("x")
            words = [f"--dim={dim}={size}" for dim, size in zip(dims, texts, strict=False) if isinstance(dim, str)]
            kept += [one for one in _read(words, _options("run"))[1] if (one.flag, one.entry) not in new]
        elif (word.flag, word.entry) not in new and word.flag not in excluded:
            kept.append(word)
    return list({(it.flag, it.text): it for it in kept}.values())


_CPP = {
    "intra_op_threads": "SetIntraOpNumThreads({})",
    "inter_op_threads": "SetInterOpNumThreads({})",
    "execution_mode": "SetExecutionMode({})",
    "cpu_mem_arena": "DisableCpuMemArena()",
    "mem_pattern": "DisableMemPattern()",
    "opt_level": "SetGraphOptimizationLevel({})",
}


def session_lines(target: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Statements of Python and of C++ that set what a result recorded of its session, where that is not the default; of session
    options that are called ``options``, EP options ``provider_options`` and run options ``run_options``."""
    python, cpp = [], []
    for setting in OF_SESSION:
        value = target.get(setting.key, setting.default)
        if value == setting.default:
            continue
        if setting.key in _CPP:
            enum = {
                "execution_mode": ("ExecutionMode", "ORT_PARALLEL"),
                "opt_level": ("GraphOptimizationLevel", ORT_OPT_LEVELS.get(str(value))),
            }
            scope, member = enum.get(setting.key, ("", None))
            python.append(f"options.{setting.attribute} = {f'ort.{scope}.{member}' if member else value}")
            cpp.append(f"options.{_CPP[setting.key].format(member or value)};")
        elif setting.key in ("session_config", "run_config"):
            of = "options" if setting.key == "session_config" else "run_options"
            pairs = [f"{json.dumps(key)}, {json.dumps(str(item))}" for key, item in value.items()]
            python += [f"{of}.add_{setting.key}_entry({pair})" for pair in pairs]
            cpp += [f"{of}.AddConfigEntry({pair});" for pair in pairs]
        elif setting.key == "custom_ops":
            for name in value:
                path = json.dumps(name) if is_library(name) else f"{name.replace('-', '_')}.get_library_path()"
                python.append(f"options.register_custom_ops_library({path})")
                cpp.append(f"options.RegisterCustomOpsLibrary({path.replace('.get_', '_').removesuffix('()')});")
        elif setting.key == "ep_options":
            python.append(f"provider_options = {json.dumps(value)}")
            pairs = [f"{{{json.dumps(key)}, {json.dumps(str(item))}}}" for key, item in value.items()]
            cpp.append(f"std::unordered_map<std::string, std::string> provider_options{{{', '.join(pairs)}}};")
    return python, cpp
