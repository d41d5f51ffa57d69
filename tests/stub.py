"""Writes ortbench/__init__.pyi, the types of what `import ortbench` offers: python -m tests.stub > ortbench/__init__.pyi"""

from __future__ import annotations

import builtins
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import ortbench
from ortbench.api import calls as api_calls
from ortbench.api.calls import type_of
from ortbench.plan.baseline import settable
from ortbench.plan.options import baseline_option

# What `baseline_set` of a gate takes.
BASELINE = {it.parameter: type_of(baseline_option(it)) for it in settable().values()}


def document() -> str:
    """The file: a class or function of the package is imported, one that takes options has its signature."""
    found = {name: getattr(ortbench, name) for name in ortbench.__all__ if name != "__version__"}
    calls = {name: it for name, it in found.items() if isinstance(it, FunctionType) and hasattr(it, "__signature__")}
    body = [
        "",
        "__all__: list[str]",
        "",
        "class Baseline(TypedDict, total=False):",
        *_lines(BASELINE.items(), ": ", ""),
        "",
    ]
    for name, function in calls.items():
        signature = inspect.signature(function)
        parameters = _lines(_parameters(signature), "", ",")
        body += [f"def {name}(", *parameters, f") -> {signature.return_annotation}: ..."]
    names = {name: it.__module__ for name, it in found.items() if name not in calls}
    names["__version__"] = "ortbench.core"
    imports = [f"from {module} import {name} as {name}" for name, module in names.items()]
    imports += _imports("\n".join(body), calls.values(), {*names, "Baseline"})
    imports.sort(key=_order)
    own = next(number for number, line in enumerate(imports) if "ortbench" in line)  # those of Python are before them
    return "\n".join([*imports[:own], "", *imports[own:], *body]) + "\n"


def _lines(pairs: Any, joint: str, end: str) -> Iterator[str]:
    yield from (f"    {name}{joint}{text}{end}" for name, text in pairs)


def _parameters(signature: inspect.Signature) -> Iterator[tuple[str, str]]:
    keyword_only = False
    for it in signature.parameters.values():
        if it.kind is it.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            yield "*", ""
        default = "" if it.default is it.empty else f" = {it.default}"
        yield it.name, f": {it.annotation}{default}"


def _imports(text: str, calls: Any, known: set[str]) -> Iterator[str]:
    """Of the types in signatures, from the modules that the functions have them from."""
    modules = defaultdict(set)
    for name in {*re.findall(r"\b[A-Z]\w+", text)} - known - {*dir(builtins)}:
        if name in api_calls.__annotations__:
            modules["ortbench.api.calls"].add(name)
        elif name == "StoredResult":
            modules["ortbench.model.result"].add(f"Result as {name}")
        elif name == "TypedDict":
            modules["typing"].add(name)
        else:
            spaces = [inspect.unwrap(it).__globals__ for it in calls]
            modules[next(it[name].__module__ for it in spaces if name in it)].add(name)
    yield from (f"from {module} import {', '.join(sorted(names))}" for module, names in modules.items())


def _order(line: str) -> tuple[str, bool, str]:
    """As linters sort imports."""
    module = line.split()[1]
    return f"{'ortbench' in module}{module}", " as " in line, line


if __name__ == "__main__":
    print(document(), end="")
