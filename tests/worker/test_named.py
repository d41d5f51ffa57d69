"""Names of EPs that need no search of all installed packages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import pytest

from ortbench.core import eps
from ortbench.core.errors import BadInput
from ortbench.worker import plugins
from tests.packages import install


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package called ``onnxruntime_*`` is all there is, and whoever searches for others fails."""
    text = f"def get_library_path(): return {__file__!r}\ndef get_ep_name(): return 'TestsOwnExecutionProvider'\n"
    install(tmp_path, "onnxruntime-tests-own", {"onnxruntime_tests_own/__init__.py": text})
    found = eps.by_name((str(tmp_path),))

    def search() -> NoReturn:
        raise TimeoutError

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_plugins", {})
    monkeypatch.setattr(eps, "by_name", lambda: found)
    monkeypatch.setattr(eps, "everywhere", search)
    monkeypatch.setattr(plugins, "built_in_eps", lambda: ("CUDAExecutionProvider", "CPUExecutionProvider"))


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "ep", "package"),
    [
        ("cpu", "CPUExecutionProvider", None),
        ("cuda", "CUDAExecutionProvider", None),
        ("onnxruntime-tests-own", "TestsOwnExecutionProvider", "onnxruntime-tests-own"),
        ("testsown", "TestsOwnExecutionProvider", "onnxruntime-tests-own"),
        ("TESTSOWNEXECUTIONPROVIDER", "TestsOwnExecutionProvider", "onnxruntime-tests-own"),
    ],
)
def test_a_name_that_onnxruntime_or_its_packages_answer_costs_no_search(
    name: str, ep: str, package: str | None
) -> None:
    found = plugins.find_ep(name)
    assert (found.ep, found.plugin and found.plugin.distribution) == (ep, package)
    assert ("onnxruntime_tests_own" in sys.modules) == (package is not None)
    sys.modules.pop("onnxruntime_tests_own", None)


@pytest.mark.usefixtures("own")
def test_any_other_name_is_searched_for_and_no_name_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimeoutError):
        plugins.find_ep("openvino")
    monkeypatch.setattr(eps, "everywhere", eps.by_name)
    for name in ("", ".AUTO"):
        with pytest.raises(BadInput, match="no such execution provider"):
            plugins.find_ep(name)
    assert "onnxruntime_tests_own" not in sys.modules
