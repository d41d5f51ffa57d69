"""The page of `ortbench doctor`, of a machine that is written down."""

from __future__ import annotations

import pytest

from ortbench.features.doctor.facts import examine, usable
from ortbench.features.doctor.report import build_doctor
from ortbench.report.terminal.print import print_report
from tests.machines import gpu_machine


def test_the_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    facts = gpu_machine()
    facts["cpu"]["governors"] = {"powersave": 8}
    facts["nvidia"]["cards"] = []
    installed = facts["installed"]
    assert installed is not None
    assert installed["cuda"] is not None
    installed["cuda"]["libraries"] = []
    print_report(build_doctor(examine(facts), usable(facts)))
    assert (
        capsys.readouterr().out
        == """\
ONNX Runtime
good ONNX Runtime 1.31.1 of the package onnxruntime-gpu; Linux, Python 3.11.7

Execution providers
good CPUExecutionProvider 1.31.1 loads and runs on CPU Intel
good CUDAExecutionProvider 1.31.1 loads and runs on GPU NVIDIA

CUDA
good NVIDIA's driver 580.95.05, for CUDA up to 13.0; this ONNX Runtime was built
     for CUDA 13.0
good CUDA's runtime 13.0 is loaded
good cuDNN 9.14.0 is loaded

Processor and memory
good Intel Xeon: this process may run on 8 cores
good no container limits its CPU time
bad  the frequency governor is powersave (8 cores): clocks follow the load, and
     short runs are timed at low ones
     try: sudo cpupower frequency-set -g performance
good turbo is off
good other processes used 1.00% of 8 cores in the last second
good 60.0 GB of 64.0 GB memory are free

Profiling
good Nsight Systems 2025.3.2 takes ranges from nvtx 0.2.17

Noise
good two identical measurements of a small model, of 5 s each, differ by 0.200%:
     a process of 5 s per mode cannot tell differences below about 1.0%

13 good, 0 note, 1 bad: mend what is bad; models can be measured with --ep cpu
and --ep cuda
"""
    )
