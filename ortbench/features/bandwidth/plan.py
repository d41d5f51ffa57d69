"""What a bandwidth sweep is asked to do: frozen, plain data, and the sizes it goes through."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import BadInput
from ortbench.core.paths import check_readable
from ortbench.plan.option_types import PLACE, TEXT, TIME, WHOLE, check_seconds
from ortbench.plan.options import MEASURED, PYTHON, RawOptions, at_least, check_values, new_option, not_negative, option
from ortbench.plan.plan import require_quiet, timeout, wait_quiet
from ortbench.plan.target import MOST_SEED, POLICIES, Target

if TYPE_CHECKING:
    from ortbench.model.result import Result

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_STEPS = (1, 4, 16, 64, 256)  # of each decimal unit: factors of four, so that sizes read as they are typed


def sizes(low: int, high: int) -> tuple[int, ...]:
    """The sizes of a sweep in bytes, ascending: both ends, and between them 1, 4, 16, 64 and 256 of B, kB, MB, GB."""
    steps = {step * 1000**unit for unit in range(4) for step in _STEPS}
    return tuple(sorted({low, high} | {size for size in steps if low < size < high}))


def parse_size(text: str, option: str) -> int:
    """A size such as ``64kB`` (1000 bytes each), ``64KiB`` (1024 bytes each) or ``4096`` in bytes; `BadInput`: not a size, or not a
    whole number of bytes above zero."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmg]i?)?b?", text.strip(), re.ASCII | re.IGNORECASE)
    size = float(found[1]) * _UNITS[(found[2] or "").lower()] if found else 0.0
    if not 1 <= size <= 2**50 or size != int(size):
        raise BadInput(f"{option} {text!r}: write a size such as 4kB, 1.5MB, 64KiB or 4096", option)
    return int(size)


def _curve(path: str, option: str) -> Path:
    check_readable(path, option, "file or folder", folders=True)
    return Path(path)


_SIZE = TEXT._replace(parse=parse_size)
OF_RUNS = (
    new_option(
        "bandwidth",
        "PATH",
        "Compare the copies with this result of 'ortbench bandwidth'.",
        MEASURED,
        PLACE._replace(parse=_curve, is_path=bool),
        commands=("run",),
        is_in_suites=False,
        shown="the newest in --out that fits",
        by_command={PYTHON: {"shown": "the newest in --out that fits; none without --out"}},
    ),
)
_swept = partial(option, panel=MEASURED, commands=("bandwidth",), is_in_suites=False)


@dataclass(frozen=True)
class CopyPlan:
    """One sweep of one EP's copies; a session's part of the `target` is not used."""

    target: Target = field(default_factory=Target)
    min_bytes: int = _swept(
        "min-size", "SIZE", "Begin with this size: 4kB, 64KiB, 4096.", kind=_SIZE, default=4_000, shown="4kB"
    )
    max_bytes: int = _swept(
        "max-size",
        "SIZE",
        "End with this size, as far as memory allows.",
        kind=_SIZE,
        default=256_000_000,
        shown="256MB",
    )
    duration_s: float = _swept(
        "duration", "TIME", "Measure all sizes together for at most TIME.", kind=TIME, default=20.0, check=check_seconds
    )
    iterations: int | None = _swept(
        "iterations", "N", "Measure exactly N copies of each size instead.", kind=WHOLE,
        check=at_least(1, "at least one copy must be measured"),
    )  # fmt: skip
    seed: int = _swept(
        "seed", "N", "Seed the data and the order of blocks.", kind=WHOLE, default=0, check=not_negative, most=MOST_SEED
    )
    timeout_s: float = timeout()
    wait_quiet_s: float | None = wait_quiet()
    require_quiet: bool = require_quiet()
    command: tuple[str, ...] = ()

    def worker_request(self) -> dict[str, Any]:
        return {"target": asdict(self.target), "seed": self.seed}


def check(plan: CopyPlan) -> None:
    """Refuse a sweep that cannot be carried out, before anything is started (`BadInput`)."""
    if plan.min_bytes > plan.max_bytes:
        reason = f"is above --max-size: {plan.min_bytes} and {plan.max_bytes} bytes"
        raise BadInput(f"--min-size {reason}", "--min-size")
    check_values(plan)
    check_values(plan.target)
    if plan.target.ep in POLICIES:
        reason = "ONNX Runtime chooses an EP for a model, and a sweep has none: name the EP"
        raise BadInput(f"--ep {plan.target.ep}: {reason}", "--ep")


def when_open(results: Sequence[Result], out: Path | None, given: RawOptions) -> None:
    """Have the copies of runs compared with a curve: that which was named, or the newest in `out` that fits."""
    from ortbench.features.bandwidth.model import FILE_NAME

    curve = given.get("bandwidth")
    if curve is not None or (out is not None and any(out.glob(f"*/{FILE_NAME}"))):
        from ortbench.features.bandwidth.analysis import attach

        attach(results, out or Path(), curve)
