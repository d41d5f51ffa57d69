"""Arrays that ONNX Runtime hands on as they are, or copies: what the times say, and what is said of them."""

from __future__ import annotations

import pytest

from ortbench.analysis.derive import derive
from ortbench.analysis.speedups import COPIED, HANDED_ON, UNCLEAR, handing_on
from ortbench.model.result import Result
from tests.expect import there
from tests.results import MS, US, fact, keys, measured, nvidia_result, steady, values

SHARED = {"kind": "ep-device", "default": None, "host_accessible": "Shared (HOST_ACCESSIBLE)"}


def with_times(
    cpu: int, resident: int, copies: int, memory: dict[str, str | None] = SHARED, proved: bool = True
) -> Result:
    """Modes with these medians, ns; the copies are half up and half down."""
    half = steady([copies // 2] * 9)
    shared = measured("host-accessible", latency=steady([resident] * 9))
    shared.checks["zero_copy"] = {"verdict": "passed" if proved else "unclear", "how": "seen"}
    made = nvidia_result(
        measured("cpu-tensors", latency=steady([cpu] * 9)),
        measured("device-tensors", h2d=half, inference=half, d2h=half, latency=half),
        measured("device-resident", latency=steady([resident] * 9)),
        shared,
        memory=memory,
    )
    derive(made)
    return made


def test_verdicts() -> None:
    for cpu, resident, copies, verdict in [
        (10 * MS, 10 * MS, 4 * MS, HANDED_ON),
        (9 * MS, 10 * MS, 4 * MS, HANDED_ON),
        (10_999 * US, 10 * MS, 4 * MS, HANDED_ON),
        (11 * MS, 10 * MS, 4 * MS, UNCLEAR),  # a quarter of the copies
        (12 * MS, 10 * MS, 4 * MS, COPIED),
        (14 * MS, 10 * MS, 4 * MS, COPIED),
        (8 * US, 6 * US, 1 * US, UNCLEAR),  # what a call costs is not a copy
    ]:
        made = with_times(cpu, resident, copies)
        found = there(handing_on(made))
        assert found.verdict == verdict
        assert ("copies" in made.cases[0].metrics) == (verdict == COPIED)
    made = with_times(10 * MS, 10 * MS, 4 * MS)
    assert made.cases[0].stats("latency") is not None
    made.cases[0].samples["latency"] = [7 * MS, 10 * MS, 14 * MS] * 9
    derive(made)
    found = there(handing_on(made))
    assert found.verdict == UNCLEAR
    memory: dict[str, str | None] = {**SHARED, "default": "Own (DEFAULT)"}
    for cpu, resident, shows in ((14 * MS, 10 * MS, True), (10 * MS, 10 * MS, False), (9 * MS, 10 * MS, False)):
        made = with_times(cpu, resident, 4 * MS, memory)
        assert handing_on(made) is None
        assert ("copies" in made.cases[0].metrics) == shows


def test_facts() -> None:
    made = with_times(10 * MS, 10 * MS, 4 * MS)
    assert keys(made)[0] == ("arrays", "in-place", "cpu-tensors")
    assert values(fact(made, "arrays")) == {
        "ep": "SomeExecutionProvider",
        "with": 10 * MS,
        "without": 10 * MS,
        "copies": 4 * MS,
    }
    assert fact(with_times(10 * MS, 10 * MS, 4 * MS, proved=False), "arrays").verdict == "passed"
    unclear = with_times(8 * US, 6 * US, 1 * US)
    assert not {code for code, *_ in keys(unclear)} & {"arrays", "copies"}
    assert values(fact(with_times(14 * MS, 10 * MS, 4 * MS), "copies"))["share"] == pytest.approx(4 / 14)
