"""`git bisect run ortbench gate --for-bisect` over commits of a model, one of which makes it 10 % slower: how often that one is found.

python -m tests.benchmarks.bad_commit [TRIALS] [COMMITS]
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS = 20  # of a good commit; a bad one has two more


def save_model(path: Path, layers: int, number: int) -> None:
    """A chain of MatMul nodes, whose weights are those of a commit."""
    weight = np.random.default_rng(number).standard_normal((256, 256)).astype(np.float32) * 0.05
    names = ["x", *(f"y{it}" for it in range(1, layers)), "y"]
    nodes = [helper.make_node("MatMul", [names[it], "w"], [names[it + 1]]) for it in range(layers)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 256]) for name in "xy"]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def find_commit(folder: Path, commits: int, bad: int) -> int:
    """The number of the commit that the search names."""

    def git(*words: str) -> str:
        line = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", *words]
        return subprocess.run(line, cwd=folder, check=True, capture_output=True, text=True).stdout

    repository_model, good = folder / "model.onnx", folder.with_name("good.onnx")
    git("init", "-q")
    for number in range(commits):
        save_model(repository_model, LAYERS + 2 * (number >= bad), number)
        git("add", "model.onnx")
        git("commit", "-qm", str(number))
    save_model(good, LAYERS, 0)
    git("bisect", "start", "HEAD", git("rev-list", "--max-parents=0", "HEAD").strip())
    gate = ["ortbench", "gate", "--model", "model.onnx", "--baseline-model", str(good), "--mode", "cpu-tensors"]
    said = git("bisect", "run", *gate, "--no-why", "--for-bisect", "--out", str(folder.with_name("out")))
    found = re.search(r"^(\w+) is the first bad commit", said, re.MULTILINE)
    return int(git("log", "-1", "--format=%s", found[1])) if found else -1


def main() -> None:
    trials, commits = (int(it) for it in (sys.argv[1:] + ["10", "32"][len(sys.argv) - 1 :]))
    generator, right = random.Random(1), 0
    for trial in range(trials):
        bad, begun = generator.randrange(1, commits), time.monotonic()
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root) / "repository"
            folder.mkdir()
            found = find_commit(folder, commits, bad)
        right += found == bad
        print(f"{trial + 1}: planted in {bad}, found {found}, {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{right} of {trials} right")


if __name__ == "__main__":
    main()
