"""Types from outside: mypy, strict, of a program that uses the package as it is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ortbench

GOOD = """\
from pathlib import Path

import numpy as np
import ortbench

def tell(now: ortbench.Progress) -> None:
    print(now.stage, now.left_s)

try:
    result: ortbench.Result = ortbench.run(
        b"", ep="cuda", modes=["cpu-tensors"], duration=2, dim={"batch": 8}, shape={"x": (1, 3)}, input={"x": np.ones(3)},
        out=Path("here"), progress=tell, ep_option={"device_id": 1},
    )
except (ortbench.BadInput, ortbench.Interrupted) as error:
    print(error.option if isinstance(error, ortbench.BadInput) else error.results)
verdict: ortbench.Verdict = ortbench.gate(result, baseline=result, max_regression="5%")
compared: ortbench.Comparison = ortbench.compare([result, Path("other")], equivalence_margin=0.02)
peak = ortbench.bandwidth(ep="cuda", min_size="4kB").peak("h2d")
print(verdict.passed, compared.names, peak, ortbench.devices()["eps"][0]["name"], ortbench.inspect("m")["bytes_in"])
load = ortbench.load("m", concurrency=[1, 2], rate=20.5, arrivals=Path("times"), slo="p99=20ms", input={"x": np.ones(3)})
swept = ortbench.sweep("m", dim={"batch": [1, 8], "n": "1..64"}, shape={"x": [(1, 3), (8, 3)]}, data=[{"x": np.ones(3)}])
print(load.cases[0].value("throughput"), load.samples(), [it.first_inference_ns for it in swept.shapes])
case = result.case("cpu-tensors")
median: float | None = None if case is None else case.median("latency")
"""
WRONG = {
    'ortbench.run("m.onnx", durations=2)': 'Unexpected keyword argument "durations" for "run"',
    'ortbench.run("m.onnx", duration=[2])': 'Argument "duration" to "run" has incompatible type "list[int]"',
    'ortbench.run(3)': 'Argument 1 to "run" has incompatible type "int"',
    'ortbench.run("m.onnx", dim={"n": 1.5})': 'Dict entry 0 has incompatible type "str": "float"',
    'ortbench.load("m.onnx", rate=[None])': 'List item 0 has incompatible type "None"',
    'ortbench.sweep("m.onnx", dim={"n": [1.5]})': 'List item 0 has incompatible type "float"',
    'ortbench.run("m.onnx").nothing': '"Result" has no attribute "nothing"',
    'ortbench.devices()["epz"]': 'TypedDict "Listed" has no key "epz"',
}  # fmt: skip


@pytest.mark.wide
def test_a_program_is_checked_against_the_types(tmp_path: Path) -> None:
    assert (Path(ortbench.__path__[0]) / "py.typed").is_file()
    wrong = "import ortbench\n" + "\n".join(WRONG) + "\n"
    for name, text in (("good.py", GOOD), ("wrong.py", wrong)):
        (tmp_path / name).write_text(text)
    options = ["--strict", "--config-file=", "--cache-dir", "cache", "--no-error-summary"]
    line = [sys.executable, "-m", "mypy", *options, "good.py", "wrong.py"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    told = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert not [line for line in told if not line.startswith("wrong.py")], done.stdout
    for number, message in enumerate(WRONG.values(), 2):
        assert any(line.startswith(f"wrong.py:{number}: error: {message}") for line in told), done.stdout
