"""What a mix of shapes does to the latency at a load point, compared with each shape in blocks of its own. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortbench.analysis.point_blocks import is_full, paired_reach
from ortbench.core.resampling import by_processes
from ortbench.core.stats import Stats, quantile, summarise
from ortbench.features.load.analysis.points import part_bounds
from ortbench.features.load.analysis.samples import LoadSamples, case_of, counted_part
from ortbench.model.modes import ALL_SHAPES, APART, LATENCY, MIXED, MIXING
from ortbench.model.result import Case
from ortbench.model.slo import SAMPLES_NEEDED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]
    Blocks = dict[int, Moments]  # latencies of a block, ns, by its number


def put_shapes(case: Case, taken: LoadSamples) -> None:
    """Put into the case of a load point the latency of each shape in the mix, and apart; and of each and of all how many times as long
    the p99 of the mix is. Apart, a shape counts as often as in the mix."""
    import numpy as np

    mix = [_blocks(taken, shape) for shape in range(len(taken.apart))]
    alone = [_blocks(it) for it in taken.apart.values()]
    # Queues that grow say how long they grew.
    steady = not any(map(is_full, (case, *map(case_of, taken.apart.values()))))
    for name, mixed, apart in zip(taken.apart, mix, alone, strict=True):
        _put_latency(case, f"{MIXED}.{name}", mixed)
        _put_latency(case, f"{APART}.{name}", apart)
        if steady:
            _put_ratio(case, name, case.stats(f"{MIXED}.{name}"), mixed, apart)
    shares = {
        number: np.concatenate(
            [_as_many(apart[number], mixed[number].size) for mixed, apart in zip(mix, alone, strict=True)]
        )
        for number in (mix[0] if mix else ())
        if all(number in apart and apart[number].size for apart in alone)
    }
    _put_latency(case, f"{APART}.{ALL_SHAPES}", shares)
    if steady:
        _put_ratio(case, ALL_SHAPES, case.stats(LATENCY), _blocks(taken), shares)


def _put_latency(case: Case, key: str, blocks: Blocks) -> None:
    import numpy as np

    if parts := {number: times for number, times in blocks.items() if times.size}:
        found = summarise(np.concatenate([*parts.values()]), [times.size for times in parts.values()])
        case.metrics[key] = by_processes(found, parts, case.first_rounds)


def _put_ratio(case: Case, name: str, mix: Stats | None, mixed: Blocks, apart: Blocks) -> None:
    alone = case.stats(f"{APART}.{name}")
    if mix is None or alone is None or min(mix.n, alone.n) < SAMPLES_NEEDED["p99"]:
        return
    ratio = mix.p99 / max(alone.p99, 1)
    both = [it for it in mixed.keys() & apart.keys() if mixed[it].size and apart[it].size]
    reach = paired_reach({it: _p99(mixed[it]) / _p99(apart[it]) for it in both}, case.first_rounds)
    case.put(f"{MIXING}.{name}", ratio, None if reach is None else (ratio / reach, ratio * reach), derived=True)


def _p99(times: Moments) -> float:
    import numpy as np

    return max(quantile(np.sort(times), 0.99), 1.0)


def _as_many(times: Moments, count: int) -> Moments:
    """So many latencies that are spread as some are."""
    import numpy as np

    found: Moments = np.sort(times)[((np.arange(count) + 0.5) / max(count, 1) * times.size).astype(np.int64)]
    return found


def _blocks(taken: LoadSamples, shape: int | None = None) -> Blocks:
    """The latencies of each block of a load point, or those of a shape; one stretch of an open loop is cut into parts."""
    import numpy as np

    found = {}
    for burst in taken.bursts:
        part = counted_part(burst)
        shapes = [of[runs] for of, runs in zip(burst.shapes, part.runs, strict=False)]
        found[burst.round] = np.concatenate(part.latencies), np.concatenate([*shapes, np.empty(0)])
    for it in taken.stretches:
        found[it.round] = it.latencies, np.asarray(it.shapes)
    if len(taken.stretches) == 1:
        ((times, of),) = found.values()
        found = {at: (times[a:b], of[a:b]) for at, (a, b) in enumerate(part_bounds(int(times.size)))}
    return {number: times if shape is None else times[of == shape] for number, (times, of) in found.items()}
