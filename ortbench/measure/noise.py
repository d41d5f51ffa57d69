"""How far apart two series are that do the same: what a run on this machine could not see."""

from __future__ import annotations

from pathlib import Path

from ortbench.analysis.comparing.pairs import block_medians, shared
from ortbench.core.errors import OrtbenchError
from ortbench.core.stats import paired_ratio
from ortbench.measure.bench import Bench
from ortbench.measure.folder import temporary_folder
from ortbench.measure.side import Side
from ortbench.model.doctor_schema import Noise
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import OK, Result
from ortbench.plan.plan import Loop, Observer, Plan
from ortbench.plan.target import Target

SECONDS = 2.0  # of each series
_SIDE, _LAYERS = 256, 8  # about a millisecond of matrix products, on as many threads as ONNX Runtime takes


def noise(observer: Observer | None = None, seconds: float = SECONDS, python: str | None = None) -> Noise | None:
    """Measure a small model twice in turns, each in a worker of its own on the CPU EP; None if that was interrupted."""
    try:
        with temporary_folder() as folder:
            model = Path(folder) / "noise.onnx"
            _write_model(model)
            loop = Loop(duration_s=seconds, precision=None)
            plan = Plan(str(model), Target(ep="cpu", python=python), modes=(CPU,), loop=loop)
            bench = Bench([Side(plan, name=name) for name in ("one", "other")], observer)
            results = bench.run()
    except OrtbenchError as error:
        return {"problem": str(error), "seconds": seconds}
    return None if bench.interrupted else apart(results, seconds)


def apart(results: list[Result], seconds: float) -> Noise:
    """What two results of the same say of each other."""
    cases = [case for result in results for case in result.cases]
    failed = next((str(case.reason) for case in cases if case.status != OK), None)
    if failed is not None or len(cases) < 2:
        return {"problem": failed or "one of the two did not open", "seconds": seconds}
    one, other = shared(*(block_medians(case, LATENCY) for case in cases))
    found = paired_ratio(one, other)
    return {
        "problem": None,
        "seconds": seconds,
        "pairs": len(one),
        "median_ns": round(sorted(one)[len(one) // 2]),
        "ratio": found.ratio,
        "ci95": found.ci95,
    }


def _write_model(path: Path) -> None:
    """A chain of matrix products; each scales what it is given by about 1, so that numbers stay as they are."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = (np.random.default_rng(0).standard_normal((_SIDE, _SIDE)) / _SIDE**0.5).astype(np.float32)
    nodes = [helper.make_node("MatMul", [f"t{n}", "w"], [f"t{n + 1}"]) for n in range(_LAYERS)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [_SIDE, _SIDE]) for name in ("t0", f"t{_LAYERS}")]
    graph = helper.make_graph(nodes, "noise", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
