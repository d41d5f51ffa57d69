"""EPs of one name in several libraries: two builds of the reference device, one of which can be a package of the name that
ONNX Runtime's own CUDA EP has, as its plugin has. By their speed it shows which of them ran."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.compiling import BuildError
from tests.conftest import MODELS, ONCE, Ran, device_library, lacking, ortbench
from tests.jobs.test_sides_command import results
from tests.refdevice import EP_NAME, VENDOR_ID, build
from tests.softcuda import VENDOR_ID as NVIDIA

pytestmark = pytest.mark.process

TINY = MODELS / "tiny.onnx"
CUDA = "CUDAExecutionProvider"
CUDA_LIBRARY = "libonnxruntime_providers_cuda.so"
PACKAGE = "onnxruntime-ep-cuda13"
MODE = ("--mode", "cpu-tensors")
SLOW_US = 50_000  # the other one takes 2,000
SHARED = (
    f"{CUDA} is in onnxruntime-gpu and {PACKAGE}: by that name --ep takes the one of onnxruntime-gpu, and --ep {PACKAGE} "
    "the other"
)


class Builds(NamedTuple):
    """Two libraries whose EPs have one name, which have one name themselves."""

    fast: Path
    slow: Path


@pytest.fixture(scope="session")
def builds(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Builds:
    found = []
    for name, path in (("fast", library), ("slow", device_library(version="2.0.0", compute_us=SLOW_US))):
        found.append(Path(shutil.copy(path, tmp_path_factory.mktemp(name, numbered=False) / "libep.so")))
    return Builds(*found)


@pytest.fixture(scope="session")
def cuda_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package such as that of CUDA's plugin EP: its EP and its library are called as onnxruntime-gpu's."""
    folder = tmp_path_factory.mktemp("site")
    try:
        library = build(folder.parent / "cuda", ep=CUDA, version="0.1.0", compute_us=SLOW_US)
    except BuildError as error:
        lacking(str(error))
    module = folder / "onnxruntime_ep_cuda"
    module.mkdir()
    shutil.copy(library, module / CUDA_LIBRARY)
    (module / "__init__.py").write_text(
        "from pathlib import Path\n"
        f"def get_library_path(): return str(Path(__file__).parent / {CUDA_LIBRARY!r})\n"
        f"def get_ep_name(): return {CUDA!r}\n"
    )
    info = folder / "onnxruntime_ep_cuda13-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 0.1.0\n")
    (info / "top_level.txt").write_text("onnxruntime_ep_cuda\n")
    return folder


def with_package(folder: Path) -> Any:
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}


def lasts_ns(result: dict[str, Any]) -> int:
    """An inference, but for the microseconds of its copies and of the host."""
    samples: list[int] = result["cases"][0]["samples"]["latency"]
    return min(samples) // 100_000 * 100_000


def said(result: dict[str, Any], code: str) -> list[str]:
    return [it["message"] for it in result["warnings"] if it["code"] == code]


def the_result(out: Path) -> dict[str, Any]:
    (path,) = out.glob("*/result.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_two_libraries_of_one_name_side_by_side(builds: Builds, tmp_path: Path) -> None:
    files = [word for name in ("junit", "action-json", "html", "trace") for word in (f"--{name}", tmp_path / name)]
    ran = ortbench("run", TINY, "--ep", builds.fast, "--ep", builds.slow, *MODE, "--iterations", 5, "--warmup", 1,
                        "--out", tmp_path / "out", *files)  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    found = results(tmp_path / "out")
    assert list(found) == ["fast-libep", "slow-libep"]
    for (name, result), path, version in zip(found.items(), builds, ("1.0.0", "2.0.0"), strict=True):
        target = result["target"]
        assert (target["ep"], target["ep_library"], target["ep_version"]) == (EP_NAME, str(path), version)
        assert lasts_ns(result) == (SLOW_US if name == "slow-libep" else 2_000) * 1000
        # On the terminal twice: above its own table, and above that of both. In its Markdown, too.
        heading = f"{EP_NAME} {version} of {path} on GPU ortbench {VENDOR_ID:04x}:0001, ONNX Runtime"
        assert ran.out.count(heading) == 2
        (table,) = (tmp_path / "out").glob(f"*/{name}/table.md")
        assert heading in table.read_text()
        assert str(path) in (tmp_path / "html").read_text()
    assert re.search(r"^mode +metric +fast/libep +slow/libep +ratio", ran.out, re.MULTILINE)
    (folder,) = (tmp_path / "out").glob("[!.]*")
    assert folder.name.startswith("tiny-fast-libep-slow-libep-")
    # What other programs read tells them apart though their EPs have one name.
    entries = [it["name"] for it in json.loads((tmp_path / "action-json").read_text())]
    assert len(set(entries)) == len(entries)
    for side in ("fast/libep", "slow/libep"):
        assert any(side in entry for entry in entries)
        assert side in (tmp_path / "junit").read_text()
        assert side in (tmp_path / "trace").read_text()


def gate(builds: Builds, out: Path, *sides: object) -> Ran:
    limits = ("--warmup", 1, "--max-regression", "50%", "--duration", 2)
    return ortbench("gate", "--model", TINY, *sides, *MODE, *limits, "--out", out)


def test_the_built_in_ep_beside_a_library_of_its_name(
    software_cuda: tuple[str, ...], cuda_package: Path, tmp_path: Path
) -> None:
    library = cuda_package / "onnxruntime_ep_cuda" / CUDA_LIBRARY
    ran = ortbench("run", TINY, "--ep", "cuda", "--ep", library, *MODE, *ONCE, "--out", tmp_path, prefix=software_cuda)
    assert ran.code == 0, ran.err
    found = results(tmp_path)
    own, other = found["cuda"]["target"], found[library.stem]["target"]
    assert (own["ep"], own["ep_library"]) == (CUDA, f"onnxruntime/capi/{CUDA_LIBRARY}")
    assert own["device"]["vendor_id"] == NVIDIA
    assert (other["ep"], other["ep_library"], other["ep_version"]) == (CUDA, str(library), "0.1.0")
    assert other["device"]["vendor_id"] == VENDOR_ID
    assert said(found["cuda"], "ep-name-shared") == []
    assert f"{CUDA} {own['ep_version']} of onnxruntime on GPU" in ran.out
    assert f"{CUDA} 0.1.0 of {library} on GPU" in ran.out


@pytest.mark.wide
def test_the_name_of_a_librarys_ep(cuda_package: Path, tmp_path: Path) -> None:
    library = cuda_package / "onnxruntime_ep_cuda" / CUDA_LIBRARY
    ran = ortbench("run", TINY, "--ep", "cuda", "--ep-library", library, *MODE, *ONCE, "--out", tmp_path)
    assert ran.code == 0, ran.err
    target = the_result(tmp_path)["target"]
    assert (target["ep"], target["ep_library"], target["ep_version"]) == (CUDA, str(library), "0.1.0")
    assert target["device"]["vendor_id"] == VENDOR_ID


def test_by_its_name_an_ep_is_the_built_in_one_and_that_is_said(
    software_cuda: tuple[str, ...], cuda_package: Path, tmp_path: Path
) -> None:
    ran = ortbench("run", TINY, "--ep", "cuda", "--ep", PACKAGE, *MODE, *ONCE, "--out", tmp_path, prefix=software_cuda,
                   **with_package(cuda_package))  # fmt: skip
    assert ran.code == 0, ran.err
    found = results(tmp_path)
    assert found["cuda"]["target"]["device"]["vendor_id"] == NVIDIA
    assert found[PACKAGE]["target"]["device"]["vendor_id"] == VENDOR_ID
    assert lasts_ns(found[PACKAGE]) >= SLOW_US * 1000
    assert said(found["cuda"], "ep-name-shared") == [SHARED]
    assert ran.out.splitlines().count(f"! warning: {SHARED}") == 1
    assert f"{CUDA} 0.1.0 of onnxruntime_ep_cuda on GPU" in ran.out


def test_a_built_in_ep_that_does_not_load_says_that_a_package_has_one(cuda_package: Path, tmp_path: Path) -> None:
    """This machine has no CUDA."""
    ran = ortbench("run", TINY, "--ep", "cuda", "--out", tmp_path, **with_package(cuda_package))
    if ran.code == 0:
        pytest.skip("there is CUDA here")
    assert ran.error_line.endswith(f"; {SHARED}")


def test_devices_lists_both_each_with_library_and_package(software_cuda: tuple[str, ...], cuda_package: Path) -> None:
    ran = ortbench("devices", "--json", "-", prefix=software_cuda, **with_package(cuda_package))
    found = json.loads(ran.out)
    both = [ep for ep in found["eps"] if ep["name"] == CUDA]
    versions = {ep["package"]: ep["version"] for ep in both}
    assert versions == {PACKAGE: "0.1.0", "onnxruntime-gpu": found["runtime"]["onnxruntime"]}
    assert both[0]["library"] == str(cuda_package / "onnxruntime_ep_cuda" / CUDA_LIBRARY)
    assert both[1]["library"].endswith(f"onnxruntime/capi/{CUDA_LIBRARY}")
    assert [[device["hardware"]["vendor_id"] for device in ep["devices"]] for ep in both] == [[VENDOR_ID], [NVIDIA]]
    assert said(found, "ep-name-shared") == [SHARED]
    lines = ortbench("devices", prefix=software_cuda, **with_package(cuda_package)).out.splitlines()
    assert f"warning: {SHARED}" in lines
    for ep in both:
        heading = lines.index(f"{CUDA} {ep['version']} from {ep['package']}")
        assert lines[heading + 1] == f"  library  {ep['library']}"


OPTION, VALUE = "--ep-option", {"compute_us": str(SLOW_US)}
# The EP itself reads an entry with its full name; one that is for another EP is nobody's, and is not judged.
ENTRIES = {f"ep.{EP_NAME.lower()}.compute_us": str(SLOW_US), "ep.cuda.key": "1"}


@pytest.mark.parametrize(
    ("option", "texts", "key", "told"),
    [
        (OPTION, [f"ep.refdevice.compute_us={SLOW_US}"], "ep_options", VALUE),
        ("--session-config", [f"{name}={value}" for name, value in ENTRIES.items()], "session_config", ENTRIES),
    ],
)
def test_an_option_with_its_eps_prefix(
    option: str, texts: list[str], key: str, told: dict[str, str], builds: Builds, tmp_path: Path
) -> None:
    typed = [word for text in texts for word in (option, text)]
    ran = ortbench("run", TINY, "--ep", builds.fast, *typed, *MODE, *ONCE, "--out", tmp_path)
    assert ran.code == 0, ran.err
    result = the_result(tmp_path)
    assert result["target"][key] == told
    assert lasts_ns(result) == SLOW_US * 1000
    assert said(result, "ep-option-ignored") == said(result, "session-config-ignored") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["ep.cuda.compute_us=1"],
         f"--ep-option ep.cuda.compute_us: is an option of another EP than {EP_NAME}, which runs here: write "
         "ep.refdevice.KEY or KEY alone"),
        (["compute_us=1", "ep.refdevice.compute_us=2"],
         f"--ep-option compute_us and ep.refdevice.compute_us are the same option of {EP_NAME}: give it once"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(options: list[str], message: str, builds: Builds, tmp_path: Path) -> None:
    typed = [word for option in options for word in ("--ep-option", option)]
    ran = ortbench("run", TINY, "--ep", builds.fast, *typed, *MODE, *ONCE, "--out", tmp_path)
    assert (ran.code, ran.out, ran.error_line) == (2, "", message)


def test_beside_other_eps_an_option_is_for_its_own(builds: Builds, tmp_path: Path) -> None:
    arguments = ["run", TINY, "--ep", "cpu", "--ep", builds.fast, *MODE, *ONCE, "--out", tmp_path]
    ran = ortbench(*arguments, "--ep-option", f"ep.refdevice.compute_us={SLOW_US}")
    assert ran.code == 0, ran.err
    found = results(tmp_path)
    options = {name: it["target"]["ep_options"] for name, it in found.items()}
    assert options == {"cpu": {}, "libep": {"compute_us": str(SLOW_US)}}
    assert lasts_ns(found["libep"]) == SLOW_US * 1000
    ran = ortbench(*arguments, "--ep-option", "ep.refdevcie.compute_us=1")
    message = f"is an option of none of the EPs that run here: CPUExecutionProvider and {EP_NAME}"
    assert (ran.code, ran.error_line) == (2, f"--ep-option ep.refdevcie.compute_us: {message}")


def test_the_baselines_options_and_a_suites(builds: Builds, tmp_path: Path) -> None:
    option = f"ep.refdevice.compute_us={SLOW_US}"
    ran = gate(builds, tmp_path / "gate", "--ep", builds.fast, "--baseline-set", f"ep-option={option}")
    changed = f"• baseline → candidate: EP options: compute_us {SLOW_US} → none"
    assert changed in ran.out.splitlines(), ran.err
    suite = tmp_path / "suite.toml"
    suite.write_text(f"""
        [[bench]]
        model = "{TINY.resolve()}"
        ep = "{builds.fast}"
        mode = "cpu-tensors"
        iterations = 1
        warmup = 1
        ep-option = {{"ep.refdevice.compute_us" = {SLOW_US}}}
    """)
    ran = ortbench("suite", suite, "--out", tmp_path / "suite")
    assert ran.code == 0, ran.err + ran.out
    (path,) = (tmp_path / "suite").rglob("result.json")
    assert json.loads(path.read_text())["target"]["ep_options"] == {"compute_us": str(SLOW_US)}


def test_cudas_own_ep_takes_its_prefix(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    ran = ortbench("run", TINY, "--ep", "cuda", "--ep-option", "ep.cuda.use_tf32=0", *MODE, *ONCE, "--out", tmp_path,
                   prefix=software_cuda)  # fmt: skip
    assert ran.code == 0, ran.err
    result = the_result(tmp_path)
    assert result["target"]["ep_options"] == {"use_tf32": "0"}
    assert said(result, "ep-option-ignored") == []
