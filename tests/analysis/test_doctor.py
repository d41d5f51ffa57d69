"""What `ortbench doctor` makes of facts, also of machines that are not here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ortbench.features.doctor.facts import BAD, GOOD, KNOW, examine, usable, works
from ortbench.features.doctor.model import Facts
from tests.machines import SITE, card, ep, gpu_machine, hardware, quiet_machine
from tests.results import noise_of

GPU_PACKAGE = "pip install 'onnxruntime-gpu[cuda,cudnn]'"
TOP = "ps -eo pcpu,pid,comm --sort=-pcpu | head"
CUDA, WEBGPU = "CUDAExecutionProvider", "WebGpuExecutionProvider"


def said(facts: Facts, *verdicts: str) -> list[tuple[str, str, str, str]]:
    """Section, verdict, text and command of the findings with one of some verdicts."""
    return [(section.title, *it) for section in examine(facts) for it in section.findings if it.verdict in verdicts]


def changed(machine: Callable[[], Facts], **values: Any) -> Facts:
    """A machine with other values at places such as ``cpu__governors``."""
    facts = machine()
    for place, value in values.items():
        *path, last = place.split("__")
        inner: Any = facts
        for key in path:
            inner = inner[int(key) if isinstance(inner, list) else key]
        inner[int(last) if isinstance(inner, list) else last] = value
    return facts


def test_a_quiet_machine_is_good_in_every_line() -> None:
    assert {it.verdict for section in examine(quiet_machine()) for it in section.findings} == {GOOD}
    facts = gpu_machine()
    assert said(facts, BAD) == []
    ((_, _, text, command),) = said(facts, KNOW)
    assert text.startswith("GPU 0: NVIDIA H200, SM clock 1980 of 1980 MHz, memory clock 3201 of 3201 MHz now")
    assert command == "sudo nvidia-smi -i 0 -lgc 1980,1980"
    texts = [text for _, _, text, _ in said(facts, GOOD)]
    assert f"libcudart.so.13: {SITE}/nvidia/cu13/lib/libcudart.so.13" in texts
    assert "GPU 0: nothing slows it down now" in texts


LIBRARY: dict[str, Any] = {"name": "libcudart.so.13", "found": [], "loaded": None, "others": []}
OLD = "/usr/local/cuda-12.4/lib64/libcudart.so.12"
TWO = ["/a/libcudart.so.13", "/b/libcudart.so.13"]
SHARED = [{"pid": 7, "name": "python", "memory_bytes": 3_000_000_000}, {"pid": 8, "name": None, "memory_bytes": None}]

# What is another, and of the finding that follows: its verdict, decisive words and command.
Wrong = tuple[str, Any, str, str, str]
WITHOUT_A_CARD: list[Wrong] = [
    ("cpu__governors", {"performance": 2, "powersave": 6}, BAD, "is powersave (6 cores): clocks follow", "sudo cpupower frequency-set -g performance"),
    ("cpu__limit", 1.5, BAD, "the container may take 1.5 cores' worth of time", "ortbench run MODEL --ep cpu --intra-op-threads 1"),
    ("cpu__last_second", noise_of(8, 4.0), BAD, "Busy machine: other processes used 50% of 8 cores", TOP),
    ("memory__available", 6_000_000_000, BAD, "6.00 GB of 64.0 GB memory are free", "ps -eo rss,pid,comm --sort=-rss | head"),
    ("noise__ci95", (0.9, 1.3), BAD, "cannot tell differences below about 20", TOP),
    ("noise", {"problem": "the worker ended", "seconds": 2.0}, BAD, "a small model does not run on the CPU: the worker ended", ""),
    ("installed__eps__0", ep(WEBGPU), KNOW, f"{WEBGPU} 1.31.1 loads and finds no device", ""),
    ("installed__eps__0", ep(WEBGPU, problem="a (…)", missing="libvulkan.so.1"), BAD, "does not load: the shared library libvulkan.so.1 is missing", "apt install libvulkan1"),
    ("installed__eps__0", ep(CUDA, problem="a", missing="libcudart.so.13"), KNOW, f"{CUDA} 1.31.1 does not load: this machine has no NVIDIA GPU", ""),
    ("installed__package", "onnxruntime-gpu", BAD, "the module's files are those of onnxruntime-gpu", "pip install --force-reinstall --no-deps onnxruntime==1.31.1"),
    ("nvidia__present", True, BAD, "there is an NVIDIA GPU without a working driver", "nvidia-smi"),
]  # fmt: skip
WITH_A_CARD: list[Wrong] = [
    ("nvidia__cuda", "12.4", BAD, "for CUDA up to 12.4: too old for this ONNX Runtime, which was built for CUDA 13.0", "apt install nvidia-driver-580"),
    ("installed__eps__1", ep(CUDA, problem="a", missing="libcublas.so.13"), BAD, f"{CUDA} 1.31.1 does not load: the shared library libcublas.so.13 is missing", GPU_PACKAGE),
    ("installed__cuda__libraries", [{**LIBRARY, "others": [OLD]}], BAD, f"does not load without libcudart.so.13: not found; other versions do not help: {OLD}", GPU_PACKAGE),
    ("installed__cuda__libraries", [{**LIBRARY, "name": "libcudnn.so.9"}], KNOW, "some operators need libcudnn.so.9: not found", GPU_PACKAGE),
    ("installed__cuda__libraries", [{**LIBRARY, "found": TWO, "loaded": TWO[1]}], KNOW, f"is there 2 times, in {TWO[0]} and {TWO[1]}; {TWO[1]} is the one loaded", ""),
    ("nvidia__cards__0", card(persistence=False), BAD, "GPU 0: persistence mode is off", "sudo nvidia-smi -i 0 -pm 1"),
    ("nvidia__cards__0", card(slowed_by=["the power cap", "the power brake"]), BAD, "it is slowed down now by the power cap and the power brake", "nvidia-smi -i 0 -q -d PERFORMANCE"),
    ("nvidia__cards__0", card(processes=SHARED), BAD, "GPU 0: 2 other processes on it: python (7, 3.00 GB) and process (8)", "nvidia-smi -i 0"),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "cases"), [(quiet_machine, WITHOUT_A_CARD), (gpu_machine, WITH_A_CARD)])
def test_what_is_wrong_on_a_machine(machine: Callable[[], Facts], cases: list[Wrong]) -> None:
    for place, value, verdict, words, command in cases:
        found = said(changed(machine, **{place: value}), BAD, KNOW)
        assert [it for it in found if words in it[2] and (it[1], it[3]) == (verdict, command)], (words, found)
    busy = changed(quiet_machine, cpu__last_second=noise_of(8, 4.0), noise__machine=noise_of(8, 4.0))
    assert sum(text.startswith("Busy machine") for _, _, text, _ in said(busy, BAD)) == 1


def test_a_version_that_loses_streams_is_told_of_plugin_eps_with_streams() -> None:
    for version, package, streams, is_told in (
        ("1.24.4", "onnxruntime-mine", True, True),
        ("1.30.0", None, True, True),
        ("1.30.1", "onnxruntime-mine", True, False),
    ):
        device = {**hardware("GPU", "Mine"), "streams": {"offered": streams, "why": None}}
        of_cpu = {
            **ep("CPUExecutionProvider", {**hardware("CPU", "Intel"), "streams": {"offered": False, "why": "no"}})
        }
        found = changed(quiet_machine, installed__eps=[of_cpu, {**ep("MyEP", device), "package": package}])
        assert found["installed"] is not None
        found["installed"]["runtime"]["onnxruntime"] = version
        told = [(text, command) for _, _, text, command in said(found, KNOW) if "32643" in text]
        text = f"ONNX Runtime {version} copies tensors of plugin EPs without their stream where it copies one at a time (issue 32643, mended in 1.30.1)"
        where = "of MyEP, when a host array is bound as an input and in runs with tensors on several devices"
        assert told == ([(f"{text}: {where}", "pip install 'onnxruntime>=1.30.1'")] if is_told else [])


def test_eps_for_a_card_that_is_not_there_are_no_fault() -> None:
    no_engine = ep("TensorrtExecutionProvider", problem="a")
    facts = changed(gpu_machine, nvidia__present=False, nvidia__cards=[], installed__eps__1=no_engine)
    text = "TensorrtExecutionProvider 1.31.1 does not load: this machine has no NVIDIA GPU"
    assert said(facts, KNOW, BAD) == [("Execution providers", KNOW, text, "")]
    assert "CUDA" not in {section for section, *_ in said(facts, GOOD)}
    assert usable(facts) == ["cpu"]


def test_packages_of_one_module() -> None:
    facts = quiet_machine()
    facts["packages"]["distributions"].append({"name": "onnxruntime-openvino", "version": "1.24.1", "folder": SITE})
    ((_, _, text, command),) = said(facts, BAD)
    assert text.startswith("onnxruntime 1.31.1, onnxruntime-openvino 1.24.1 bring the same module onnxruntime")
    assert command == "pip uninstall -y onnxruntime onnxruntime-openvino && pip install onnxruntime-openvino==1.24.1"
    facts = quiet_machine()
    facts["packages"]["distributions"].append({"name": "onnxruntime-gpu", "version": "1.30.0", "folder": "/user"})
    text = f"onnxruntime-gpu 1.30.0 in /user is hidden: the module of {SITE} comes first"
    assert said(facts, BAD, KNOW) == [("ONNX Runtime", KNOW, text, "")]


AGAIN = "pip install --force-reinstall"


def test_an_onnxruntime_that_does_not_load() -> None:
    for module, package, numpy, problem, command in (
        (None, None, "2.4.6", "No module named 'onnxruntime'", "pip install onnxruntime"),
        (SITE, "onnxruntime-gpu", "2.4.6", "No module named 'onnxruntime'", f"{AGAIN} onnxruntime-gpu==1.31.1"),
        # Another package's module would be overwritten by the plain one.
        (SITE, "onnxruntime-rocm", None, "no package numpy; install it with: …", "pip install numpy"),
        (SITE, "onnxruntime-cann", "2.4.6", "import numpy failed", "pip install 'numpy<2'"),
        (SITE, "onnxruntime-cann", None, "no libgomp", f"{AGAIN} onnxruntime-cann==1.31.1"),
    ):
        own = [{"name": package, "version": "1.31.1", "folder": SITE}] if package else []
        packages = {"module": module, "distributions": own, "numpy": numpy}
        facts = changed(quiet_machine, packages=packages, installed=None, problem=problem, noise=None)
        assert said(facts, BAD)[0][2:] == (f"ONNX Runtime does not work: {problem.partition('; ')[0]}", command)
        assert not works(facts)


def test_an_onnxruntime_without_cuda_is_said_unless_a_package_has_an_ep_for_the_card() -> None:
    """The CUDA plugin EP, or TensorRT RTX's."""
    text = "this ONNX Runtime was built without CUDA, so it does not use the NVIDIA GPU"
    alone = ("CUDA", KNOW, text, f"pip uninstall -y onnxruntime && {GPU_PACKAGE}")
    for name, is_alone in (("CPUExecutionProvider", True), ("NvTensorRTRTXExecutionProvider", False)):
        eps = [ep(name, hardware("CPU" if is_alone else "GPU", "NVIDIA"))]
        assert (alone in said(changed(gpu_machine, installed__cuda=None, installed__eps=eps), KNOW)) is is_alone
