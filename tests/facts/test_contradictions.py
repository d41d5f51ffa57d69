"""No fact contradicts the table beside it: its verdict and the row's figure come from the same number and the same interval."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from ortbench.core import units
from ortbench.facts import Fact, Quantity
from ortbench.facts.run import facts_of
from ortbench.facts.sentences import sentence
from ortbench.features.load import report as load
from ortbench.model.result import Result
from ortbench.report import run
from ortbench.report.model import Table, interval_text
from tests.expect import there
from tests.results import case, closed, load_result, nvidia_result, passed, values

MB = 1_000_000
CPU = "cpu-tensors"
MODES = ("device-tensors", "device-resident", "host-accessible", "cpu-tensors-pinned", "device-tensors-pinned")


def rows_of(table: Table) -> list[dict[str, str]]:
    names = [it.name for it in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


# Random results of each kind


def interval(at: random.Random) -> tuple[float, tuple[float, float]]:
    ratio = 2 ** at.gauss(0, 0.6)
    reach = 1 + abs(at.gauss(0, at.choice([0.005, 0.05, 0.4])))
    return ratio, (ratio / reach, ratio * reach)


def run_of(ratios: dict[str, tuple[float, tuple[float, float]]]) -> Result:
    cases = [passed(case(CPU, ratio=(1.0, 1.0, 1.0), latency=MB))]
    for mode, (ratio, ends) in ratios.items():
        cases.append(passed(case(mode, ratio=(ratio, *ends), latency=round(MB / ratio))))
    return nvidia_result(*cases)


def random_run(at: random.Random) -> Result:
    return run_of({mode: interval(at) for mode in MODES})


def random_load(at: random.Random) -> Result:
    points = []
    for mode in (CPU, "device-tensors", "device-resident"):
        for clients in (1, 2, 4):
            rate = at.uniform(50, 400)
            reach = 1 + abs(at.gauss(0, 0.1))
            point = closed(mode, clients, rate, 1000 * clients / rate)
            point.set_metric("throughput", rate, (rate / reach, rate * reach))
            for name in ("all", "batch=1", "batch=4"):
                point.set_metric(f"mixing.{name}", *interval(at))
                for of in ("apart", "mixed"):
                    point.metrics[f"{of}.{name}"] = there(point.stats("latency"))
            points.append(point)
    return load_result(*points, order="cycle", shapes=["batch=1", "batch=4"])


# What a fact claims of which of its values: above 1 for certain, or not, or neither.
CLAIMS: dict[tuple[str, str], tuple[str, str]] = {
    ("replacement", "faster"): ("speedup", "above"), ("replacement", "tied"): ("speedup", "above"),
    ("replacement", "faster-open"): ("speedup", "above"), ("replacement", "none"): ("speedup", "not above"),
    ("replacement", "open"): ("speedup", "open"), ("residency", "faster"): ("speedup", "above"), ("residency", "none"): ("speedup", "not above"),
    ("residency", "faster-on-top"): ("on_top", "above"), ("residency", "open"): ("speedup", "open"),
    ("peak", "more"): ("speedup", "above"), ("mixing", "longer"): ("ratio", "above"), ("mixing", "longer-for-shape"): ("ratio", "above"),
    ("mixing", "none"): ("ratio", "not above"),
}  # fmt: skip


def is_kept(claim: str, low: float, high: float) -> bool:
    """Where a gain, or a cost, is denied, an interval may reach up to 1.11."""
    return {"above": low > 1, "not above": low <= 1.05 and high <= 1.11, "open": high > 1}[claim]


def shown_beside(result: Result, found: Fact, value: Quantity) -> Iterator[tuple[str, str]]:
    """The figure and the interval of the rows that a fact is about, with those of the fact as a table has them."""
    if found.code in ("replacement", "residency") and found.verdict != "faster-on-top":
        for row in rows_of(run.mode_table(result)):
            if row["mode"] == found.mode:
                yield row["speedup"], units.times(value.value, value.ci95)
                yield row["95% CI"], interval_text(value.ci95, units.digits)
    if found.code == "mixing":
        for row in rows_of(load.shape_table(result)):
            where = f"with {row['load point']}"
            if (row["mode"], where, row["shape"]) == (found.mode, found.values["where"], found.values["shape"]):
                yield row["95% CI"], interval_text(value.ci95, units.change)


@pytest.mark.parametrize("make", [random_run, random_load])
def test_facts_say_what_the_rows_beside_them_say(make: Callable[[random.Random], Result]) -> None:
    seen, compared = set(), 0
    for seed in range(40):
        result = make(random.Random(seed))
        for found in (it for it in facts_of(result) if it.key in CLAIMS):
            name, claim = CLAIMS[found.key]
            value = found.values[name]
            assert isinstance(value, Quantity), found
            assert is_kept(claim, *there(value.ci95)), (seed, sentence(found))
            for row, own in shown_beside(result, found, value):
                assert row == own, (seed, sentence(found))
                compared += 1
            seen.add(found.key)
    assert len(seen) >= 2, seen
    assert compared > 20


def test_no_mode_is_called_the_same_or_not_faster_beside_a_row_that_says_otherwise() -> None:
    seen = set()
    for seed in range(400):
        at, ratios = random.Random(seed), {}
        for mode in at.sample(MODES, 2):
            ratio, reach = 2 ** at.gauss(-0.02, 0.05), 1 + abs(at.gauss(0, 0.02))
            ratios[mode] = (ratio, (ratio / reach, ratio * reach))
        lows, highs = zip(*(ends for _, ends in ratios.values()), strict=True)
        for found in facts_of(run_of(ratios)):
            if found.code == "modes":
                seen.add(found.verdict)
                assert values(found)["most"] in (max(highs), 1.0)
                assert max(lows) <= 1.02, (seed, sentence(found))
                most = {"same": 1.021, "little": 1.05}.get(found.verdict, max(highs))
                assert max(highs) <= most, (seed, sentence(found))
                assert found.verdict != "same" or min(lows) >= 1 / 1.021, seed
    assert seen == {"same", "none-faster", "little", "open"}
