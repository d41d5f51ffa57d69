"""What the tests test is what pip installed, and pytest ends at once where that is not so."""

from __future__ import annotations

import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest

import ortbench as package
from ortbench.core.processes import SCRIPT
from tests.conftest import ROOT
from tests.environments import INSTALLED, Environment, plain, without_ortbench


def test_this_process_has_the_installed_package() -> None:
    wheel = distribution("ortbench")
    assert wheel.read_text("WHEEL")
    assert '"editable"' not in (wheel.read_text("direct_url.json") or "")
    assert Path(str(wheel.locate_file("ortbench"))) == INSTALLED
    assert INSTALLED.resolve() != ROOT / "ortbench"
    assert list(package.__path__) == [str(INSTALLED)]
    assert Path(SCRIPT).is_relative_to(INSTALLED.resolve())  # what starts workers


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return without_ortbench(tmp_path_factory.mktemp("environment") / "venv")


@pytest.mark.wide
@pytest.mark.process
@pytest.mark.parametrize(
    ("installed", "problem"),
    [
        ("nothing", "ortbench is not installed"),
        ("the source tree", "ortbench is installed as editable"),
        ("another", "what is installed is another ortbench than that of this folder"),
        ("an old module", "what is installed has files that ortbench no longer has, maybe from the folder build, "
                          "which can be removed"),
        ("the wheel", ""),
    ],
)  # fmt: skip
def test_pytest_ends_at_once_without_what_it_is_to_test(
    environment: Environment, installed: str, problem: str, request: pytest.FixtureRequest
) -> None:
    place = environment.site / "ortbench"
    if installed == "the source tree":
        place.symlink_to(ROOT / "ortbench")
        request.addfinalizer(place.unlink)
    elif installed != "nothing":
        shutil.copytree(INSTALLED, place)
        request.addfinalizer(lambda: shutil.rmtree(place))
    if installed == "another":
        next(place.rglob("*.j2")).unlink()
    elif installed == "an old module":
        (place / "old.py").touch()
    line = [str(environment.python), "-m", "pytest", "--collect-only", str(ROOT / "tests" / "test_names.py")]
    env = {**plain(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == (1 if problem else 0), done.stdout + done.stderr
    assert ("test_names.py" in done.stdout) is not bool(problem)
    assert done.stderr == (f"{problem}: pip install '.[test]'\n" if problem else "")
