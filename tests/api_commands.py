"""Writes ortbench/api/commands.py, the commands as functions: python -m tests.api_commands > ortbench/api/commands.py"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from textwrap import wrap
from typing import NamedTuple

from ortbench.api.given import options_for
from ortbench.cli import COMMANDS
from ortbench.plan.option_types import CLOCK, DIMS, ITEMS, LENGTHS, PAIRINGS, PRECISION, SHAPES, SHARE, SIZE
from ortbench.plan.options import Option

_WIDTH = 120


class Call(NamedTuple):
    """A function: what stands before its options (name, type, text), what it gives, and the call that does it."""

    first: tuple[str, str, str] | None
    gives: str
    returns: str
    does: str
    measures: bool = True


_MODEL = ("model", "Model", "the path of an .onnx or .ort file, the file's bytes, or an `onnx.ModelProto`.")
_CHAIN = ("file", "Place", "the path of the chain, a TOML file.")
_RESULT = (
    "result",
    "Result | StoredResult | Place | None = None",
    "a result, or its file or folder; without it the gate is live.",
)
_RESULTS = (
    "results",
    "Sequence[Result | StoredResult | Place] | Place",
    "two or more in all; a folder may hold several.",
)
_MEASURED = (
    "what was measured, all modes with all samples; a mode that could not be measured says why, and raises nothing."
)

# A command becomes a function by a line here, and by its name in ortbench/__init__.py.
CALLS = {
    "run": Call(_MODEL, "Result", _MEASURED, "calls.run(model, locals())"),
    "loop": Call(_MODEL, "Result", _MEASURED, 'calls.run(model, locals(), "loop")'),
    "chain": Call(_CHAIN, "Result", _MEASURED, "calls.chain(file, locals())"),
    "load": Call(_MODEL, "Result", "what was measured, with `levels`; a level that failed says why, and raises nothing.", "calls.load(model, locals())"),
    "sweep": Call(_MODEL, "Result", "what was measured, with `shapes`, cases at the point of each, and `best`; a shape that could not be measured says why, and raises nothing.", "calls.sweep(model, locals())"),
    "gate": Call(_RESULT, "Verdict", "the verdict; a regression, or that it cannot tell, raises nothing.", "calls.gate(result, locals())"),
    "compare": Call(_RESULTS, "Comparison", "which differences are real.", "calls.compare(results, locals())", False),
    "bandwidth": Call(None, "Bandwidth", "rates over sizes.", "calls.bandwidth(locals())"),
    "devices": Call(None, "Listed", "what ``ortbench devices --json`` writes: `eps`, what they run with, what that can do.", "calls.devices(locals())", False),
    "inspect": Call(_MODEL, "Inspected", "what ``ortbench inspect --json`` writes; sizes are bytes.", "calls.inspect(model, locals())", False),
}  # fmt: skip
# What a call takes besides paths.
_TYPES = {"input": "Place | Arrays", "expect": "Place | Arrays", "model": "Model", "baseline_model": "Model"}
_TYPES |= {
    "baseline_input": _TYPES["input"],
    "baseline_expect": _TYPES["expect"],
    "baseline": "Result | StoredResult | Place",
}
_TYPES["data"] = "Place | Sequence[Place | Arrays]"
_LISTS = dict.fromkeys((DIMS, LENGTHS), "int | str | Sequence[int | str]")
_LISTS[SHAPES] = "str | Sequence[int] | Sequence[Sequence[int] | str]"
_SEVERAL = {
    DIMS: ' Several are shapes of their own: {"name": [1, 8]} or {"name": "1..8"}.',
    SHAPES: ' Several are shapes of their own: {"name": [[1, 3], [8, 3]]} or {"name": "1x3,8x3"}.',
}
_OR = {
    "Place | Arrays": " Or arrays by name.",
    _TYPES["data"]: " Or arrays by name.",
    "Model": " Or its bytes, or an `onnx.ModelProto`.",
}
_WORTH_AN_EXAMPLE = (PAIRINGS, SHARE, PRECISION, SIZE, CLOCK, ITEMS)
_OUT = "The folder in which a folder of its own is made for what is measured; by default nothing is written."
_PROGRESS = (
    "progress",
    "Tell | None = None",
    "called with a `Progress` now and then, from this thread; what it raises ends the call.",
)
_RAISES = ("BadInput", "BenchmarkFailed", "NotComparable", "NotSaved", "Interrupted")  # whose docstrings say when
_COMPARING = ("gate", "compare")

HEAD = '''\
"""The commands as functions. Made from where options are declared: ``python -m tests.api_commands > ortbench/api/commands.py``.

A parameter is an option of the command of the same name and means what it means there; None leaves the default. They are written
out because editors take what a parameter means from the docstring of its function: of a TypedDict in its place they would know
names and types alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ortbench.api import calls

if TYPE_CHECKING:
    from ortbench.api.results import Bandwidth, Comparison, Result, Verdict
    from ortbench.api.values import Arrays, Model, Place, Tell, Texts
    from ortbench.model.protocol import Inspected, Listed
    from ortbench.model.result import Result as StoredResult
'''


def _is_listed(option: Option) -> bool:
    """Whether a value can be several, each of it a shape of its own, as those of a sweep."""
    return option.lists is not None and not option.lists.refused


def _type(name: str, option: Option) -> str:
    if _is_listed(option):
        return f"Mapping[str, {_LISTS[option.kind]}]"
    return _TYPES.get(name, option.kind.python)


def _in_python(text: str, options: Mapping[str, Option]) -> str:
    """A text with the names that options have here."""
    names = {it.name: name for name, it in options.items()}
    return re.sub(r"--[a-z][a-z-]*[a-z]", lambda found: f"`{names[found[0]]}`" if found[0] in names else found[0], text)


def _said(name: str, option: Option, options: Mapping[str, Option]) -> str:
    """What there is to know of an option, in sentences."""
    text = _OUT if name == "out" else option.help + _OR.get(_TYPES.get(name, ""), "")
    if option.kind.entries is not None or option.kind in _WORTH_AN_EXAMPLE:
        example = re.sub(r"(\w+) = ", r'"\1": ', option.kind.example)
        text += f" As {example}."
    if _is_listed(option):
        text += _SEVERAL.get(option.kind, _SEVERAL[DIMS])
    if option.kind.entries is not None:
        text = text.replace("''", "{}")  # what leaves a baseline none
    shown = option.default_text if name != "bandwidth" else "the newest in --out that fits; none without --out"
    default = f" Default: {shown}." if shown is not None and name != "out" else ""
    return _in_python(text + default, options)


def _entry(name: str, text: str) -> Iterator[str]:
    lines = wrap(f"{name}: {text}", _WIDTH - 12, break_long_words=False, break_on_hyphens=False)
    yield f"        {lines[0]}"
    yield from (f"            {line}" for line in lines[1:])


def function(name: str, call: Call) -> Iterator[str]:
    """The lines of a function."""
    options = options_for(name)
    first = [] if call.first is None else [call.first]
    yield f"def {name}("
    yield from (f"    {it}: {kind}," for it, kind, _ in first)
    yield "    *,"
    for it, option in options.items():
        yield (
            f"    {it}: bool = False,"
            if _type(it, option) == "bool" and not it.startswith("baseline_")
            else (f"    {it}: {_type(it, option)} | None = None,")
        )
    if call.measures:
        yield f"    {_PROGRESS[0]}: {_PROGRESS[1]},"
    yield f") -> {call.gives}:"
    summary, *more = [line.strip() for line in str(getattr(import_module(COMMANDS[name]), name).__doc__).splitlines()]
    yield f'    """{summary}'
    yield ""
    if text := " ".join(filter(None, more)):
        yield from (f"    {line}" for line in wrap(_in_python(text, options), _WIDTH - 4))
        yield ""
    yield "    Args:"
    for it, _, said in [*first, *((it, "", _said(it, option, options)) for it, option in options.items())]:
        yield from _entry(it, said)
    if call.measures:
        yield from _entry(_PROGRESS[0], _PROGRESS[2])
    yield ""
    yield "    Returns:"
    yield from (f"        {line}" for line in wrap(call.returns, _WIDTH - 8))
    yield ""
    yield "    Raises:"
    left_out = (set() if name in _COMPARING else {"NotComparable"}) | (set() if call.measures else {"NotSaved"})
    left_out |= {"BenchmarkFailed", "Interrupted"} if name == "compare" else set()
    yield f"        {', '.join(it for it in _RAISES if it not in left_out)}: as their own docstrings say."
    yield '    """'
    yield f"    return {call.does}"


def source() -> str:
    """The module."""
    parts = [HEAD, *("\n".join(function(name, call)) + "\n" for name, call in CALLS.items())]
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(source(), end="")
