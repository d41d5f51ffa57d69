"""Results of every kind that a report must cope with: usual ones, broken ones, tiny, huge and misleadingly named ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np

from ortbench.analysis.derive import derive
from ortbench.core.stats import Value
from ortbench.features.load.analysis import load_cases
from ortbench.features.page.report import parts
from ortbench.features.page.report.page import build_page
from ortbench.model.modes import MODES
from ortbench.model.result import FAILED, UNSUPPORTED, Case, Result
from tests import results
from tests.results import Blocks, broken, chain, closed, loop_case, loop_result, measured, result_of, steady, with_bytes

US, MS, S = 1_000, 1_000_000, 1_000_000_000
IMAGE = 24_883_200  # bytes


def scattered(median: float, rounds: int, n: int, shift: float, tail: float = 0.0) -> Blocks:
    """Blocks that scatter by some 2 % around a median, ns, and one sample in twenty by more: an exponential tail of that
    many medians. Not by chance: ranks are taken evenly, in an order that looks random."""
    at = np.arange(rounds * n) + 1 + shift
    ranks, odds = (at * 0.6180339887 + 0.01) % 1, (at * 0.7548776662) % 1
    shares = 1 + 0.012 * np.log(ranks / (1 - ranks)) + (odds < 0.05) * tail * -np.log(odds / 0.05)
    samples = np.maximum(np.rint(median * shares), 0).astype(np.int64).reshape(rounds, n)
    return dict(enumerate(samples.tolist()))


def timed(mode: str, median: float, rounds: int = 20, n: int = 5, tail: float = 0.0, copy: float = 0.0) -> Case:
    """A mode whose blocks have begun one after the other; `copy` is the median of an upload, ns."""
    shift = 0.1 * list(MODES).index(mode)
    phases = {"latency": scattered(median, rounds, n, shift, tail)}
    if copy:
        phases["h2d"] = scattered(copy, rounds, n, shift)
        phases["inference"] = scattered(median - 2.1 * copy, rounds, n, shift)
        phases["d2h"] = scattered(1.1 * copy, rounds, n, shift)
    case = measured(mode, **phases)
    for blocks in case.blocks.values():
        for number, block in enumerate(blocks):
            block[2] = 10**12 + round((4 * number + list(MODES).index(mode)) * median * n)
    image = IMAGE if copy or mode == "cpu-tensors" else 0
    return with_bytes(case, image, image)


def usual(scale: float = MS, rounds: int = 20, n: int = 5, tail: float = 0.0) -> Result:
    """Three modes of four on a device that copies: 20, 19 and 8 times `scale` ns."""
    cpu = timed("cpu-tensors", 20 * scale, rounds, n, tail)
    device = timed("device-tensors", 19 * scale, rounds, n, tail, copy=6 * scale)
    for case in (cpu, device):
        image = round(IMAGE * scale / MS)
        with_bytes(case, image, image)
    results.copying(cpu, round(12 * scale), round(8 * scale))
    cpu.speedup = Value(1.0, (1.0, 1.0))
    device.speedup = Value(1.05, (1.03, 1.07))
    resident = timed("device-resident", 8 * scale, rounds, n, tail)
    resident.speedup = Value(2.5, (2.4, 2.6))
    resident.set_metric("once_h2d", round(6 * scale))
    resident.set_metric("once_d2h", round(6 * scale))
    return result_of(cpu, device, resident, broken("host-accessible", UNSUPPORTED, "there is no such memory"))


def without_samples(result: Result | None = None) -> Result:
    """Which has fewer pictures, and so is drawn in a third of the time."""
    result = result or usual()
    for case in result.cases:
        case.samples, case.blocks = {}, {}
    return result


def swept() -> Result:
    result = usual()
    sizes = [2**k for k in range(10, 29)]
    result.link = {
        "from": "reports/bandwidth/bandwidth.json",
        "created": "2026-01-01T00:00:00Z",
        "memory": "ordinary",
        "h2d": [[size, round(10_000 + size / 6)] for size in sizes],
        "d2h": [[size, round(15_000 + size / 4)] for size in sizes],
        "peak": {"h2d": None, "d2h": None},
        "shares": {},
    }
    return result


def many_levels() -> Result:
    """So many clients, rates and modes as a load may have, from one run a minute to millions a second, at none of which time
    passes."""
    levels = [
        closed(mode, 2**number, 0.01 * 9.0**number, 1e4 / 9.0**number, blocks=[], fairness=1 / 2**number)
        for mode in MODES
        for number in range(9)
    ]
    levels += [results.opened("cpu-tensors", 10.0**number / 100, 0.1, 0.1, utilisation=1.0) for number in range(8)]
    levels += [closed("device-resident", 512, 0.0, 0.0)]
    return results.load_result(*(results.known_to(it, None) for it in levels), slo={"mean": 1, "p95": 10 * S})


def long_loop() -> Result:
    """So many steps that not each has a mark of its own, in modes that are far apart, with one whose steps took no time."""
    steps = [10 * MS + 20 * US * step for step in range(300)]
    return loop_result(
        loop_case("cpu-tensors", steps, (1.0, 1.0, 1.0), rounds=3),
        loop_case("device-resident", [20 * US] * 300, (600.0,), rounds=3),
        loop_case("shared", [0] * 300, (600.0,), rounds=3),
    )


def long_chain() -> Result:
    """More stages and links than have colours and bars of their own, some with next to no time, with names of every length."""
    numbered = [f"stage_{number}" for number in range(2, 13)]
    names = [EVIL, "a stage of a name that nobody would write on a bar", *numbered]
    links = [
        results.link(
            f"{name}.present.{number}", f"{other}.past.{number}", 100, "why" if number % 3 else None, (1, number)
        )
        for number, (name, other) in enumerate(pairwise([*names, *names]))
    ]
    made = chain(*links, stages=tuple(map(results.stage, names)))
    for case in made.cases:
        case.samples["stage"] = [*[(37 * number % 11) ** 3 * 3 * US for number in range(len(names))] * 18]
        case.blocks["stage"] = [[number, 3 * len(names), 0] for number in range(6)]
    derive(made)
    return made


EVIL = "<script>alert(1)</script> \"'&$x$ 模型 🦄 \u202e\x00\x07\ud800"


def evil() -> Result:
    """Everything that comes from outside holds markup, quotes, other scripts, and what is no character at all."""
    result = usual()
    result.model["path"] = f"/{EVIL}/{'x' * 200}.onnx"
    result.model["inputs"] = [{**results.tensor(EVIL, [1]), "type": EVIL}]
    result.command = ["ortbench", "run", f"'</code>{EVIL}'"]
    result.warn("x", f"<img src=x onerror=alert(1)> {EVIL}")
    result.cases[-1].reason = EVIL
    result.placement |= {"nodes": {EVIL: 1}, "memcpy_nodes": 2, "cpu_operators": {EVIL: 3}}
    result.target |= {"ep": EVIL, "ep_options": {EVIL: EVIL}, "session_config": {EVIL: EVIL}, "ep_library": EVIL}
    result.environment |= {"os": EVIL, "gpus": [{"name": EVIL, "driver": EVIL}]}
    return result


ODD: dict[str, Callable[[], Result]] = {
    "usual": usual,
    "nothing": lambda: result_of(*[broken(mode, UNSUPPORTED, "only tensors can be bound") for mode in MODES]),
    "failed": lambda: result_of(
        usual().cases[0],
        broken("device-tensors", FAILED, "output y differs: 3 of 10 values", latency=steady([MS] * 3)),
        broken("device-resident", FAILED, "the worker died"),
    ),
    "one-sample": lambda: result_of(measured("cpu-tensors", latency={0: [5 * MS]})),
    "no-time-at-all": lambda: result_of(*[measured(mode, latency=steady([0] * 20)) for mode in MODES]),
    "far-apart": lambda: result_of(
        timed("cpu-tensors", 2 * S), timed("device-tensors", 30 * MS, copy=MS), timed("device-resident", 3 * US)
    ),
    "many-samples": lambda: usual(scale=10 * US, rounds=200, n=200, tail=0.5),
    "without-samples": without_samples,
    "swept": swept,
    "evil": evil,
    "loop": lambda: results.decoding(first=True),
    "long-loop": long_loop,
    "generation": results.generating,
    "chain": lambda: chain(results.STAYING, results.CROSSING),
    "chain-of-one-stage": lambda: chain(stages=(results.stage("text"),), resident_ms=(0, 0)),
    "long-chain": long_chain,
    "load": lambda: results.load_result(
        *load_cases(results.serving()),
        *load_cases(results.paced()),
        slo={"p99": 20 * MS},
        found={"device-tensors": results.slo_rate(70.0, 74.0)},
    ),
    "load-of-many-levels": many_levels,
    "load-that-failed": lambda: results.load_result(
        results.failed_level(closed("cpu-tensors", 1, 1, 1.0)),
        results.failed_level(results.opened("cpu-tensors", 30, 1.0)),
    ),
    "loop-that-failed": lambda: loop_result(broken("cpu-tensors", FAILED, "step 3 of 4 failed: no memory")),
}


def page_of(name: str) -> str:
    """The page of one of them, or of all that are shown together in `SEVERAL` and `LOOPS`."""
    return _page_of(name, vars(parts)["draw"])


@cache
def _page_of(name: str, draw: object) -> str:
    """The same, once for each way to draw: a test may leave pictures blank."""
    if name == LOOPS:
        return build_page([results.decoding(), results.decoding(first=True), usual()], ["a", "b", "run"])
    if name == SEVERAL:
        shown = ["failed", "nothing", "evil"]
        return build_page(
            [without_samples(ODD[one]()) for one in shown], [*shown[:-1], EVIL], ["cuda: does not load", EVIL]
        )
    return build_page([ODD[name]()], [name])


SEVERAL = "several"
LOOPS = "loops"  # and a run
PAGES = [*ODD, SEVERAL, LOOPS]
