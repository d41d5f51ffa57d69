"""What a bandwidth sweep is asked to do: frozen, plain data, and the sizes it goes through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import BadInput
from ortbench.core.files import check_readable
from ortbench.features.bandwidth import FILE_NAME
from ortbench.plan.option_types import PATH_OR_FOLDER, SIZE, TIME, WHOLE, check_seconds
from ortbench.plan.options import MEASURED, PYTHON, RawOptions, at_least, check_values, new_option, not_negative, option
from ortbench.plan.plan import require_quiet, timeout, wait_quiet
from ortbench.plan.target import MOST_SEED, POLICIES, Target

if TYPE_CHECKING:
    from ortbench.model.result import Result

_STEPS = (1, 4, 16, 64, 256)  # of each decimal unit: factors of four, so that sizes read as they are typed


def sizes(low: int, high: int) -> tuple[int, ...]:
    """The sizes of a sweep in bytes, ascending: both ends, and between them 1, 4, 16, 64 and 256 of B, kB, MB, GB."""
    steps = {step * 1000**unit for unit in range(4) for step in _STEPS}
    return tuple(sorted({low, high} | {size for size in steps if low < size < high}))


def _curve(path: str, option: str) -> Path:
    check_readable(path, option, "file or folder", folders=True)
    return Path(path)


OF_RUNS = (
    new_option(
        "bandwidth", "PATH", "Compare the copies with this result of 'ortbench bandwidth'.", MEASURED,
        PATH_OR_FOLDER._replace(parse=_curve, is_path=bool), commands=("run",), is_in_suites=False, shown="the newest in --out that fits",
        by_command={PYTHON: {"shown": "the newest in --out that fits; none without --out"}},
    ),
)  # fmt: skip
_swept = partial(option, panel=MEASURED, commands=("bandwidth",), is_in_suites=False)


@dataclass(frozen=True)
class CopyPlan:
    """One sweep of one EP's copies; a session's part of the `target` is not used."""

    target: Target = field(default_factory=Target)
    min_bytes: int = _swept(
        "min-size", "SIZE", "Begin with this size: 4kB, 64KiB, 4096.", kind=SIZE, default=4_000, shown="4kB",
        check=at_least(1, "a copy has at least one byte"),
    )  # fmt: skip
    max_bytes: int = _swept(
        "max-size",
        "SIZE",
        "End with this size, as far as memory allows.",
        kind=SIZE,
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
    curve = given.get("bandwidth")
    if curve is not None or (out is not None and any(out.glob(f"*/{FILE_NAME}"))):
        from ortbench.features.bandwidth.analysis import attach

        attach(results, out or Path(), curve)
