"""No fact contradicts the table beside it: its verdict and the row's figure come from the same number and the same interval."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from ortbench.core import units
from ortbench.core.stats import Value
from ortbench.facts.fact import Fact, Quantity
from ortbench.facts.findings import facts_of
from ortbench.facts.sentences import sentence
from ortbench.features.load import report as load
from ortbench.features.soak.analysis import put_figures as put_growth
from ortbench.features.soak.model import SoakReading
from ortbench.model.result import Case, Result
from ortbench.report import comparison, run
from ortbench.report.brief import brief
from ortbench.report.model import Table, interval_text
from ortbench.report.run import screen
from tests.expect import there
from tests.report.test_terminal import shown
from tests.results import (
    case,
    closed,
    fact,
    load_result,
    nvidia_result,
    opened,
    passed,
    soak_result,
    sweep_result,
    values,
)

MB = 1_000_000
SEEDS = range(60)
CPU = "cpu-tensors"
MODES = ("device-tensors", "device-resident", "host-accessible", "cpu-tensors-pinned", "device-tensors-pinned")


def all_texts(result: Result) -> str:
    """What a screen and the whole report say, in a line."""
    lines = (*shown(screen, result, None, width=80), *shown(run.build, result, None, width=200))
    return " ".join(" ".join(lines).split())


def rows_of(table: Table) -> list[dict[str, str]]:
    names = [it.name for it in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


# The two that were found


def reading(inferences: int, held: int) -> SoakReading:
    return {
        "inferences": inferences, "at_ns": inferences * MB, "resident": 2 * held, "private": held, "device": None, "handles": 9,
        "threads": 4, "median_ns": MB,
    }  # fmt: skip


def soak_of(points: list[tuple[int, int]]) -> Result:
    """A soak with these readings: inferences, and private memory after them."""
    made = soak_result([held for _, held in points])
    made.part["readings"] = [reading(*it) for it in points]
    put_growth(made.cases[0], made.part)
    return made


def test_a_soak_whose_growth_came_in_all_inferences_but_the_last_14_is_not_said_to_have_none() -> None:
    """70.6 kB more per 1,000 inferences, which goes up and down by ten times as much."""
    ups_and_downs = random.Random(3)
    counts = [round(18_302 * number / 100) for number in range(1, 101)]
    points = [(count, 60 * MB + round(70.6 * count) + ups_and_downs.randrange(13 * MB)) for count in counts]
    points = [(counts[0], 60 * MB), *points[1:-4], *((count, 60 * MB + 14_300_000) for count in (*counts[-4:], 18_316))]
    made = soak_of(points)
    found = fact(made, "growth")
    assert found.verdict not in ("none", "steady", "grows")
    assert (values(found)["start"], values(found)["end"]) == (60 * MB, 60 * MB + 14_300_000)
    text = all_texts(made).lower()
    assert "cannot tell yet whether private memory grows" in text
    assert not any(it in text for it in ("no growth", "next to none", "steady"))
    beside = brief(
        comparison.build([soak_of([(at, 70 * MB) for at, _ in points]), made], ["default", "no-arena"], 0.02, False)
    )
    assert "grows by" not in " ".join(shown(lambda: beside, width=80))


def test_a_load_whose_mix_makes_one_shape_slow_is_not_said_to_cost_nothing() -> None:
    point = opened(CPU, 30, 2.0)
    shapes = {"all": (0.745, (0.718, 0.772)), "batch=1": (2.62, (1.95, 3.52)), "batch=4": (0.9, (0.8, 1.0))}
    for name, (ratio, ends) in shapes.items():
        point.set_metric(f"mixing.{name}", ratio, ends)
        if name != "all":
            point.metrics[f"mixed.{name}"] = point.metrics[f"apart.{name}"] = there(point.stats("latency"))
    point.metrics["apart.all"] = there(point.stats("latency"))
    made = load_result(point, order="cycle", shapes=["batch=1", "batch=4"])
    assert fact(made, "mixing").verdict == "longer-for-shape"
    text = all_texts(made)
    assert "Mixed shapes make the p99 of cpu-tensors with batch=1 2.62× (1.95–3.52) as long" in text
    assert "do not make the p99 longer" not in text
    (row,) = [it for it in rows_of(load.shape_table(made)) if it["shape"] == "batch=1"]
    assert (row["p99 ratio"], row["95% CI"]) == ("2.62", "1.95–3.52")


# Of random results of each kind


def interval(at: random.Random, around: float = 1.0) -> tuple[float, tuple[float, float]]:
    ratio = around * 2 ** at.gauss(0, 0.6)
    reach = 1 + abs(at.gauss(0, at.choice([0.005, 0.05, 0.4])))
    return ratio, (ratio / reach, ratio * reach)


def random_run(at: random.Random) -> Result:
    cases = [passed(case(CPU, ratio=(1.0, 1.0, 1.0), latency=MB))]
    for mode in MODES:
        ratio, ends = interval(at)
        cases.append(passed(case(mode, ratio=(ratio, *ends), latency=round(MB / ratio))))
    return nvidia_result(*cases)


def random_load(at: random.Random) -> Result:
    points = []
    for mode in (CPU, "device-tensors", "device-resident"):
        for clients in (1, 2, 4):
            rate = at.uniform(50, 400)
            reach = 1 + abs(at.gauss(0, 0.1))
            point = closed(mode, clients, rate, 1000 * clients / rate)
            point.set_metric("throughput", rate, (rate / reach, rate * reach))
            for name in ("all", "batch=1", "batch=4"):
                ratio, ends = interval(at)
                point.set_metric(f"mixing.{name}", ratio, ends)
                latency = there(point.stats("latency"))
                point.metrics[f"apart.{name}"] = latency
                if name != "all":
                    point.metrics[f"mixed.{name}"] = latency
            points.append(point)
    return load_result(*points, order="cycle", shapes=["batch=1", "batch=4"])


def random_sweep(at: random.Random) -> Result:
    times = {mode: {batch: at.randrange(500, 3000) for batch in (1, 2, 4)} for mode in (CPU, "device-resident")}
    made = sweep_result(times)
    for it in made.own["switching"] or []:
        ratio, ends = interval(at)
        it["ratio"], it["ci95"] = ratio, list(ends)
    return made


def random_soak(at: random.Random) -> Result:
    slope, wobble, step = at.choice([0, 0, 20, 200, 5000]), at.choice([0, 100_000, 3 * MB]), at.choice([0, 0, 20 * MB])
    end = at.choice([300, 3000])
    points = [
        (100 * number, 60 * MB + slope * min(100 * number, 100 * end) + at.randrange(wobble + 1) + step * (number > 90))
        for number in range(1, 101)
    ]
    return soak_of(points)


# What a fact claims of which of its values: above or below 1 (of growth: 0) for certain, or neither.
CLAIMS: dict[tuple[str, str], tuple[str, str]] = {
    ("replacement", "faster"): ("speedup", "above"), ("replacement", "tied"): ("speedup", "above"),
    ("replacement", "faster-open"): ("speedup", "above"), ("replacement", "none"): ("speedup", "not above"),
    ("replacement", "open"): ("speedup", "open"), ("residency", "faster"): ("speedup", "above"), ("residency", "none"): ("speedup", "not above"),
    ("residency", "faster-on-top"): ("on_top", "above"), ("residency", "open"): ("speedup", "open"),
    ("peak", "more"): ("speedup", "above"), 
    ("mixing", "longer"): ("ratio", "above"), ("mixing", "longer-for-shape"): ("ratio", "above"), ("mixing", "none"): ("ratio", "not above"),
    ("mixing", "open"): ("ratio", "any"), ("switching", "costs"): ("ratio", "above"), ("switching", "dear"): ("ratio", "above"),
}  # fmt: skip
MOST = 1.11  # up to which an interval may reach where a gain, or a cost, is denied


def holds(claim: str, ends: tuple[float, float]) -> bool:
    low, high = ends
    return {
        "above": low > 1,
        "not above": low <= 1.05 and high <= MOST,
        "open": high > 1,
        "any": True,
    }[claim]


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
    if found.code == "switching":
        assert result.own["switching"] is not None
        (of,) = [it for it in result.own["switching"] if it["mode"] == found.mode]
        yield str(of["ratio"]), str(value.value)


KINDS: dict[str, Callable[[random.Random], Result]] = {"run": random_run, "load": random_load, "sweep": random_sweep}


@pytest.mark.parametrize("kind", KINDS)
def test_facts_say_what_the_rows_beside_them_say(kind: str) -> None:
    seen, compared = set(), 0
    for seed in SEEDS:
        result = KINDS[kind](random.Random(seed))
        for found in facts_of(result):
            if found.key not in CLAIMS:
                continue
            name, claim = CLAIMS[found.key]
            value = found.values[name]
            assert isinstance(value, Quantity), found
            assert value.ci95 is not None, found
            assert holds(claim, value.ci95), (seed, sentence(found))
            for row, own in shown_beside(result, found, value):
                assert row == own, (seed, sentence(found))
                compared += 1
            seen.add(found.key)
    assert len(seen) >= 2, seen
    assert compared > len(SEEDS) / 2


def test_no_mode_is_called_the_same_or_not_faster_beside_a_row_that_says_otherwise() -> None:
    seen = set()
    for seed in range(400):
        at = random.Random(seed)
        cases = [passed(case(CPU, ratio=(1.0, 1.0, 1.0), latency=MB))]
        for mode in at.sample(MODES, 2):
            ratio = 2 ** at.gauss(-0.02, 0.05)
            reach = 1 + abs(at.gauss(0, 0.02))
            cases.append(passed(case(mode, ratio=(ratio, ratio / reach, ratio * reach), latency=round(MB / ratio))))
        result = nvidia_result(*cases)
        intervals = [there(there(it.speedup).ci95) for it in cases[1:]]
        for found in facts_of(result):
            if found.code == "modes":
                seen.add(found.verdict)
                most = values(found)["most"]
                assert most == max(1.0, *(high for _, high in intervals)) or most == max(high for _, high in intervals)
                assert not any(low > 1.02 for low, _ in intervals), (seed, sentence(found))
                if found.verdict == "same":
                    assert all(low >= 1 / 1.021 and high <= 1.021 for low, high in intervals), seed
                if found.verdict == "little":
                    assert all(high <= 1.05 for _, high in intervals), seed
    assert seen == {"same", "none-faster", "little", "open"}


def test_growth_is_said_of_soaks_whose_row_has_it_and_of_no_others() -> None:
    seen = set()
    for seed in SEEDS:
        result = random_soak(random.Random(seed))
        found = fact(result, "growth")
        seen.add(found.verdict)
        (row,) = rows_of(run.mode_table(result))
        each = found.values["each"]
        assert isinstance(each, Quantity)
        kept: Case = result.cases[0]
        stored = kept.metrics["host_growth"]
        assert isinstance(stored, Value)
        assert (stored.value, stored.ci95) == (each.value, each.ci95)
        assert ("host growth" in row) == (found.verdict == "grows")
        ends = there(each.ci95)
        if found.verdict == "grows":
            assert ends[0] > 0
            assert row["host growth"] == f"{units.size(each.value)}/1,000 inf"
        if found.verdict == "none":
            assert values(found)["end"] - values(found)["start"] < max(512 * 1024, ends[1] * 10)
        assert (row["private memory at start"], row["at end"]) == tuple(
            units.size(values(found)[it]) for it in ("start", "end")
        )
    assert {"none", "grows"} < seen
