"""Mode `pipelined` on the reference device: what ortbench says of it beside the device's own trace, as Markdown.

    python -m tests.benchmarks.pipelined > reports/pipelined.md

Takes about three minutes; both sides of every line come from one run.
"""

from __future__ import annotations

import os
import platform
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ortbench.model.modes import LATENCY, PIPELINED
from tests.refdevice import HONESTY, Config, Honesty, Trace, build
from tests.truth import hidden_share, relu_model, rounds, run_on_device

SIZE = 1 << 16
DEPTHS = (1, 2, 3, 4)
ENGINES = {0: "a queue each", 3: "up, down, compute", 2: "copies, compute", 1: "one for all"}


class Times(NamedTuple):
    """How long the device takes for each part of an item, by definition, in ms."""

    upload: int
    inference: int
    download: int


COMPUTE_BOUND, COPY_BOUND = Times(2, 6, 2), Times(5, 2, 5)


@dataclass(frozen=True)
class Line:
    """One run: time per item in ms and hidden share, of ortbench and of the trace."""

    times: Times
    honesty: Honesty
    engines: int
    depth: int
    sync: str
    total: float
    true_total: float
    share: float
    true_share: float

    @property
    def text(self) -> str:
        """As a row of the table."""
        setting = (
            f"{'+'.join(map(str, self.times))} | {self.honesty} | {self.sync} | {ENGINES[self.engines]} | {self.depth}"
        )
        figures = f"{1000 / self.total:.0f} | {self.total:.2f} | {self.true_total:.2f}"
        return f"| {setting} | {figures} | {self.share:.0%} | {self.true_share:.0%} |"


def measure(library: Path, times: Times, honesty: Honesty, engines: int, depth: int) -> Line:
    """One run on a device that is set to these times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = Config(
            upload_gbps=SIZE / (times.upload * 1e6),
            download_gbps=SIZE / (times.download * 1e6),
            compute_us=times.inference * 1000,
            honesty=honesty,
            engines=engines,
            trace=folder / "trace",
        )
        model = relu_model(folder / "relu.onnx", SIZE)
        line = ("--mode", PIPELINED, "--depth", depth, "--iterations", 24, "--warmup", 2)
        code, result, _, errors = run_on_device(library, model, config, folder, *line)
        if code:
            raise SystemExit(errors)
        (case,) = result.cases
        assert case.pipeline is not None
        assert case.sync is not None
        trace, spans = Trace.read(folder / "trace"), rounds(result, Trace.read(folder / "trace"))
        return Line(
            times, honesty, engines, depth, case.sync["kind"],
            (case.median(LATENCY) or 0) / 1e6, median((end - start) / depth for start, end in spans) / 1e6,
            case.value("hidden_share") or 0.0, median(hidden_share(trace, span) for span in spans),
        )  # fmt: skip


def main() -> None:
    """Print the report."""
    grid = [
        (times, honesty, 0, depth) for times, honesty, depth in product((COMPUTE_BOUND, COPY_BOUND), HONESTY, DEPTHS)
    ]
    grid += [(times, "sync", engines, 3) for times, engines in product((COMPUTE_BOUND, COPY_BOUND), (3, 2, 1))]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ORTBENCH_TESTS_BUILT"] = folder
        library = build(Path(folder))
        lines = [measure(library, *setting) for setting in grid]
    close = sum(abs(line.share - line.true_share) <= 0.05 for line in lines)
    same = sum(abs(line.total / line.true_total - 1) <= 0.01 for line in lines)
    print("# Mode pipelined on the reference device\n")
    print(
        "Each line is one run of a Relu over 64 KiB on a device that takes the given milliseconds for an upload, an "
        "inference and a download. Hidden is the share of the copies' time that the pipeline did not wait for: as "
        "ortbench derives it from its medians, and in the device's own trace, where it is the share of the copies' time "
        "that was not time in which copies were all there was. Engines are what the device has to do its work with; with "
        "a queue each, streams have an engine of their own.\n"
    )
    print(f"Made on {platform.platform()}, a shared virtual machine with two cores; no GPU.\n")
    print(
        f"{close} of {len(lines)} hidden shares are within 5 percentage points of the trace, {same} of {len(lines)} times per "
        "item within 1 %. What separates the rest is the machine: phases and pipeline are timed at different moments, and "
        "what is derived from both has the noise of both.\n"
    )
    print(
        "| upload+inference+download ms | honesty | sync | engines | depth | items/s | ms per item | true ms | hidden | true |"
    )
    print("|---|---|---|---|---:|---:|---:|---:|---:|---:|")
    print("\n".join(line.text for line in lines))


if __name__ == "__main__":
    main()
