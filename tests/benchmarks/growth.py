"""How often `ortbench soak` is right: on devices that leak what they are told to, in real processes.

    python -m tests.benchmarks.growth 0 60 > growth.jsonl
    python -m tests.benchmarks.growth table growth.jsonl > reports/growth.md

Seeds from 0 to 59. A run takes 4 to 10 s, and memory does not depend on what else runs. For each case: in how many runs the verdict was the true one, the largest error of a rate, and the other verdicts. Device
memory is that of the software CUDA runtime (onnxruntime-gpu is needed), all else is of the reference device.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from ortbench.features.soak.analysis import GROWS, NONE, STEADY, trends_of
from tests import softcuda
from tests.conftest import MODELS
from tests.refdevice import build

TINY, SHAPED = MODELS / "tiny.onnx", MODELS / "multi_output.onnx"
MANY = f"batch={','.join(map(str, range(1, 301)))}"


class Leak(NamedTuple):
    """A case: what is told to the device, what the soak is asked for besides, and the truth, by 1,000 inferences."""

    name: str
    options: dict[str, float]
    verdict: str
    rate: float | None = None
    metric: str = "host_growth"
    model: Path = TINY
    more: tuple[str, ...] = ("--iterations", "8000")
    on_cuda: bool = False


LEAKS = [
    Leak("nothing", {}, NONE),
    # 6 MB in all, of which the 230 kB that ONNX Runtime takes once, 10 s after it was loaded, are few.
    Leak("300 B an inference", {"leak_bytes": 300}, GROWS, 300e3, more=("--iterations", "20000")),
    Leak("4 kB an inference", {"leak_bytes": 4000}, GROWS, 4e6),
    Leak("64 kB an inference", {"leak_bytes": 64_000}, GROWS, 64e6, more=("--iterations", "4000")),
    Leak("20 kB a new shape, of 300", {"leak_shape_bytes": 20_000}, STEADY, model=SHAPED, more=("--iterations", "8000", "--dim", MANY)),
    Leak("1 MB a session, of 2 inferences", {"leak_session_bytes": 1e6}, GROWS, 500e6, more=("--iterations", "100", "--reopen", "2")),
    Leak("stairs of 1 MB, 12 of them", {"leak_bytes": 1e6, "leak_every": 200, "leak_stop": 2500}, STEADY),
    Leak("a handle of 20 inferences", {"leak_handles": 0.05}, GROWS, 50, "handle_growth"),
    Leak("no device memory", {}, NONE, metric="device_growth", more=("--iterations", "2000"), on_cuda=True),
    Leak("8 kB of device memory an inference", {"leak_bytes": 8192}, GROWS, 8192e3, "device_growth", more=("--iterations", "2000"), on_cuda=True),
]  # fmt: skip


def soak(folder: Path, leak: Leak, seed: int) -> tuple[str, float]:
    """The verdict, and the slope by 1,000 inferences; what the devices are of is built in a folder."""
    options = [word for knob, value in leak.options.items() for word in ("--ep-option", f"{knob}={value:g}")]
    device, prefix = ["--ep-library", str(build(folder)), "--ep-option", "compute_us=100", *options], []
    with tempfile.TemporaryDirectory() as out:
        if leak.on_cuda:
            knobs = softcuda.Config(kernel_us=100, used=Path(out) / "used", **leak.options).environ()  # type: ignore[arg-type]
            device, words = ["--ep", "cuda"], [f"{name}={value}" for name, value in knobs.items()]
            prefix = ["env", *words, *softcuda.wrapper(softcuda.build(folder / "cuda"))]
        told = [*device, *leak.more, "--seed", str(seed), "--quiet", "--out", out]
        command = [*prefix, sys.executable, "-m", "ortbench", "soak", str(leak.model), *told]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        (file,) = Path(out).glob("*/result.json")
        (found,) = (it for it in trends_of(json.loads(file.read_text())["soak"]) if it.metric == leak.metric)
    return found.verdict, 0.0 if found.growth is None else found.growth.slope


def measure(first: int, last: int) -> None:
    """A soak of each case for each seed, a line of JSON each."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cuda").mkdir()
        for seed, leak in product(range(first, last), LEAKS):
            print(json.dumps([leak.name, *soak(Path(folder), leak, seed)]), flush=True)


def table(files: Sequence[str]) -> None:
    """Print the report of such lines."""
    found: dict[str, list[tuple[str, float]]] = {leak.name: [] for leak in LEAKS}
    for line in (line for file in files for line in Path(file).read_text().splitlines()):
        name, verdict, slope = json.loads(line)
        found[name].append((verdict, slope))
    print("# Growth\n\n`python -m tests.benchmarks.growth`\n")
    print("| leak | right | largest error of the rate | other verdicts |\n|---|---|---|---|")
    for leak in LEAKS:
        told = found[leak.name]
        off = [abs(slope / leak.rate - 1) for verdict, slope in told if leak.rate and verdict == leak.verdict]
        others = Counter(verdict for verdict, _ in told if verdict != leak.verdict)
        said = ", ".join(f"{count} {verdict}" for verdict, count in others.items()) or "–"
        most = f"{max(off):.1%}" if off else "–"
        print(f"| {leak.name} | {len(told) - others.total()} of {len(told)} | {most} | {said} |")


if __name__ == "__main__":
    if sys.argv[1] == "table":
        table(sys.argv[2:])
    else:
        measure(int(sys.argv[1]), int(sys.argv[2]))
