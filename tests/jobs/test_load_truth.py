"""`ortbench load` in virtual time against what is known: an engine's service time, Lindley's recursion, and the mean wait of M/D/1."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from ortbench.facts import Fact
from ortbench.facts.comparison import bests
from ortbench.features.load.analysis import load_cases
from ortbench.features.load.analysis.blocks import OpenLoopBlock
from ortbench.features.load.analysis.queueing import cycle_interval
from ortbench.features.load.plan import pad_stream
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from ortbench.plan.target import Inputs, Shape, Stream
from tests.conftest import MODELS, ortbench
from tests.expect import there
from tests.queues import disagreements, hidden, md1_wait
from tests.refdevice import Config
from tests.truth import relu_model, run_on_device
from tests.virtual import CALL_NS

# In virtual time, with one client: a call of a run and its end, and what the host does from the end of a request to the
# beginning of the next one that waits.
SERVICE_NS, BETWEEN_NS = 2 * CALL_NS, 4 * CALL_NS
CPU_PARTS = 8  # of a load point, of each of which the CPU time is read


class Put(NamedTuple):
    """A load on the reference device, and the folder of its result."""

    result: Result
    folder: Path


def put(library: Path, folder: Path, *arguments: object, **knobs: float) -> Put:
    model = relu_model(folder / "relu.onnx", 4096)
    config = Config(**knobs)  # type: ignore[arg-type]
    line = ("--mode", "device-resident", "--processes", 1, *arguments)
    code, result, _, errors = run_on_device(library, model, config, folder, *line, command="load")
    assert (code, errors) == (0, "")
    (path,) = (folder / "out").glob("*/result.json")
    return Put(result, path.parent)


def test_one_client_has_the_engine_to_itself(library: Path, tmp_path: Path) -> None:
    (case,) = load_cases(put(library, tmp_path, "--concurrency", 1, "--duration", 1, compute_us=4000).result)
    latency = 4_000_000 + SERVICE_NS
    found = there(case.stats("latency"))
    assert {found.min, found.mean, found.median, found.p95, found.p99, found.max} == {latency}
    assert case.value("throughput") == pytest.approx(1e9 / (latency + CALL_NS))


def requests_of(found: Put, number: int) -> OpenLoopBlock:
    with np.load(found.folder / "load-samples.npz") as samples:
        due, start, end = (samples[f"{number}/{it}"] for it in ("due_ns", "start_ns", "end_ns"))
    return OpenLoopBlock(due, np.concatenate([[0], end[:-1]]), start, end, None, 1, cpu_ns=0, wall_ns=1)


def test_every_wait_is_the_one_of_lindleys_recursion(library: Path, tmp_path: Path) -> None:
    """At 30, 50, 70 and 90 % utilisation; a record that hides what was late does not pass."""
    found = put(library, tmp_path, "--rate", "75,125,175,225", "--duration", 2, compute_us=4000)
    for number in range(4):
        record = requests_of(found, number)
        assert set(record.end - record.start) == {4_000_000 + SERVICE_NS}
        # The next one that waits begins at once, and else the clock is read until one is due.
        waiting = record.free + BETWEEN_NS > record.due + CALL_NS
        gaps = (record.start - record.free)[waiting]
        assert set(gaps) <= {BETWEEN_NS, BETWEEN_NS + CALL_NS}
        assert np.count_nonzero(gaps != BETWEEN_NS) <= CPU_PARTS  # where the clock is read for a part's CPU time too
        assert set((record.start - record.due)[~waiting] // CALL_NS) == {1}
        service = record.end - record.start + BETWEEN_NS
        assert disagreements(record, service, record.due) == []
        assert disagreements(hidden(record), service, record.due), "a generator that hides late requests passes"


def test_poisson_arrivals_before_one_engine_wait_as_long_as_theory_says(library: Path, tmp_path: Path) -> None:
    """M/D/1 at 30 and 50 %; what the host needs between two requests only those have that wait."""
    found = put(library, tmp_path, "--rate", "600,1000", "--duration", 12, "--seed", 1, compute_us=480)
    for number in range(2):
        record, service = requests_of(found, number), 480_000 + SERVICE_NS
        rate = (record.due.size - 1) * 1e9 / float(record.due[-1] - record.due[0])
        least, most = (md1_wait(ns, rate * ns / 1e9) for ns in (service, service + BETWEEN_NS))
        low, high = there(cycle_interval(record.waits, record.anew, 0.99))
        assert low <= most
        assert high >= least
        assert high - low <= 0.2 * most


SHAPED = MODELS / "multi_output.onnx"
KNOBS = {"compute_us": 1000.0, "item_us": 500.0, "upload_latency_us": 0.0, "download_latency_us": 0.0, "upload_gbps": 0.0, "download_gbps": 0.0}  # fmt: skip


def mixed(library: Path, folder: Path, order: str, *arguments: object, **knobs: float) -> tuple[Result, Case]:
    config = Config(**{**KNOBS, **knobs})  # type: ignore[arg-type]
    line = ("--dim", "batch=1,4", "--shape-order", order, "--processes", 1, *arguments)
    code, result, _, errors = run_on_device(library, SHAPED, config, folder, *line, command="load")
    assert (code, errors) == (0, "")
    (case,) = load_cases(result)
    return result, case


def p99s(case: Case, key: str) -> list[float]:
    return [there(case.stats(f"{key}.batch={batch}")).p99 for batch in (1, 4)]


def test_a_mix_of_shapes_costs_what_a_change_of_shape_does(library: Path, tmp_path: Path) -> None:
    """1 ms, 0.5 ms an item, and 0.3 ms where the inference before had another shape: always in turns, never apart."""
    result, case = mixed(library, tmp_path, "cycle", "--concurrency", 1, "--duration", 1, switch_us=300)
    assert (result.part["order"], result.part["shapes"]) == ("cycle", ["batch=1", "batch=4"])
    rest = p99s(case, "apart")[0] - 1_500_000  # what the host takes
    assert 0 < rest < 200_000
    assert p99s(case, "apart") == [1_500_000 + rest, 3_000_000 + rest]
    assert p99s(case, "mixed") == [1_800_000 + rest, 3_300_000 + rest]
    for batch, apart in zip((1, 4), p99s(case, "apart"), strict=True):
        assert case.value(f"mixing.batch={batch}") == pytest.approx((apart + 300_000) / apart)
    alone = there(result.case("cpu-tensors")).samples["latency"]
    assert {*alone} == {1_800_000 + rest, 3_300_000 + rest}  # back to back, the mix too
    assert there(case.stats("apart.all")).p99 == 3_000_000 + rest
    assert case.value("mixing.all") == pytest.approx((3_300_000 + rest) / (3_000_000 + rest))


def test_requests_of_a_short_shape_wait_behind_those_of_a_long_one(library: Path, tmp_path: Path) -> None:
    """One every 2.5 ms, of 1.5 ms and 3 ms in turns with one worker: too many of the long shape alone, and 2.25 ms in the mix."""
    _, case = mixed(library, tmp_path, "cycle", "--rate", 400, "--arrivals", "uniform", "--duration", 1)
    rest = p99s(case, "apart")[0] - 1_500_000
    assert 0 < rest < 200_000
    long = 3_000_000 + rest
    waits = long - 2_500_000  # of a request that comes while the one before runs
    assert there(case.stats("mixed.batch=4")).median == pytest.approx(long, abs=50_000)
    assert there(case.stats("mixed.batch=1")).median == pytest.approx(1_500_000 + rest + waits, abs=50_000)
    assert there(case.stats("apart.batch=4")).max > 10 * long  # its queue grows, so that there is no ratio
    assert [case.value(f"mixing.{name}") for name in ("batch=1", "batch=4", "all")] == [None] * 3


# Requests that are padded: 1 ms, and 0.5 ms an item

SIZES = (1, 3, 5, 8)
PADDED = {
    "exact": (1, 3, 5, 8), "multiples:4": (4, 4, 8, 8), "multiples:5": (5, 5, 5, 10),
    "powers-of-two": (1, 4, 8, 8), "largest": (8, 8, 8, 8),
}  # fmt: skip


def padded(library: Path, folder: Path, *arguments: object, **knobs: float) -> tuple[dict[str, Result], str]:
    """The result of each order, in turns, and what the command prints."""
    config = Config(**{**KNOBS, **knobs})  # type: ignore[arg-type]
    orders = ("--shape-order", ",".join(PADDED), "--processes", 1, "--mode", "cpu-tensors")
    line = ("load", SHAPED, "--ep-library", library, "--out", folder, "--dim", "batch=1,3,5,8", *orders, *arguments)
    done = ortbench(*line, **config.environ())
    assert (done.code, done.err) == (0, "")
    results = [load(it) for it in folder.glob("*/*/result.json")]
    return {it.part["order"]: it for it in sorted(results, key=lambda it: [*PADDED].index(it.part["order"]))}, done.out


def best_facts(results: dict[str, Result]) -> list[Fact]:
    return [it.fact for it in bests([*results.values()], [*results])]


def test_each_order_takes_as_long_as_the_sizes_it_pads_to(library: Path, tmp_path: Path) -> None:
    results, _ = padded(library, tmp_path, "--duration", 1)
    counts = {it: [block["n"] for block in there(load_cases(result)[0].load_blocks)] for it, result in results.items()}
    assert len({tuple(it) for it in counts.values()}) == 1  # all have the same, and whole rounds of these
    assert all(n % len(SIZES) == 0 for n in counts["exact"])
    for order, sizes in PADDED.items():
        (case,) = load_cases(results[order])
        host_ns = SERVICE_NS + 3 * CALL_NS
        assert there(case.stats("latency")).mean == host_ns + 1_000_000 + 500_000 * sum(sizes) // len(sizes)
        assert results[order].part["padding"] == pytest.approx(1 - sum(SIZES) / sum(sizes))
        assert results[order].part["shapes"] == [f"batch={it}" for it in dict.fromkeys(sizes)]
        assert case.value("switching_cost") == (None if order == "largest" else pytest.approx(0, abs=1))
    (fact,) = best_facts(results)
    assert (fact.code, fact.verdict, fact.values["configuration"]) == ("best-order", "better", "exact")
    assert fact.values["other"] == "powers-of-two"


def test_the_best_order_weighs_switches_against_padding(library: Path, tmp_path: Path) -> None:
    """Where a change of shape takes 4 ms, fewest sizes are best; each request of the others costs as many as its order has changes."""
    results, printed = padded(library, tmp_path, "--concurrency", 1, "--duration", 1, switch_us=4000)
    best, switching = best_facts(results)
    assert (best.verdict, best.values["configuration"], best.point) == ("better", "largest", {"concurrency": 1})
    assert (switching.key, switching.values["configuration"]) == (("mix-switching", "costs-one"), "exact")
    said = "largest has the lowest mean latency with 1 client: 5.00 ms, with 47% padding"
    assert said in " ".join(printed.split())
    for order, sizes in PADDED.items():
        (case,) = load_cases(results[order])
        shapes, changes, n = dict.fromkeys(sizes), 0, 0
        shapes_of = tuple(Shape(str(it), Inputs(dims={"batch": it})) for it in SIZES)
        stream = pad_stream(Stream(shapes=shapes_of), order, None)
        for block in there(case.load_blocks):
            came = [*islice(stream.numbers(block["round"]), block["n"])]
            changes, n = changes + sum(a != b for a, b in pairwise(came)), n + len(came)
        rounds = len(there(case.load_blocks))  # whose first request may find another shape too
        cost = (case.value("switching_cost") or 0) * n / 4_000_000
        assert len(shapes) == 1 or changes - 0.01 < cost < changes + rounds + 0.01


@pytest.mark.parametrize(
    ("order", "weights", "padding"),
    [
        ("exact", None, 0),
        ("largest", None, 1 - 17 / 32),
        ("largest", (6, 2, 2, 2), 1 - 19 / 48),
        ("multiples:5", None, 1 - 17 / 25),
    ],
)
def test_padding_is_the_share_of_the_elements(order: str, weights: tuple[int, ...] | None, padding: float) -> None:
    shapes = tuple(Shape(str(it), Inputs(dims={"batch": it, "length": 7})) for it in SIZES)
    stream = pad_stream(Stream(shapes=shapes), order, weights)
    assert stream.padding == pytest.approx(padding)
    one, again, other = ([*islice(stream.numbers(seed), 50)] for seed in (1, 1, 2))
    assert one == again
    assert (one == other) is (order == "largest")
    assert {it.inputs.dims["length"] for it in stream.shapes} == {7}  # which is the same in all, and stays


def test_shapes_are_padded_where_they_differ() -> None:
    inputs = [Inputs(shapes={"x": (1, 3, size, 50)}, lengths={"s": size}) for size in (20, 33)]
    stream = pad_stream(Stream(shapes=tuple(Shape(str(it), it) for it in inputs)), "powers-of-two", None)
    assert [(it.name, it.inputs.shapes, it.inputs.lengths) for it in stream.shapes] == [
        ("x=1x3x32x50 s=32", {"x": (1, 3, 32, 50)}, {"s": 32}),
        ("x=1x3x64x50 s=64", {"x": (1, 3, 64, 50)}, {"s": 64}),
    ]
