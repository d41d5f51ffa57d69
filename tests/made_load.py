"""Made-up results of loads, for tests of what is said about them: every level is written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ortbench.analysis.load import knees
from ortbench.result import FAILED, Case, Result
from ortbench.schema import BackToBack, Latency, Level, LevelBlock, LoadSetup, SloRate
from tests.results import MS, nvidia_result, steady
from tests.results import measured as measured_case

ROUNDS = 8
# By what a block is off the level's figure, round by round: they cancel out.
WOBBLE = (1.01, 0.99, 1.02, 0.98, 1.01, 0.99, 1.0, 1.0)


def latency(p50_ms: float, p99_ms: float | None = None) -> Latency:
    """Latencies, of which p95 lies halfway between p50 and p99 (twice p50 unless it is given), and the most is twice p99."""
    p50, p99 = round(p50_ms * MS), round((2 * p50_ms if p99_ms is None else p99_ms) * MS)
    return {"mean": p50, "p50": p50, "p95": (p50 + p99) // 2, "p99": p99, "max": 2 * p99}


def blocks(runs_per_s: float, of: Latency, rounds: int = ROUNDS, wobble: Sequence[float] = WOBBLE) -> list[LevelBlock]:
    """Blocks whose runs/s and latencies wobble around a level's, in opposite directions."""
    found: list[LevelBlock] = []
    for number in range(rounds):
        off = wobble[number % len(wobble)]
        scaled = cast(Latency, {name: round(cast(int, ns) / off) for name, ns in of.items()})
        found.append({"round": number, "n": 100, "runs_per_s": runs_per_s * off, "latency_ns": scaled})
    return found


def closed(
    mode: str, callers: int, runs_per_s: float, p50_ms: float, p99_ms: float | None = None, **changed: Any
) -> Level:
    """A level of so many callers; its runs/s are known to 1 %, and wobble otherwise than those of other levels."""
    of, turn = latency(p50_ms, p99_ms), callers % len(WOBBLE)
    made = {
        "mode": mode, "sessions": "shared", "concurrency": callers, "status": "ok", "reason": None, "runs_per_s": runs_per_s,
        "ci95": [runs_per_s * 0.99, runs_per_s * 1.01], "latency_ns": of, "n": 100 * ROUNDS, "outputs_match": True,
        "cpu_cores": 0.5 * callers, "lock_wait": 0.01, "fairness": 1.0, "clock_mhz": None,
        "blocks": blocks(runs_per_s, of, wobble=WOBBLE[turn:] + WOBBLE[:turn]),
    }  # fmt: skip
    return cast(Level, made | changed)


def opened(mode: str, rate: float, p50_ms: float, p99_ms: float | None = None, **changed: Any) -> Level:
    """A level of so many requests a second, which all are served: they wait 0.1 ms, and take the rest."""
    of = latency(p50_ms, p99_ms)
    service = of["p50"] - MS // 10
    made = {
        "mode": mode, "sessions": "shared", "rate": rate, "status": "ok", "reason": None, "runs_per_s": rate,
        "ci95": [rate * 0.99, rate * 1.01], "latency_ns": of, "n": 100 * ROUNDS, "outputs_match": True, "cpu_cores": 0.5,
        "lock_wait": 0.0, "wait_ns": {"mean": MS // 10, "ci95": [MS // 12, MS // 8], "p99": MS}, "late": 0.0,
        "late_ns": {"max": 20_000, "p99": 5_000}, "utilisation": rate * service / 1e9,
        "service_ns": {"mean": service, "p50": service}, "slo_held": None, "clock_mhz": None, "blocks": blocks(rate, of),
    }  # fmt: skip
    return cast(Level, made | changed)


def broken(level: Level, reason: str = "the worker was ended by SIGSEGV") -> Level:
    """A level that failed before anything was measured of it."""
    nothing = {
        "runs_per_s": None,
        "ci95": None,
        "latency_ns": None,
        "outputs_match": None,
        "cpu_cores": None,
        "lock_wait": None,
    }
    kept = {key: level[key] for key in ("mode", "sessions", "concurrency", "rate") if key in level}
    return cast(Level, {**kept, "status": FAILED, "reason": reason, **nothing, "n": 0, "clock_mhz": None})


def alone(p50_ms: float, sm: int | None = None) -> BackToBack:
    """Runs back to back, and the clock meanwhile."""
    return {"n": 500, "latency_ns": latency(p50_ms), "clock_mhz": None if sm is None else {"sm": sm}}


def load_result(
    *levels: Level,
    back_to_back: dict[str, BackToBack] | None = None,
    slo: dict[str, int] | None = None,
    found: dict[str, SloRate | None] | None = None,
    run_id: str | None = None,
    **setup: Any,
) -> Result:
    """A result of a load on an NVIDIA GPU.

    Args:
        levels: of it.
        back_to_back: of open loops, by mode.
        slo: the most that each statistic may be, ns.
        found: of ``--rate auto``.
        run_id: of the run.
        setup: of the load, instead of what is here.
    """
    cases: list[Case] = []
    for mode in dict.fromkeys(level["mode"] for level in levels):
        cases.append(measured_case(mode, total=steady([MS] * 24)))
        cases[-1].outputs_match = True
    made = nvidia_result(*cases)
    made.command = ["ortbench", "load", "m.onnx", "--ep", "some"]
    made.kind, made.levels, made.stopped = "load", list(levels), "duration: 2 s per level"
    has_rates = any("rate" in level for level in levels)
    known: dict[str, Any] = {
        "sessions": "shared", "duration_s": 2.0, "arrivals": "poisson" if has_rates else None, "file": None, "seed": 0,
        "callers": 1, "slo": slo,
    }  # fmt: skip
    made.load = cast(LoadSetup, known | setup)
    made.knee = knees(levels)
    made.back_to_back = back_to_back
    if found is not None:
        made.slo = {"asked": slo or {}, "found": found}
    if run_id is not None:
        made.setup["run_id"] = run_id
    return made


def serving(factor: float = 1.0, **more: Any) -> Result:
    """Two modes of up to eight callers, of which four are worth it, and with `device` two; `factor` times as slow."""
    cpu = [(1, 100, 10.0), (2, 190, 10.5), (4, 388, 10.3), (8, 400, 20.0)]
    device = [(1, 200, 5.0), (2, 380, 5.3), (4, 390, 10.3), (8, 388, 20.6)]
    levels = [
        closed(mode, callers, rate / factor, p50 * factor)
        for mode, found in (("cpu", cpu), ("device", device))
        for callers, rate, p50 in found
    ]
    return load_result(*levels, **more)


def paced(factor: float = 1.0, **more: Any) -> Result:
    """One mode at 10, 30 and 90 requests a second, the last of which come faster than they are served; the GPU falls asleep at
    the lowest rate."""
    slow = {"clock_mhz": {"sm": 210}}
    levels = [
        opened("device", 10, 7.3 * factor, 12.0 * factor, slo_held=True, **slow),
        opened(
            "device", 30, 3.3 * factor, 14.0 * factor, slo_held=True, late=0.03, late_ns={"max": 4 * MS, "p99": 3 * MS}
        ),
        opened("device", 90, 900.0, 1900.0, slo_held=False, runs_per_s=80.0, ci95=[79.0, 81.0], utilisation=1.0),
    ]
    return load_result(
        *levels, back_to_back={"device": alone(3.0, 1725)}, slo=more.pop("slo", {"p99": 20 * MS}), **more
    )
