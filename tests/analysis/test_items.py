"""How many items a run has: what says so, what does not, and which of several gets most of them done."""

from __future__ import annotations

from ortbench.analysis.items import items_of, put_throughput
from ortbench.core.errors import BadInput
from ortbench.facts.comparison import items_facts
from ortbench.model.result import Case, Result
from ortbench.model.schema import Items, Tensor
from tests.expect import refusal
from tests.results import MS, broken, case, measured, steady


def takes(name: str, model_shape: list[int | str | None], shape: list[int] | None) -> Tensor:
    return {"name": name, "type": "tensor(float)", "model_shape": model_shape, "shape": shape, "bytes": None}


def test_which_dimension_is_a_batch() -> None:
    for name in ["batch", "Batch", "BATCH", "batch_size", "BatchSize", "batch-size", "N", "n"]:
        assert items_of([takes("x", [name, 3], [8, 3])], None, []) == {"count": 8, "dim": name}
    for other in ["b", "rows", "sequence", "batches_of", "nodes", "unk__1", "", None, 8]:
        assert items_of([takes("x", [other, 3], [8, 3])], None, []) is None
    assert items_of([takes("x", ["batch", 3], [1, 3])], None, ["batch"]) == {"count": 1, "dim": "batch"}
    assert items_of([takes("x", [3, "batch"], [3, 8])], None, []) == {"count": 8, "dim": "batch"}  # wherever it is
    assert items_of([takes("x", ["n", "batch"], [3, 8])], None, []) == {"count": 8, "dim": "batch"}
    assert items_of([takes("x", ["n", "batch_size"], [3, 8])], None, []) == {"count": 8, "dim": "batch_size"}
    inputs = [takes("x", ["batch", 3], [8, 3]), takes("y", ["Batch", 3], [4, 3])]
    assert items_of(inputs, None, []) is None
    inputs[1]["model_shape"], inputs[1]["shape"] = ["batch", 3], [8, 3]
    assert items_of(inputs, None, []) == {"count": 8, "dim": "batch"}
    assert items_of([takes("x", ["batch", 3], None), takes("s", [], [])], None, []) is None


def test_n_is_a_batch_only_where_batches_stand() -> None:
    state, rate = takes("state", [2, "n", 128], [2, 8, 128]), takes("sr", [], [])
    for inputs in (
        [takes("x", ["n", 512], [8, 512]), state, rate],
        [takes("x", ["n", 3, "h"], [8, 3, 4])],
        [takes("x", ["n", 3], [8, 3]), takes("y", ["n", 4], [8, 4])],
    ):
        assert items_of(inputs, None, []) == {"count": 8, "dim": "n"}
    samples, matrices = [takes("x", ["n"], [16000])], [takes("a", ["n", "k"], [8, 4]), takes("b", ["k", "m"], [4, 2])]
    for inputs in (
        samples,
        matrices,
        [takes("x", [1, "n"], [1, 16000])],
        [takes("x", [None, 3], [2, 3]), takes("h", ["n", 4], [8, 4])],
    ):
        assert items_of(inputs, None, []) is None


def test_what_was_asked_for_counts() -> None:
    inputs = [takes("x", ["batch", "frames"], [8, 30])]
    assert items_of(inputs, 5, []) == {"count": 5, "dim": None}
    assert items_of(inputs, "frames", []) == {"count": 30, "dim": "frames"}
    for inputs, guessed, message in [
        ([takes("x", ["batch", "time"], [8, 3])], [], "the model's inputs have no such dimension; they have batch, time"),
        ([takes("x", [8, 3], [8, 3])], [], "the model's inputs have no such dimension; all of them are fixed, so give a number"),
        ([takes("x", ["frames", 3], [1, 3])], ["frames"], "nobody says how large it is: add --dim frames=N"),
        ([takes("x", ["frames"], [8]), takes("y", ["frames"], [4])], [], "is 4 and 8 in different inputs: give a number"),
    ]:  # fmt: skip
        assert refusal(BadInput, items_of, inputs, "frames", guessed) == f"--items frames: {message}"


def rates(made: Case) -> tuple[float | None, ...]:
    """What a case has of inferences and items."""
    return tuple(map(made.value, ("throughput", "item_throughput", "item_time")))


def test_the_rate_is_by_the_mean_and_the_time_of_each_by_the_median() -> None:
    made = measured("cpu-tensors", latency=steady([MS, MS, 2 * MS, 2 * MS, 2 * MS, 4 * MS]))
    cases: list[tuple[Items | None, tuple[float | None, ...]]] = [
        ({"count": 8, "dim": "batch"}, (500.0, 4000.0, 250_000.0)),
        ({"count": 3, "dim": None}, (500.0, 1500.0, 666_666.667)),
        (None, (500.0, None, None)),
    ]
    for items, found in cases:
        put_throughput(made, items)
        assert rates(made) == found
    for nothing in (broken("cpu-tensors", latency=steady([MS])), case("cpu-tensors", h2d=MS)):
        put_throughput(nothing, {"count": 8, "dim": None})
        assert rates(nothing) == (None, None, None)


def most(
    results: list[Result], names: str | list[str], modes: list[str] | None = None
) -> list[tuple[str, object, object]]:
    return [
        (it.verdict, it.values["configuration"], it.values["ties"])
        for it in items_facts(results, [*names], modes or [])
    ]
