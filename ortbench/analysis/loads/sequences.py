"""Load points of clients that have sequences generated: tokens, and what a prefill does to the decoding of others. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from ortbench.analysis.loads.levels import paired_reach
from ortbench.core.resampling import by_processes
from ortbench.core.stats import Value, summarise
from ortbench.model.modes import OUTPUT_TOKENS, STEP, THROUGHPUT, TOKEN_PHASES
from ortbench.model.result import Case
from ortbench.model.schema import Generation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Moments = NDArray[np.int64]
    Flags = NDArray[np.bool_]

BESIDE_PREFILL = "inter_token_latency_beside_prefill"
SLOWDOWN = "prefill_slowdown"


class Block(NamedTuple):
    """A block of a closed loop: its round, the runs of each client that count, and what each step of all runs of each client took
    and when it started, ns, run after run."""

    round: int
    counted: Sequence[slice]
    took: Sequence[Moments]
    starts: Sequence[Moments]

    def steps(self, count: int) -> Moments:
        """What each step of the runs that count took, client after client, shape (runs, steps)."""
        import numpy as np

        found = [each.reshape(-1, count)[runs] for each, runs in zip(self.took, self.counted, strict=False)]
        return np.concatenate(found) if found else np.empty((0, count), np.int64)

    def beside_prefill(self, count: int) -> Flags:
        """Of the later ones of these steps whether they start while another client's prefill runs: of those that only meet one
        long ones would be more."""
        import numpy as np

        begins = [it.reshape(-1, count) for it in self.starts]
        flags = [np.zeros(it.shape, bool) for it in begins]
        for own, other in permutations(range(len(begins)), 2):
            # How many prefills of the other one have begun, and how many have ended, when a step starts.
            begun = begins[other][:, 0]
            ended = begun + self.took[other].reshape(-1, count)[:, 0]
            counts = [np.searchsorted(it, begins[own], side="right") for it in (begun, ended)]
            flags[own] |= counts[0] > counts[1]
        found = [flag[runs, 1:] for flag, runs in zip(flags, self.counted, strict=False)]
        return np.concatenate(found) if found else np.empty((0, count - 1), bool)


def put_tokens(case: Case, blocks: Sequence[Block], made: Generation) -> None:
    """Put into a load point whose throughput is there what its clients generated."""
    import numpy as np

    count, batch = made["tokens"], made["batch"]
    runs = [block.steps(count) for block in blocks]
    beside = [steps[:, 1:][block.beside_prefill(count)] for steps, block in zip(runs, blocks, strict=True)]
    every, sizes = np.concatenate(runs), [len(it) for it in runs]
    if not len(every):
        return
    of_round = {block.round: steps for block, steps in zip(blocks, runs, strict=True) if len(steps)}
    later = summarise(every[:, 1:].ravel(), [size * (count - 1) for size in sizes])
    for metric, stats, part in (
        (TOKEN_PHASES[0], summarise(every[:, 0], sizes), slice(1)),
        (TOKEN_PHASES[1], later, slice(1, None)),
    ):
        of_blocks = {number: steps[:, part].ravel() for number, steps in of_round.items()}
        case.metrics[metric] = by_processes(stats, of_blocks, case.first_rounds)
    case.put("sequence_tokens_per_s", round((count - 1) * 1e9 / float(every[:, 1:].sum(1).mean()), 3))
    if isinstance(rate := case.metrics.get(THROUGHPUT), Value):
        scaled = None if rate.ci95 is None else (rate.ci95[0] * count * batch, rate.ci95[1] * count * batch)
        case.put(OUTPUT_TOKENS, rate.value * count * batch, scaled)
    for it in case.load_blocks or ():
        if (steps := of_round.get(it["round"])) is not None:
            parts = zip(TOKEN_PHASES, (steps[:, 0], steps[:, 1:]), strict=True)
            it["tokens"] = {
                key: {"median": round(float(np.median(times))), "p95": round(float(np.quantile(times, 0.95)))}
                for key, times in parts
            }
    if sum(it.size for it in beside):
        case.metrics[BESIDE_PREFILL] = summarise(np.concatenate(beside), [it.size for it in beside if it.size])


def put_slowdown(case: Case, blocks: Sequence[Block], alone: Case, made: Generation) -> None:
    """Put into a load point how many times as long as with one client alone the 95th percentile of its steps beside a prefill is.

    Its interval is over the rounds in which both had a block.
    """
    import numpy as np

    count, samples, at = made["tokens"], alone.samples.get(STEP), 0
    beside = case.stats(BESIDE_PREFILL)
    if beside is None or not samples:
        return
    of_round: dict[int, list[float]] = {}
    for number, size, _ in alone.blocks[STEP]:
        of_round.setdefault(number, []).extend(np.reshape(samples[at : at + size], (-1, count))[:, 1:].ravel())
        at += size
    ratios = {}
    for block in blocks:
        own = block.steps(count)[:, 1:][block.beside_prefill(count)]
        if own.size and block.round in of_round:
            ratios[block.round] = float(np.quantile(own, 0.95) / max(np.quantile(of_round[block.round], 0.95), 1))
    ratio = beside.p95 / max(float(np.quantile(np.reshape(samples, (-1, count))[:, 1:], 0.95)), 1)
    reach = paired_reach(ratios, case.first_rounds)
    case.put(SLOWDOWN, ratio, None if reach is None else (ratio / reach, ratio * reach), derived=True)
