"""The functions of `import ortbench` are the commands, and the page about them says what they say."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import ortbench
from ortbench.api.values import options_for, parameter
from ortbench.cli import commands as cli_commands
from ortbench.cli.options import declared_for
from ortbench.plan.options import PYTHON
from tests import stub
from tests.api_page import CALLS, document
from tests.conftest import ROOT

NOT_FOR_PYTHON = {
    "try_", "for_bisect", "json", "junit", "action_json", "bmf", "trace", "html", "markdown", "quiet", "verbose",
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_help_says_what_the_command_says_and_a_line_of_each_option(name: str) -> None:
    said = inspect.getdoc(getattr(ortbench, name)) or ""
    assert said.partition("\n")[0] == cli_commands()[name].sentence
    taken = inspect.signature(getattr(ortbench, name)).parameters
    assert re.findall(r"^    (\w+): \S", said.partition("Returns:")[0], re.MULTILINE) == [*taken]


@pytest.mark.parametrize("name", CALLS)
def test_a_name_that_is_no_option_is_refused(name: str) -> None:
    first = [] if name in ("bandwidth", "devices") else ["model.onnx"]
    with pytest.raises(TypeError, match=re.escape(f"{name}() got an unexpected keyword argument 'durations'")):
        getattr(ortbench, name)(*first, durations=2)


def test_the_page_is_what_the_docstrings_say() -> None:
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == document()


@pytest.mark.parametrize("name", CALLS)
def test_a_function_has_the_options_of_its_command(name: str) -> None:
    typed = declared_for(name)
    mine = options_for(name)
    assert {*mine} == {parameter(it) for it in typed.values() if it.parameter not in NOT_FOR_PYTHON}
    for it in typed.values():
        if it.parameter not in NOT_FOR_PYTHON:
            one = mine[parameter(it)]
            assert (one.flag, one.check) == (it.flag, it.check)
            assert PYTHON in it.takers.by_command or (one.default, one.default_text) == (it.default, it.default_text)
    taken = inspect.signature(getattr(ortbench, name)).parameters
    assert {it for it in taken if it in mine} == {*mine}
    assert all(taken[it].default in (None, False) for it in mine)


def test_the_surface() -> None:
    assert ortbench.__all__ == [
        "run", "compare", "Comparison", "Result", "read", "Interrupted", "NotSaved", "Progress",
        "BadInput", "BenchmarkFailed", "NotComparable", "OrtbenchError",
        "bandwidth", "Bandwidth", "chain", "devices", "gate", "Verdict", "inspect", "load", "loop", "soak", "start", "sweep", "watch", "__version__",
    ]  # fmt: skip
    for name in ortbench.__all__:
        found: Any = getattr(ortbench, name)
        assert name == "__version__" or inspect.getdoc(found), name
        assert name in dir(ortbench)
    with pytest.raises(AttributeError, match="module 'ortbench' has no attribute 'nothing'"):
        ortbench.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_type_checkers_see_what_python_finds() -> None:
    assert (ROOT / "ortbench" / "__init__.pyi").read_text(encoding="utf-8") == stub.document()
    assert (Path(ortbench.__path__[0]) / "py.typed").is_file()


def wrong_calls() -> None:
    """Never called: mypy, strict, finds every line wrong, and else the comment that says so."""
    ortbench.run("m.onnx", durations=2)  # type: ignore[call-arg]
    ortbench.run("m.onnx", duration=[2])  # type: ignore[arg-type]
    ortbench.run(3)  # type: ignore[arg-type]
    ortbench.run("m.onnx", dim={"n": 1.5})  # type: ignore[dict-item]
    ortbench.load("m.onnx", rate=[None])  # type: ignore[list-item]
    ortbench.sweep("m.onnx", dim={"n": [1.5]})  # type: ignore[list-item]
    ortbench.run("m.onnx").nothing  # type: ignore[attr-defined]  # noqa: B018
    ortbench.devices()["epz"]  # type: ignore[typeddict-item]


def right_calls() -> None:
    """Never called: mypy finds nothing wrong."""
    result: ortbench.Result = ortbench.run(
        b"", modes=["cpu-tensors"], duration=2, shape={"x": (1, 3)}, out=Path("here"), ep_option={"device_id": 1}
    )
    verdict: ortbench.Verdict = ortbench.gate(result, baseline=result, max_regression="5%")
    compared: ortbench.Comparison = ortbench.compare([result, Path("other")], equivalence_margin=0.02)
    median: float | None = ortbench.load("m", rate=20.5, arrivals=Path("times"), slo="p99=20ms").cases[0].value("p99")
    print(
        verdict.passed, compared.names, median, ortbench.inspect("m")["bytes_in"], ortbench.devices()["eps"][0]["name"]
    )
