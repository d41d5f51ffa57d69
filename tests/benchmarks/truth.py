"""Truth against report: every median of ortbench beside the reference device's own trace, as a Markdown table.

    python -m tests.benchmarks.truth > reports/truth.md

Takes about twenty minutes; both sides of every line come from one run.
"""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path

from ortbench.model.result import Result
from tests import bare
from tests.refdevice import HONESTY, Config, Honesty, Trace, build
from tests.truth import Check, checks, relu_model, run_on_device

GRID = [
    (1 << 16, 100), (1 << 16, 2_000), (1 << 16, 50_000),
    (1 << 20, 100), (1 << 20, 2_000), (1 << 20, 10_000),
    (1 << 24, 2_000), (1 << 24, 20_000),
    (1 << 26, 2_000), (1 << 26, 50_000),
]  # fmt: skip


def measure(library: Path, honesty: Honesty, size: int, compute_us: float) -> tuple[Result, list[Check]]:
    """One run of a Relu over `size` bytes on the device."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = Config(honesty=honesty, compute_us=compute_us, trace=folder / "trace", spin_us=1e6)
        model = relu_model(folder / "relu.onnx", size)
        line = ("--iterations", 15, "--warmup", 3)
        beside = bare.beside(folder / "bare")
        code, result, _, errors = run_on_device(library, model, config, folder, *line, **beside)
        if code:
            raise SystemExit(errors)
        return result, checks(result, Trace.read(folder / "trace"), folder / "bare")


def size_text(size: int) -> str:
    """A size in binary units."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def main() -> None:
    """Print the report."""
    lines, found = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ORTBENCH_TESTS_BUILT"] = folder
        library = build(Path(folder))
        for honesty in HONESTY:
            for size, compute_us in GRID:
                result, items = measure(library, honesty, size, compute_us)
                found += items
                assert result.target["sync"] is not None
                sync = result.target["sync"]["kind"]
                (proved,) = (it["verdict"] == "passed" for case in result.cases if (it := case.checks.get("zero_copy")))
                where = (
                    f"{honesty} | {size_text(size)} | {compute_us / 1000:g} ms | {sync} | {'yes' if proved else 'no'}"
                )
                lines += [f"| {where} | {row(item)} |" for item in items]
    within = sum(item.is_right for item in found)
    worst = max(found, key=lambda item: item.error - item.allowed)
    print("# Truth against report\n")
    print(
        "Each line is one median that ortbench reported for the reference device (a Relu of the given size in and out, "
        "with the given inference time) and the median of what the device's own trace says of the same samples. "
        "Host is what a bare call of ONNX Runtime for the same work, made in turns with ortbench's, takes beyond the "
        "trace: the time between the device's last operation and the clock, and before its first. The error is what is "
        "left. Within means: 1 % or 20 µs, whichever is larger.\n"
    )
    print(f"Made on {platform.platform()}, a shared virtual machine with two cores; no GPU.\n")
    print(
        f"{within} of {len(found)} medians are within. The largest excess: {' '.join(map(str, worst.what))}, "
        f"{worst.error / 1000:.0f} µs of {worst.true / 1000:.0f} µs.\n"
    )
    print(
        "| honesty | size | inference | sync | zero-copy proved | mode | phase | reported µs | true µs | host µs | error µs | within |"
    )
    print("|---|---:|---:|---|---|---|---|---:|---:|---:|---:|---|")
    print("\n".join(lines))


def row(item: Check) -> str:
    """One line's own cells."""
    within = "yes" if item.is_right else "no"
    figures = " | ".join(f"{ns / 1000:.1f}" for ns in (item.reported, item.true, item.host, item.error))
    return f"{' | '.join(map(str, item.what))} | {figures} | {within}"


if __name__ == "__main__":
    main()
