"""What the tests test is what pip installed, and pytest ends at once where that is not so."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

import pytest

import ortbench as package
from ortbench.core.processes import SCRIPT
from tests.conftest import ROOT, command
from tests.environments import INSTALLED, Environment, plain, without_ortbench


def test_this_process_has_the_installed_package() -> None:
    wheel = distribution("ortbench")
    assert wheel.read_text("WHEEL")
    assert '"editable"' not in (wheel.read_text("direct_url.json") or "")
    assert Path(str(wheel.locate_file("ortbench"))) == INSTALLED
    assert INSTALLED.parent.name in ("site-packages", "dist-packages")
    assert INSTALLED.resolve() != ROOT / "ortbench"
    assert list(package.__path__) == [str(INSTALLED)]
    assert Path(SCRIPT).is_relative_to(INSTALLED.resolve())  # what starts workers


LINES = {
    "as tests do": command("--version"),
    "as users do": [str(Path(sysconfig.get_path("scripts"), "ortbench")), "--version"],
    "code": [sys.executable, "-c", "import ortbench"],
    "a module of the tests": [sys.executable, "-m", "tests.gpu.accept", "--plan"],
}


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
        ("without a part", "what is installed is another ortbench than that of this folder"),
        ("an old module", "what is installed has files that ortbench no longer has, maybe from the folder build, "
                          "which can be removed"),
        ("the wheel", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("folder", [ROOT, pytest.param(Path(ROOT.anchor), marks=pytest.mark.wide)])
def test_pytest_ends_at_once_without_what_it_is_to_test(
    environment: Environment, installed: str, problem: str | None, folder: Path, request: pytest.FixtureRequest
) -> None:
    place = environment.site / "ortbench"
    if installed == "the source tree":
        place.symlink_to(ROOT / "ortbench")
        request.addfinalizer(place.unlink)
    elif installed != "nothing":
        shutil.copytree(INSTALLED, place)
        request.addfinalizer(lambda: shutil.rmtree(place))
    if installed == "another":
        (place / "core" / "errors.py").write_text("")
    elif installed == "without a part":
        next(place.rglob("*.j2")).unlink()
    elif installed == "an old module":
        (place / "old.py").touch()
    done = subprocess.run(
        [environment.python, "-m", "pytest", "--collect-only", ROOT / "tests" / "report" / "test_svg.py"],
        cwd=folder, env={**plain(), "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    if problem is None:
        assert done.returncode == 0, done.stdout + done.stderr
        assert "test_svg.py" in done.stdout
    else:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"{problem}: pip install '.[test]'\n"
