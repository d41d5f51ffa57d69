"""Live gates of start-up for real: the same model against itself, and one with so much more to optimise that a start takes 10 % longer.

    python -m tests.benchmarks.gate_start quiet 20
    python -m tests.benchmarks.gate_start loaded 20
    python -m tests.benchmarks.gate_start shared 20
    python -m tests.benchmarks.gate_start table > reports/gate/start.md

`ortbench gate --metric start.ready --max-regression 5%`, each a process of its own as in CI, both kinds in turns; a pass takes some 30 s
on a quiet machine. ONNX Runtime folds products of constants when a session is created; how many of them 10 % are is measured
at first. `loaded` adds a load that comes and goes, `shared` is a machine that others use. Every verdict is a line of
``reports/gate/start-quiet.jsonl`` and its like.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.model.result_file import load
from tests.benchmarks.gate_live import write_verdicts
from tests.benchmarks.gate_trace import FOLDER

SIZE, PROBE = 400, 40  # of a matrix, and how many products tell what one takes
WORDS = {0: PASSED, 3: FAILED, 4: UNCLEAR}
NOISES = "quiet", "loaded", "shared"
SAME, SLOWER = "itself", "10 % slower"


def folded(path: Path, products: int) -> Path:
    """A model that adds the product of so many constant matrices, which is folded when a session is created."""
    matrix = np.linalg.qr(np.random.default_rng(0).standard_normal((SIZE, SIZE)))[0].astype(np.float32)
    names = ["w", *(f"p{number}" for number in range(products))]
    nodes = [helper.make_node("MatMul", [before, "w"], [after]) for before, after in pairwise(names)]
    nodes.append(helper.make_node("Add", ["x", names[-1]], ["y"]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [SIZE, SIZE]) for name in "xy"]
    graph = helper.make_graph(nodes, "folded", ends[:1], ends[1:], [numpy_helper.from_array(matrix, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def ready_ns(model: Path, out: Path) -> float:
    """The median time to ready of some starts."""
    line = [sys.executable, "-m", "ortbench", "start", str(model), "--ep", "cpu", "--iterations", "12", "--quiet"]
    subprocess.run([*line, "--out", str(out)], check=True, capture_output=True)
    (file,) = out.glob("*/result.json")
    return float(load(file).cases[0].median("start.ready") or 0)


def models(folder: Path) -> tuple[Path, Path]:
    """The baseline, and one whose starts take 10 % longer."""
    base, probe = folded(folder / "base.onnx", 0), folded(folder / "probe.onnx", PROBE)
    alone, with_products = (ready_ns(it, folder / it.stem) for it in (base, probe))
    products = max(1, round(0.1 * alone / max((with_products - alone) / PROBE, 1.0)))
    print(f"{alone / 1e6:.0f} ms, {with_products / 1e6:.0f} ms with {PROBE} products: {products}", file=sys.stderr)
    return base, folded(folder / "slower.onnx", products)


def gate(base: Path, candidate: Path, out: Path) -> dict[str, Any]:
    """One verdict."""
    sides = ["--model", str(candidate), "--baseline-model", str(base), "--ep", "cpu"]
    line = [*sides, "--metric", "start.ready", "--max-regression", "5%", "--out", str(out), "--json", "-"]
    done = subprocess.run([sys.executable, "-m", "ortbench", "gate", *line], capture_output=True, text=True)
    if done.returncode not in WORDS:
        raise SystemExit(f"exit {done.returncode}: {done.stderr}")
    (check,) = json.loads(done.stdout)["checks"]
    return {"verdict": WORDS[done.returncode], **{key: check[key] for key in ("ratio", "low", "high", "rounds")}}


def measure(noise: str, passes: int) -> None:
    """Carry passes out and write their verdicts."""

    def begin(folder: Path) -> Iterator[dict[str, Any]]:
        base, slower = models(folder)
        return (
            {"kind": kind, **gate(base, candidate, folder / f"{number}-{candidate.stem}")}
            for number in range(passes)
            for kind, candidate in ((SAME, base), (SLOWER, slower))
        )

    write_verdicts("start", noise, begin)


def table() -> None:
    """Print the verdicts of both as a table."""
    print("| noise | candidate | gates | passed | failed | cannot tell | ratio, median | rounds, median |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for noise in NOISES:
        file = FOLDER / f"start-{noise}.jsonl"
        every = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        for kind in (SAME, SLOWER):
            found = [it for it in every if it["kind"] == kind]
            if not found:
                continue
            counts = Counter(it["verdict"] for it in found)
            verdicts = " | ".join(str(counts[verdict]) for verdict in (PASSED, FAILED, UNCLEAR))
            ratio, rounds = (median(it[key] for it in found) for key in ("ratio", "rounds"))
            print(f"| {noise} | {kind} | {len(found)} | {verdicts} | {ratio:.3f} | {rounds:g} |")


if __name__ == "__main__":
    if sys.argv[1] == "table":
        table()
    else:
        measure(sys.argv[1], int(sys.argv[2]))
