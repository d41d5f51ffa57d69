"""`ortbench suite --ray` on a cluster of three machines in one: the files of a plain run, Ctrl-C, a machine that is lost."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.conftest import MODELS, ROOT, command, lacking, ortbench
from tests.jobs.test_stopping import assert_whole
from tests.ray_cluster import RayCluster, ray_cluster

pytestmark = pytest.mark.wide

MARK = "ORTBENCH_TESTS_MARK"  # in the environment of a machine or a command, and of all that it starts
MACHINES = [
    {"name": name, "resources": resources, "gpus": gpus, "environ": {MARK: f"machine-{name}"}}
    for name, resources, gpus in (
        ("hopper", {"H100": 1, "spare": 1}, 0),
        ("ampere", {"A100": 1}, 1),
        ("frail", {"spare": 1, "last": 1}, 0),
    )
]
SUITE = """
[defaults]
iterations = 2
warmup = 1
ep = "cpu"
mode = ["cpu-tensors", "device-resident"]

[[bench]]
model = "models/tiny.onnx"
input = "models/{model}.inputs.npz"
expect = "models/{model}.expected.npz"
ep = [{name = "h100", ep = "cpu", resources = {H100 = 1}}, {name = "a100", ep = "cpu", resources = {A100 = 1}, num-gpus = 1}]

[[bench]]
model = "outside.onnx"

[[bench]]
chain = "chain.toml"

[[bench]]
model = "models/fp16.onnx"
mode = "cpu-tensors"
gate = {max-cpu-nodes = 99}

[[override]]
where = {model = "fp16"}
skip = "not today"
"""
CHAIN = """
[[stage]]
name = "only"
model = "models/tiny.onnx"
ep = "cpu"
"""
NOT_THERE = '\n[[bench]]\nmodel = "models/tiny.onnx"\nep = {name = "b300", ep = "cpu", resources = {B300 = 1}}\n'


def needed() -> None:
    if importlib.util.find_spec("ray") is None:
        lacking("the package ray is not installed")
    if sys.platform != "linux":
        lacking("a cluster of Ray in one machine is for Linux")


def written(folder: Path, text: str) -> Path:
    """A folder with a suite and what it names, among it a model whose weights are in another file."""
    folder.mkdir()
    (folder / "models").symlink_to(MODELS)
    model = onnx.load(MODELS / "multi_output.onnx")
    onnx.save(model, folder / "outside.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    (folder / "chain.toml").write_text(CHAIN)
    (folder / "bench.toml").write_text(text)
    return folder


def shape_of(data: Any) -> Any:
    """What keys JSON has, at every depth; of a list what its items have."""
    if isinstance(data, dict):
        return {key: shape_of(value) for key, value in data.items()}
    return [shape_of(item) for item in data[:1]] if isinstance(data, list) else None


def files_of(out: Path) -> dict[str, Any]:
    """The files of a suite's folder, and of those in JSON their keys."""
    return {
        str(path.relative_to(out)): shape_of(json.loads(path.read_text())) if path.suffix == ".json" else None
        for path in out.rglob("*")
        if path.is_file()
    }


def results_of(out: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in out.glob("*/result.json")}


def test_a_suite_is_spread_over_the_machines_of_a_cluster(tmp_path: Path) -> None:
    needed()
    with ray_cluster(MACHINES) as cluster:
        leaves_what_a_plain_run_does(cluster, tmp_path / "plain")
        outlives_a_machine_and_keeps_what_is_done(cluster, tmp_path / "lost")
        wait_for(lambda: not marked("machine-frail"))


def leaves_what_a_plain_run_does(cluster: RayCluster, folder: Path) -> None:
    written(folder, SUITE + NOT_THERE)
    (line,) = re.findall(r"^ortbench suite .*--ray auto$", (ROOT / "docs" / "suites.md").read_text(), re.MULTILINE)
    arguments = (*line.split()[1:], "--out", "spread")
    ran = ortbench(*arguments, cwd=folder, RAY_ADDRESS=cluster.address, RAY_TMPDIR=str(cluster.tmpdir))
    assert ran.code == 1, ran.err
    told = ran.err.splitlines()
    assert all(re.match(r"\[\d/6\] ", it) for it in told), ran.err  # nothing of Ray's
    assert any("tiny--b300's benchmark failed: no machine of the cluster has 1 B300" in it for it in told)
    summary = (folder / "spread" / "summary.md").read_text()
    assert "| vs slowest GPU |" in summary
    rows = csv.DictReader((folder / "spread" / "summary.csv").read_text().splitlines())
    assert {it["id"]: it["node"] for it in rows}["tiny--h100"] == "hopper"
    # What is done is not run again, here either; where a case was to have a card it has to have had it.
    ran = ortbench("suite", "bench.toml", "--only", "outside*", "--out", "spread", cwd=folder)
    assert (ran.code, ran.err.count("done before")) == (0, 1), ran.err
    (folder / "bench.toml").write_text(SUITE)
    plain = ortbench("suite", "bench.toml", "--out", "plain", cwd=folder)
    assert plain.code == 0, plain.err

    there, here = files_of(folder / "spread"), files_of(folder / "plain")
    lost = {name: it for name, it in there.items() if name.startswith("tiny--b300")}
    assert sorted(lost) == ["tiny--b300/case.json"]
    for name, keys in here.items():
        found = there[name]
        if name.endswith("/result.json"):
            assert set(found["environment"].pop("node")) == {"name", "address", "card", "driver", "resources"}
            for key in ("warnings", "findings"):  # there may be some, of noise
                del found[key], keys[key]
        if name.endswith("/case.json"):
            del found["node"], keys["node"]
        assert found == keys, name
    assert there.keys() - lost.keys() == here.keys()

    results = results_of(folder / "spread")
    nodes = {name: result["environment"]["node"] for name, result in results.items()}
    assert (nodes["tiny--h100"]["name"], nodes["tiny--h100"]["resources"]) == ("hopper", {"H100": 1})
    assert (nodes["tiny--a100"]["name"], nodes["tiny--a100"]["resources"]) == ("ampere", {"A100": 1})
    assert {it["name"] for it in nodes.values()} <= {"hopper", "ampere", "frail"}
    for name, result in results_of(folder / "plain").items():
        same = results[name]
        assert same["model"] == result["model"]  # by its path on the command's machine
        assert same["target"]["ep"] == result["target"]["ep"]
        assert [case["checks"]["outputs"]["verdict"] for case in same["cases"]] == [
            case["checks"]["outputs"]["verdict"] for case in result["cases"]
        ]


class Suite:
    """A suite on a cluster, while it runs."""

    def __init__(self, cluster: RayCluster, folder: Path, text: str) -> None:
        written(folder, text)
        self.out, self._said = folder / "out", folder / "said"
        line = command("suite", "bench.toml", "--ray", cluster.address, "--out", "out")
        environment = {**os.environ, MARK: f"command-{folder.name}"}
        with self._said.open("w") as said:
            self.process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=said)

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_for(self, condition: Callable[[], object]) -> None:
        def is_so() -> object:
            assert self.process.poll() is None, self.said
            return condition()

        wait_for(is_so)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def marked(mark: str) -> list[bytes]:
    """The command lines of the processes that have a mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes())
    return found


def measured_on(machine: str) -> bool:
    """Whether a worker of ortbench is there."""
    return any(b"worker/__main__.py" in line for line in marked(f"machine-{machine}"))


def outlives_a_machine_and_keeps_what_is_done(cluster: RayCluster, folder: Path) -> None:
    text = """
        [defaults]
        mode = "cpu-tensors"
        precision = 0
        [[bench]]
        model = "models/tiny.onnx"
        ep = [{name = "one", ep = "cpu", resources = {spare = 1}}, {name = "two", ep = "cpu", resources = {spare = 1}}]
        duration = 4
        [[bench]]
        model = "models/tiny.onnx"
        ep = [{name = "last", ep = "cpu", resources = {last = 1}}, {name = "long", ep = "cpu", resources = {A100 = 1}}]
        duration = 600
    """
    suite = Suite(cluster, folder, text)
    suite.wait_for(lambda: measured_on("frail"))
    cluster.kill("frail")
    suite.wait_for(lambda: "[3/4]" in suite.said and measured_on("ampere"))
    suite.process.send_signal(signal.SIGINT)
    assert suite.process.wait(600) == 130
    *told, last = suite.said.splitlines()
    assert last == "ortbench: interrupted after 3 of 4 cases; the same command goes on"
    assert sum("tiny--last's benchmark failed: no machine of the cluster has 1 last" in line for line in told) == 1
    measured = r"\[\d/4\] tiny--(one|two): measured, on hopper, took "
    assert sum(re.match(measured, line) is not None for line in told) == 2
    assert len(told) == 3  # nothing of Ray's
    assert set(results_of(suite.out)) == {"tiny--one", "tiny--two"}
    assert (suite.out / "summary.md").exists()
    assert_whole(suite.out)
    wait_for(lambda: not marked(f"command-{folder.name}"))
    wait_for(lambda: not measured_on("ampere"))


def test_a_cluster_that_is_not_there_is_said_in_a_line(tmp_path: Path) -> None:
    needed()
    written(tmp_path / "suite", SUITE)
    ran = ortbench("suite", "bench.toml", "--ray", "127.0.0.1:9", cwd=tmp_path / "suite")
    assert ran.code == 2
    assert ran.error_line.startswith("--ray 127.0.0.1:9: cannot be reached: ")
