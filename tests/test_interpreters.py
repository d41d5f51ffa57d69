"""Interpreters of other environments: by their path or their folder, and what is handed on to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ortbench.core import processes


def environment(folder: Path, inside: str = "bin/python") -> Path:
    """The interpreter of a folder that looks like an environment."""
    python = folder / inside
    python.parent.mkdir(parents=True)
    python.touch(0o755)
    return python


def test_a_folder_stands_for_its_interpreter(tmp_path: Path) -> None:
    for number, inside in enumerate(("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")):
        python = environment(tmp_path / str(number), inside)
        for given in (tmp_path / str(number), python):
            assert processes.interpreter_in(str(given)) == str(python)
            processes.is_interpreter(str(given), "--python")


def test_a_relative_path_is_one_from_the_root_on_and_links_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system looks for a name alone on PATH; where a link lies is how Python knows its environment."""
    environment(tmp_path / "env")
    (tmp_path / "python3").touch(0o755)
    (tmp_path / "link").symlink_to("env/bin")
    (tmp_path / "mine" / "bin").mkdir(parents=True)
    (tmp_path / "mine" / "bin" / "python").symlink_to(tmp_path / "env" / "bin" / "python")
    monkeypatch.chdir(tmp_path)
    for path in ("python3", "./python3", "../python3", "env", "env/bin/python", "link/../bin/python"):
        python = processes.interpreter_in(path)
        assert python.startswith(str(tmp_path))
        assert Path(python).parent.samefile((tmp_path / path).parent if path != "env" else tmp_path / "env" / "bin")
    assert processes.interpreter_in("mine") == str(tmp_path / "mine" / "bin" / "python")


def test_an_environment_is_called_by_its_folder(tmp_path: Path) -> None:
    environment(tmp_path / "other")
    environment(tmp_path / "project" / "venv")
    for path, name in {
        "/home/me/venvs/openvino/bin/python": "openvino",
        "/home/me/project/.venv/bin/python3": "project",
        "/opt/1.24.4/Scripts/python.exe": "1.24.4",
        "/usr/bin/python3.12": "python3.12",
        "/usr/local/bin/python3": "python3",
        "/opt/tools/my-python": "tools",
        f"{tmp_path}/other": "other",
        f"{tmp_path}/project/venv": "project",
    }.items():
        assert processes.environment_name(path) == name


def test_packages_are_those_of_the_environment(tmp_path: Path) -> None:
    environment(tmp_path)
    for name in ("onnxruntime_openvino-1.24.1.dist-info", "numpy-2.3.1.dist-info", "numpy"):
        (tmp_path / "lib" / "python3.12" / "site-packages" / name).mkdir(parents=True)
    expected = ["numpy 2.3.1", "onnxruntime_openvino 1.24.1"]
    assert processes.packages_of(str(tmp_path)) == processes.packages_of(str(tmp_path / "bin" / "python")) == expected


def test_what_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that says where ortbench's own packages are; as many threads of NumPy as ever."""
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
        monkeypatch.setenv(name, "/ours")
    monkeypatch.setenv("VK_DRIVER_FILES", "/theirs")
    assert "/ours" not in processes.surroundings().values()
    assert processes.surroundings()["VK_DRIVER_FILES"] == "/theirs"
    name = "OPENBLAS_NUM_THREADS"
    monkeypatch.setattr(processes, "_added", set())
    monkeypatch.setenv(name, "3")
    processes.start_no_threads()
    assert processes.given_variables()[name] == os.environ[name] == "3"
    monkeypatch.delenv(name)
    processes.start_no_threads()
    assert os.environ[name] == "1"
    assert name not in processes.given_variables()
    assert name not in processes.surroundings()
