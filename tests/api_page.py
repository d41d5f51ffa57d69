"""Writes docs/api.md, what `import ortbench` offers, from the docstrings: python -m tests.api_page > docs/api.md"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import ortbench
from ortbench.api.values import options_for

CALLS = [name for name in ortbench.__all__ if inspect.isfunction(getattr(ortbench, name)) and name != "read"]
HEAD = """\
# From Python

`import ortbench` has the commands as functions, with the same names, options and defaults: what
`ortbench run model.onnx --ep cuda --duration 2` does, `ortbench.run("model.onnx", ep="cuda", duration=2)` does.

```python
import numpy as np
import ortbench

ones = {"x": np.ones(16, np.float32)}
result = ortbench.run("models/tiny.onnx", ep="cpu", modes=["cpu-tensors", "device-tensors"], input=ones, iterations=20)
print(result.case("cpu-tensors").median("latency"), "ns")
print(result.frame()[["mode", "latency_median_ns", "speedup"]])

again = ortbench.run("models/tiny.onnx", ep="cpu", modes=["cpu-tensors", "device-tensors"], iterations=20)
print(ortbench.compare([result, again]).frame()[["mode", "metric", "result", "value"]])
assert ortbench.gate(again, max_cpu_nodes=0).passed
```

- **Nothing is printed**, and nothing is written but what `out` asks for. What a worker must read, such as a model that was
  given as bytes, lies in a temporary folder for as long as the call lasts.
- **Errors are exceptions** with a line that says what is wrong and what to do. A mode that cannot be measured is no error: its
  case says why. Nor is a verdict: `gate` gives back one that is "failed" or "cannot tell".
- **Progress** goes to a callback: `progress=lambda now: print(now.stage, now.left_s)`. What it raises ends the call.
- **Threads**: any may call. Measurements of one process take turns, so that none is in another one's figures.
- **Ctrl-C** raises `Interrupted`, a `KeyboardInterrupt`, when the workers have ended. No signal is taken over.
- **Notebooks** show a result as the first part of its page, a gate and a comparison as their tables:
  [example.ipynb](example.ipynb). `plot()` gives a figure that is no pyplot's; `%matplotlib inline` shows it.
- ONNX Runtime is loaded in the worker alone, so that an EP that aborts takes nothing along, and `import ortbench` loads nothing
  else until it is used.
- One call gives one result: configurations [side by side](compare.md#compare-configurations-in-one-run) and suites are the command line's.
- **Shapes** of a [sweep](sweeps.md) are lists, `ortbench.sweep(model, dim={"batch": [1, 8, 32]})`, and `data` takes real inputs in
  memory as well: `data=[{"x": one}, {"x": other}]`. Of a [load](load.md), `samples()` has every inference of every load point.
- `ortbench.__all__` is what stays; what else is in the package is not for others. mypy (strict) knows all types.

In tests there are [fixtures for pytest](ci.md#gates-in-pytest). This page is made from the docstrings:
`python -m tests.api_page > docs/api.md`.
"""

_TYPES = (
    "`help(ortbench.run)` lists the options of a function with their types, [options.md](options.md) says what they are: in Python with "
    "underscores in place of dashes, what is repeatable as a list, `K=V` as a dict, a flag as a bool. `AnyPath` is a path, `Texts` one text or several, `Model` a path, bytes or an `onnx.ModelProto`, `Arrays` a mapping of names "
    "to what NumPy takes for arrays, of the model's own dtypes and shapes, and `Tell` a function that is called with a `Progress`."
)


_GIVEN = (
    "A `model` is the path of an .onnx or .ort file, the file's bytes, or an `onnx.ModelProto`; a `result` is a `Result`, or its file or "
    "folder. What raises nothing: a mode that cannot be measured, a regression, a gate that cannot tell."
)


def _sections(found: object) -> dict[str, list[str]]:
    """A docstring's lines by their heading, under "" what stands before the first one."""
    sections: dict[str, list[str]] = {"": []}
    name = ""
    for line in (inspect.getdoc(found) or "").splitlines():
        if heading := re.fullmatch(r"(Args|Returns|Raises|Attributes):", line):
            name = heading[1]
        sections.setdefault(name, []).extend([] if heading else [line])
    return sections


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Names and what is said of them; a line that is indented further goes on."""
    text = "\n".join(line.removeprefix("    ") for line in lines).strip()
    for entry in filter(None, re.split(r"\n(?=\S)", text)):
        name, _, said = " ".join(entry.split()).partition(": ")
        yield name, said


def _shown(text: str) -> str:
    """A text of a docstring as Markdown."""
    return text.replace("``", "`").replace("|", "\\|")


def _paragraphs(lines: list[str]) -> Iterator[str]:
    for paragraph in "\n".join(lines).strip().split("\n\n"):
        if paragraph:
            yield _shown(" ".join(paragraph.split()))
            yield ""


def _function(name: str) -> Iterator[str]:
    """A row for a function: its own parameters, what it does and gives."""
    found, options = getattr(ortbench, name), options_for(name)
    signature = inspect.signature(found)
    own = [it for it in signature.parameters if it not in options and it != "progress"]
    sections = _sections(found)
    said = " ".join(_paragraphs(sections[""])).strip()
    ((errors, _),) = _entries(sections["Raises"])
    raised = ", ".join(f"`{error}`" for error in errors.split(", "))
    yield f"| `{name}({', '.join([*own, '*', '…'])})` | `{signature.return_annotation}` | {' '.join(said.split())} | {raised} |"


def _class(name: str) -> Iterator[str]:
    found: Any = getattr(ortbench, name)
    sections = _sections(found)
    yield f"### `{name}`"
    yield ""
    yield from _paragraphs(sections[""])
    said_of = sections.get("Attributes") or sections.get("Args", [])  # an error keeps what it is made with
    listed = [f"- `{it}`: {_shown(said)}" for it, said in _entries(said_of) if it != "message"]
    own = [
        it for it in reversed(found.__mro__) if it is found or it.__name__ == "_Saved"
    ]  # also what two have in common
    for it, member in {name: member for base in own for name, member in vars(base).items()}.items():
        if it.startswith("_") or it == "wrap" or not inspect.getdoc(member) or it in getattr(found, "_fields", ()):
            continue
        if isinstance(member, property):
            listed.append(f"- `{it}`: {_shown(_first(member))}")
        elif inspect.isfunction(member):
            taken = ", ".join(list(inspect.signature(member).parameters)[1:])
            listed.append(f"- `{it}({taken})`: {_shown(_first(member))}")
    yield from listed
    yield from [""] * bool(listed)


def _first(member: object) -> str:
    """What a docstring says before its sections, and what it takes and raises."""
    sections = _sections(member)
    more = [f"{name}: {said}" for name, said in _entries(sections.get("Args", []))]
    more += [f"Raises {name}: {said}" for name, said in _entries(sections.get("Raises", []))]
    return " ".join([" ".join(" ".join(sections[""]).split()), *more])


def document() -> str:
    """The page."""
    errors = ("OrtbenchError", "BadInput", "BenchmarkFailed", "NotComparable", "NotSaved", "Interrupted")
    given = ("Result", "Verdict", "Comparison", "Bandwidth", "watch", "Progress")
    parts = [HEAD, "## Functions", "", _GIVEN, "", "| function | gives | | raises |", "|---|---|---|---|"]
    parts += [*(line for name in CALLS for line in _function(name)), ""]
    parts += [
        "### `read(path)` → `Result`",
        "",
        *_paragraphs(_sections(ortbench.read)[""]),
        "## Options",
        "",
        _TYPES,
        "",
    ]
    parts += ["## What they give back", "", *(line for name in given for line in _class(name))]
    parts += ["## Errors", "", *(line for name in errors for line in _class(name))]
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    print(document(), end="")
