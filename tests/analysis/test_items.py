"""How many items a run has: what says so, what does not, and the rates that follow."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.analysis.items import items_of, put_throughput
from ortbench.core.errors import BadInput
from tests.expect import refusal
from tests.results import MS, broken, case, measured, steady


def takes(name: str, model_shape: list[Any], shape: list[int] | None) -> Any:
    return {"name": name, "type": "tensor(float)", "model_shape": model_shape, "shape": shape, "bytes": None}


def test_which_dimension_is_a_batch_by_its_name() -> None:
    for name in ("batch", "Batch", "BATCH", "batch_size", "BatchSize", "batch-size", "N", "n"):
        assert items_of([takes("x", [name, 3], [8, 3])], None, []) == {"count": 8, "dim": name}
    for other in ("b", "rows", "sequence", "batches_of", "nodes", "unk__1", "", None, 8):
        assert items_of([takes("x", [other, 3], [8, 3])], None, []) is None


@pytest.mark.parametrize(
    ("inputs", "dim"),
    [
        ([takes("x", [3, "batch"], [3, 8])], "batch"),  # wherever it is
        ([takes("x", ["n", "batch"], [3, 8])], "batch"),
        ([takes("x", ["n", "batch_size"], [3, 8])], "batch_size"),
        ([takes("x", ["batch", 3], [8, 3]), takes("y", ["batch", 3], [8, 3])], "batch"),
        ([takes("x", ["batch", 3], [8, 3]), takes("y", ["Batch", 3], [4, 3])], None),
        ([takes("x", ["batch", 3], None), takes("s", [], [])], None),
        # n only where batches stand.
        ([takes("x", ["n", 512], [8, 512]), takes("state", [2, "n", 128], [2, 8, 128]), takes("sr", [], [])], "n"),
        ([takes("x", ["n", 3, "h"], [8, 3, 4])], "n"),
        ([takes("x", ["n", 3], [8, 3]), takes("y", ["n", 4], [8, 4])], "n"),
        ([takes("x", ["n"], [16000])], None),
        ([takes("x", [1, "n"], [1, 16000])], None),
        ([takes("a", ["n", "k"], [8, 4]), takes("b", ["k", "m"], [4, 2])], None),
        ([takes("x", [None, 3], [2, 3]), takes("h", ["n", 4], [8, 4])], None),
    ],
)
def test_which_dimension_is_a_batch_by_where_it_stands(inputs: list[Any], dim: str | None) -> None:
    assert items_of(inputs, None, []) == (dim and {"count": 8, "dim": dim})


def test_what_was_asked_for_counts() -> None:
    inputs = [takes("x", ["batch", "frames"], [8, 30])]
    assert items_of(inputs, 5, []) == {"count": 5, "dim": None}
    assert items_of(inputs, "frames", []) == {"count": 30, "dim": "frames"}
    assert items_of([takes("x", ["batch", 3], [1, 3])], None, ["batch"]) == {"count": 1, "dim": "batch"}
    for inputs, guessed, message in [
        ([takes("x", ["batch", "time"], [8, 3])], [], "the model's inputs have no such dimension; they have batch, time"),
        ([takes("x", [8, 3], [8, 3])], [], "the model's inputs have no such dimension; all of them are fixed, so give a number"),
        ([takes("x", ["frames", 3], [1, 3])], ["frames"], "nobody says how large it is: add --dim frames=N"),
        ([takes("x", ["frames"], [8]), takes("y", ["frames"], [4])], [], "is 4 and 8 in different inputs: give a number"),
    ]:  # fmt: skip
        assert refusal(BadInput, items_of, inputs, "frames", guessed) == f"--items frames: {message}"


def test_the_rate_is_by_the_mean_and_the_time_of_each_by_the_median() -> None:
    made = measured("cpu-tensors", latency=steady([MS, MS, 2 * MS, 2 * MS, 2 * MS, 4 * MS]))
    failed, without = broken("cpu-tensors", latency=steady([MS])), case("cpu-tensors", h2d=MS)
    for of, count, rates in (
        (made, 8, (500.0, 4000.0, 250_000.0)),
        (made, 3, (500.0, 1500.0, 666_666.667)),
        (made, None, (500.0, None, None)),
        (failed, 8, (None, None, None)),
        (without, 8, (None, None, None)),
    ):
        put_throughput(of, None if count is None else {"count": count, "dim": None})
        assert tuple(map(of.value, ("throughput", "item_throughput", "item_time"))) == rates
