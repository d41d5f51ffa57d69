"""Load points of clients that have sequences generated, by blocks whose steps are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ortbench.analysis.comparing.compare import rows
from ortbench.analysis.loads.load_levels import ClosedLoopBlock, LoadSamples, block_of_steps, case_of
from ortbench.analysis.loads.sequences import put_slowdown
from ortbench.core.stats import Value
from ortbench.model.result import Case
from ortbench.model.schema import Generation
from tests.results import MS, load_result

PREFILL, ALONE, SLOW = (
    10 * MS,
    MS,
    4 * MS,
)  # of the prompt, of a token, and of one that starts beside another client's prompt
COUNT = 6
MADE = Generation(prompt=32, tokens=COUNT, batch=2, forced=0, from_file=False, fixed_cache=True, said_by="")


def block(
    number: int, clients: int, runs: int = 8, apart: int = 93 * MS // 10, until: int = 150 * MS
) -> ClosedLoopBlock:
    """Clients that begin `apart`, and whose tokens take longer while another one's prompt runs."""
    at = [client * apart for client in range(clients)]
    starts: list[list[int]] = [[] for _ in at]
    took: list[list[int]] = [[] for _ in at]
    prompts: list[tuple[int, int]] = []  # client and start
    while any(len(it) < runs * COUNT for it in starts):
        client = min((it for it in range(clients) if len(starts[it]) < runs * COUNT), key=lambda it: at[it])
        now, is_prompt = at[client], len(starts[client]) % COUNT == 0
        beside = any(other != client and begin <= now < begin + PREFILL for other, begin in prompts)
        ns = PREFILL if is_prompt else SLOW if beside else ALONE
        prompts += [(client, now)] if is_prompt else []
        starts[client].append(now)
        took[client].append(ns)
        at[client] = now + ns
    whole = [np.asarray(it, np.int64).reshape(-1, COUNT) for it in starts]
    lasted = [np.asarray(it, np.int64).reshape(-1, COUNT) for it in took]
    ends = [begin[:, -1] + ns[:, -1] for begin, ns in zip(whole, lasted, strict=True)]
    return ClosedLoopBlock(
        [it[:, 0] for it in whole], ends, until, 0, 1, round=number,
        steps=[it.ravel() for it in lasted], step_starts=[it.ravel() for it in whole],
    )  # fmt: skip


def alone(rounds: int) -> Case:
    steps: list[float] = [PREFILL, *[ALONE] * (COUNT - 1)] * 3
    blocks = [[number, len(steps), 0] for number in range(rounds)]
    made = Case("shared", blocks={"step": blocks})
    made.samples["step"] = steps * rounds
    return made


def loaded(bursts: Sequence[ClosedLoopBlock]) -> Case:
    return case_of(LoadSamples("shared", ("concurrency", len(bursts[0].ends)), [*bursts], generation=MADE))


def test_tokens_of_one_client_are_exact() -> None:
    bursts = [block(number, 1) for number in range(3)]
    case = loaded(bursts)
    ttft, itl = case.stats("time_to_first_token"), case.stats("inter_token_latency")
    assert ttft is not None
    assert itl is not None
    assert (ttft.min, ttft.max) == (PREFILL, PREFILL)
    assert (itl.min, itl.max) == (ALONE, ALONE)
    assert itl.n == (COUNT - 1) * ttft.n
    assert case.value("sequence_tokens_per_s") == 1000
    assert case.value("output_tokens_per_s") == pytest.approx(2 * COUNT * 1e9 / (PREFILL + (COUNT - 1) * ALONE))
    put_slowdown(case, [block_of_steps(it) for it in bursts], alone(3), MADE)
    assert case.stats("inter_token_latency_beside_prefill") is None
    assert case.value("prefill_slowdown") is None


def test_loads_of_sequences_are_compared_by_tokens() -> None:
    one, other = (load_result() for _ in range(2))
    for result, slower in ((one, 1), (other, 3)):
        bursts = [block(number, 1) for number in range(8)]
        bursts = [
            it._replace(steps=[steps * slower * (100 + number) // 100 for steps in it.steps])
            for number, it in enumerate(bursts)
        ]
        case = loaded(bursts)
        case.point = {"concurrency": 1}
        result.cases = [case]
        result.setup["run_id"] = "one"
    found = rows([one, other])
    assert [str(it.key.figure.metric) + it.key.figure.statistic for it in found] == [
        "output_tokens_per_s", "time_to_first_tokenmedian", "inter_token_latencymedian", "inter_token_latencyp95", "latencymedian",
        "latencyp99",
    ]  # fmt: skip
    assert [it["tokens"]["time_to_first_token"] for it in one.cases[0].load_blocks or ()] == [
        {"median": PREFILL * (100 + number) // 100, "p95": PREFILL * (100 + number) // 100} for number in range(8)
    ]
    for it in found[1:4]:
        ratio = it.since_first[1]
        assert ratio is not None
        assert ratio.paired
        assert ratio.low is not None
        assert ratio.high is not None
        assert [ratio.low, ratio.ratio, ratio.high] == pytest.approx([3, 3, 3])


@pytest.mark.parametrize("clients", [2, 3])
def test_what_a_prefill_does_to_the_decoding_of_others_is_exact(clients: int) -> None:
    bursts = [block(number, clients) for number in range(4)]
    case = loaded(bursts)
    beside, every = case.stats("inter_token_latency_beside_prefill"), case.stats("inter_token_latency")
    assert beside is not None
    assert every is not None
    assert (beside.min, beside.max) == (SLOW, SLOW)
    slow = sum(
        int((it.reshape(-1, COUNT)[runs, 1:] == SLOW).sum())
        for burst in bursts
        for it, runs in zip(burst.steps, block_of_steps(burst).counted, strict=True)
    )
    assert 0 < beside.n == slow < every.n
    put_slowdown(case, [block_of_steps(it) for it in bursts], alone(4), MADE)
    found = case.metrics["prefill_slowdown"]
    assert isinstance(found, Value)
    assert found.value == SLOW / ALONE
    assert found.ci95 is not None
    assert [*found.ci95] == pytest.approx([4, 4])
    few = loaded(bursts[:2])
    put_slowdown(few, [block_of_steps(it) for it in bursts[:2]], alone(2), MADE)
    found = few.metrics["prefill_slowdown"]
    assert isinstance(found, Value)
    assert found.ci95 is None
