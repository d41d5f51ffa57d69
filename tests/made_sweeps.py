"""Made-up sweeps, for tests of what is said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ortbench.analysis.derive import derive
from ortbench.analysis.points import together
from ortbench.analysis.sweep import best_of, switched
from ortbench.plan import Inputs, Plan
from ortbench.result import Case, Result
from ortbench.schema import Switching
from ortbench.slo import Slo
from ortbench.sweep_plan import Shape
from tests.results import US, measured, nvidia_result, steady

MODES = ("cpu", "device-resident")


def shape(batch: int, modes: Sequence[str] = MODES) -> Shape:
    """A batch of so many."""
    return Shape(f"batch={batch}", Plan("m.onnx", inputs=Inputs(dims={"batch": batch}), modes=tuple(modes)))


def of_batch(batch: int, *cases: Case, first_run_ns: int = 1_000 * US) -> Result:
    """The result of a shape, as it is when it has been measured."""
    made = nvidia_result(*cases)
    sizes = [batch, 1000]
    made.model["inputs"] = [
        {"name": "x", "type": "tensor(float)", "model_shape": ["batch", 1000], "shape": sizes, "bytes": batch * 4000}
    ]
    made.model["outputs"] = [
        {"name": "y", "type": "tensor(float)", "model_shape": ["batch", 10], "shape": [batch, 10], "bytes": batch * 40}
    ]
    made.command = ["ortbench", "sweep", "m.onnx", "--dim", "batch=1,2,4"]
    made.items = {"count": batch, "dim": "batch"}
    made.setup["run_id"] = "0" * 32
    made.setup["first_run_ns"] = first_run_ns
    derive(made)
    return made


def case(mode: str, us: int, rounds: int = 40) -> Case:
    """A mode that takes so many µs in each of three runs of every round."""
    made = measured(mode, total=steady([us * US] * rounds))
    made.bytes_in = made.bytes_out = 1000
    made.outputs_match = True
    return made


def turns(mode: str, alone: Mapping[int, int], turned: Mapping[int, int], rounds: int = 6) -> Switching:
    """What switching shapes takes: µs of each shape by its number, one at a time and in turns."""
    found = switched(mode, [*alone], calls=2)
    for point in found["points"]:
        point["samples_ns"]["alone"] = [alone[point["point"]] * US] * 2 * rounds
        point["samples_ns"]["turns"] = [turned[point["point"]] * US] * 2 * rounds
    return found


# µs of a run by batch: a batch of 4 takes as long as one of 2 with cpu, and with device-resident it costs more.
USUAL = {"cpu": {1: 1000, 2: 1200, 4: 1600}, "device-resident": {1: 500, 2: 600, 4: 1500}}


def sweep_result(
    times: Mapping[str, Mapping[int, int]] = USUAL,
    slo: Slo | None = None,
    failed: Mapping[int, str] | None = None,
    switching: Sequence[Switching] | None = None,
    rounds: int = 40,
) -> Result:
    """A sweep over batches.

    Args:
        times: by mode and batch, µs.
        slo: what the best shape has to keep.
        failed: by batch, why a shape did not open.
        switching: else two modes, of which one takes twice as long when shapes change.
        rounds: of blocks.
    """
    batches = list(next(iter(times.values())))
    shapes = [shape(batch, [*times]) for batch in batches]
    results: list[Result | None] = [
        of_batch(batch, *(case(mode, of[batch], rounds) for mode, of in times.items()), first_run_ns=batch * 5_000 * US)
        for batch in batches
    ]
    reasons: list[str | None] = [None] * len(batches)
    for batch, reason in (failed or {}).items():
        results[batches.index(batch)], reasons[batches.index(batch)] = None, reason
    if switching is None:
        there = {number: times["cpu"][batch] for number, batch in enumerate(batches) if batch not in (failed or {})}
        doubled = {number: us * 2 for number, us in there.items()}
        switching = [turns("cpu", there, doubled), turns("device-resident", there, there)]
    return together(shapes, results, reasons, slo, switching)


def without(result: Result, batch: int) -> Result:
    """The same sweep without a shape."""
    points = [point for point in result.points or [] if point.name != f"batch={batch}"]
    return replace(result, points=points, best=best_of(points, None), switching=[])
