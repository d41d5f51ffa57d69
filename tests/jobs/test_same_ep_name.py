"""EPs of one name in several libraries: by their speed builds of the reference device show which of them ran."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MODELS, ONCE, device_library, ortbench
from tests.packages import having, install
from tests.refdevice import EP_NAME, VENDOR_ID

TINY = MODELS / "tiny.onnx"
CUDA = "CUDAExecutionProvider"
PACKAGE = "onnxruntime-ep-cuda13"
MODE = ("--mode", "cpu-tensors")
SLOW_US = 50_000  # the other one takes 2,000
SHARED = f"{CUDA} is in onnxruntime-gpu and {PACKAGE}: by that name --ep takes the one of onnxruntime-gpu, and --ep {PACKAGE} the other"


def results(out: Path) -> dict[str, dict[str, Any]]:
    """What the only run in a folder saved, by the names of its configurations."""
    (folder,) = out.glob("[!.]*")
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/result.json"))}


def lasts_ns(result: dict[str, Any]) -> int:
    """An inference, but for the microseconds of its copies and of the host."""
    samples: list[int] = result["cases"][0]["samples"]["latency"]
    return min(samples) // 100_000 * 100_000


def test_two_libraries_of_one_name_side_by_side(library: Path, tmp_path: Path) -> None:
    paths = list[Path]()
    for name, build in (("fast", library), ("slow", device_library(version="2.0.0", compute_us=SLOW_US))):
        (tmp_path / name).mkdir()
        paths.append(Path(shutil.copy(build, tmp_path / name / "libep.so")))
    eps = [word for path in paths for word in ("--ep", path)]
    files = [word for name in ("junit", "action-json", "html", "trace") for word in (f"--{name}", tmp_path / name)]
    ran = ortbench("run", TINY, *eps, *MODE, *ONCE, "--out", tmp_path / "out", *files)
    assert (ran.code, ran.err) == (0, "")
    found = results(tmp_path / "out")
    assert list(found) == ["fast-libep", "slow-libep"]
    assert len({result["setup"]["run_id"] for result in found.values()}) == 1
    assert {case["checks"]["outputs"]["verdict"] for it in found.values() for case in it["cases"]} == {"passed"}
    for result, path, version, us in zip(found.values(), paths, ("1.0.0", "2.0.0"), (2_000, SLOW_US), strict=True):
        target = result["target"]
        assert (target["ep"], target["ep_library"], target["ep_version"]) == (EP_NAME, str(path), version)
        assert lasts_ns(result) == us * 1000
        # On the terminal twice: above its own table, and above that of both.
        heading = f"{EP_NAME} {version} of {path} on GPU ortbench {VENDOR_ID:04x}:0001, ONNX Runtime"
        assert ran.out.count(heading) == 2
        assert str(path) in (tmp_path / "html").read_text()
    (folder,) = (tmp_path / "out").glob("[!.]*")
    assert folder.name.startswith("tiny-fast-libep-slow-libep-")
    # What other programs read tells them apart though their EPs have one name.
    for side in ("fast/libep", "slow/libep"):
        for name in ("action-json", "junit", "trace"):
            assert side in (tmp_path / name).read_text()


def test_a_built_in_ep_that_does_not_load_says_that_a_package_has_one(library: Path, tmp_path: Path) -> None:
    """A package such as that of CUDA's plugin EP, whose EP is called as onnxruntime-gpu's; this machine has no CUDA."""
    text = "from pathlib import Path\ndef get_library_path(): return Path(__file__).parent / 'libep.so'\n"
    module = "onnxruntime_ep_cuda"
    files: dict[str, str | Path] = {f"{module}/__init__.py": f"{text}def get_ep_name(): return {CUDA!r}\n"}
    files[f"{module}/libep.so"] = library
    install(tmp_path / "site", PACKAGE, files)
    ran = ortbench("run", TINY, "--ep", "cuda", "--out", tmp_path, **having(tmp_path / "site"))
    if ran.code == 0:
        pytest.skip("there is CUDA here")
    assert ran.error_line.endswith(f"; {SHARED}")


def test_an_option_with_its_eps_prefix_is_for_that_ep(library: Path, tmp_path: Path) -> None:
    line = ("run", TINY, "--ep", "cpu", "--ep", library, *MODE, *ONCE, "--out", tmp_path)
    ran = ortbench(*line, "--ep-option", f"ep.refdevice.compute_us={SLOW_US}")
    assert (ran.code, ran.err) == (0, "")
    own, other = results(tmp_path)[library.stem], results(tmp_path)["cpu"]
    assert [it["target"]["ep_options"] for it in (own, other)] == [{"compute_us": str(SLOW_US)}, {}]
    assert lasts_ns(own) == SLOW_US * 1000
