"""Custom operators: their libraries are registered with every session, in programs too, and what is wrong is a line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ortbench.model.result_file import load
from tests.conftest import ONCE, built, clock_library, ortbench
from tests.customops import DOMAIN, build, package_of, put_package, save

pytestmark = pytest.mark.process
CPU = ("--ep", "cpu")


@pytest.fixture(scope="module")
def twice() -> Path:
    return build(built())


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("models") / "twice.onnx")


@pytest.fixture(scope="module")
def packages(twice: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("packages")
    put_package(site, "brings_ops", package_of(twice))
    put_package(site, "brings_path", f"from pathlib import Path\nget_library_path = lambda: Path({str(twice)!r})")
    put_package(site, "brings_none", "")
    put_package(site, "breaks", "raise RuntimeError('broken\\nhere')")
    put_package(site, "names_nothing", package_of(Path("/no/such.so")))
    return site


def test_a_run_computes_with_it_and_the_result_says_so(twice: Path, model: Path, tmp_path: Path) -> None:
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    np.savez(tmp_path / "x.npz", x=x)
    np.savez(tmp_path / "y.npz", y=3 * x)
    given = ("--input", tmp_path / "x.npz", "--expect", tmp_path / "y.npz", *ONCE)
    ran = ortbench("run", model, *CPU, "--custom-ops", twice, *given, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert all(f"--custom-ops {twice}" in line for line in ran.out.splitlines() if "Next: ortbench" in line)
    (path,) = (tmp_path / "out").glob("*/result.json")
    assert load(path).target["custom_ops"] == [str(twice)]


@pytest.mark.parametrize("name", ["Brings-Ops", "brings_path"])
def test_a_package_is_asked_for_its_library(name: str, model: Path, packages: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    given = ("--custom-ops", name, "--duration", "0.1", "--out", program)
    ran = ortbench("code", model, *CPU, *given, PYTHONPATH=str(packages))
    assert ran.code == 0, ran.err
    by_module = "options.register_custom_ops_library(brings_ops.get_library_path())" in program.read_text()
    assert by_module == (name != "brings_path")  # ONNX Runtime takes no `Path`
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    done = subprocess.run([sys.executable, program], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert "outputs are those of a plain run" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "--custom-ops: is empty"),
        ("no.so", "--custom-ops: no such file: no.so"),
        ("no-such-package", "no such package: name a library by its path, or pip install no-such-package"),
        ("brings_none", "--custom-ops brings_none: the package has no get_library_path(): name its library by the path"),
        ("breaks", "--custom-ops breaks: import breaks raises RuntimeError: broken here"),
        ("names-nothing", "--custom-ops names-nothing: get_library_path() names a file that is not there: /no/such.so"),
        ("{clock}", "--custom-ops {clock}: the library has no function RegisterCustomOps, so no custom operators"),
        (__file__, f"--custom-ops {__file__}: Failed to load library"),
    ],
)  # fmt: skip
def test_what_cannot_be_registered_is_a_line(name: str, message: str, model: Path, packages: Path) -> None:
    named, expected = (text.replace("{clock}", str(clock_library())) for text in (name, message))
    ran = ortbench("inspect", model, "--custom-ops", named, PYTHONPATH=str(packages))
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.error_line


@pytest.mark.parametrize(
    ("op", "domain", "inside", "options", "says"),
    [
        ("Twice", DOMAIN, False, (), "--custom-ops LIBRARY, or a package's name"),
        ("Thrice", DOMAIN, False, ("{twice}",), "no library of --custom-ops has it: {twice}"),
        ("Inverse", "ai.onnx.contrib", False, (), "--custom-ops onnxruntime-extensions"),
        ("Twice", "mmdeploy", True, (), "--custom-ops LIBRARY, or a package's name"),
        ("Twice", "ai.onnx.ml", False, (), ""),
    ],
)
def test_an_unknown_operator_says_what_registers_it(
    op: str, domain: str, inside: bool, options: Sequence[str], says: str, twice: Path, tmp_path: Path
) -> None:
    named = [it.replace("{twice}", str(twice)) for it in options]
    words = [word for name in named for word in ("--custom-ops", name)]
    ran = ortbench("inspect", save(tmp_path / "m.onnx", op, domain, inside), *words)
    assert ran.code == (2 if domain == "ai.onnx.ml" else 1)
    assert ran.error_line.endswith(says.replace("{twice}", str(twice)))
    assert ("--custom-ops" in ran.error_line) == bool(says)


def test_onnxruntime_extensions_is_known_by_its_name(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime_extensions", reason="pip install onnxruntime-extensions")
    inverts = save(tmp_path / "m.onnx", "Inverse", "ai.onnx.contrib")
    ran = ortbench("inspect", inverts, "--custom-ops", "onnxruntime-extensions", *CPU, "--dim", "n=8")
    assert ran.code == 0, ran.err


@pytest.mark.wide
def test_processes_of_their_own_register_it_too(twice: Path, model: Path, tmp_path: Path) -> None:
    """Those of a load, and the program of a start."""
    load = ("load", model, "--concurrency", "2", "--sessions", "process", "--duration", "1")
    for line in (load, ("start", model, "--iterations", "1")):
        ran = ortbench(*line, *CPU, "--custom-ops", twice, "--out", tmp_path / line[0])
        assert ran.code == 0, ran.err + ran.out
