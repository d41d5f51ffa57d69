"""Writes what docs/api.md says of the functions and classes of `import ortbench`, from their docstrings: python -m tests.api_page"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ortbench
from ortbench.api.values import options_for

CALLS = [name for name in ortbench.__all__ if inspect.isfunction(getattr(ortbench, name)) and name != "read"]
PAGE = Path(__file__).parent.parent / "docs" / "api.md"  # its beginning is written by hand

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
    head = PAGE.read_text(encoding="utf-8").partition("## Functions")[0]
    parts = [f"{head}## Functions", "", _GIVEN, "", "| function | gives | | raises |", "|---|---|---|---|"]
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
    PAGE.write_text(document(), encoding="utf-8")
