"""`ortbench suite --ray` on a cluster of two machines in one: its files, and Ctrl-C."""

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

import onnx
import pytest

from tests.conftest import MODELS, ROOT, command, lacking, ortbench
from tests.jobs.test_stopping import assert_whole
from tests.ray_cluster import RayCluster, ray_cluster

pytestmark = pytest.mark.wide

MARK = "ORTBENCH_TESTS_MARK"  # in the environment of a machine or a command, and of all that it starts
RESOURCES = {"hopper": {"H100": 1}, "ampere": {"A100": 1}}
MACHINES = [
    {"name": name, "resources": resources, "gpus": int(name == "ampere"), "environ": {MARK: f"machine-{name}"}}
    for name, resources in RESOURCES.items()
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
"""
CHAIN = '[[stage]]\nname = "only"\nmodel = "models/tiny.onnx"\nep = "cpu"\n'
NOT_THERE = '\n[[bench]]\nmodel = "models/tiny.onnx"\nep = {name = "b300", ep = "cpu", resources = {B300 = 1}}\n'


@pytest.fixture
def ray() -> None:
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


@pytest.mark.usefixtures("ray")
def test_a_suite_is_spread_over_the_machines_of_a_cluster(tmp_path: Path) -> None:
    with ray_cluster(MACHINES) as cluster:
        check_every_case(cluster, tmp_path / "plain")
        check_an_interruption(cluster, tmp_path / "interrupted")


def check_every_case(cluster: RayCluster, folder: Path) -> None:
    written(folder, SUITE + NOT_THERE)
    (line,) = re.findall(r"^ortbench suite .*--ray auto$", (ROOT / "docs" / "suites.md").read_text(), re.MULTILINE)
    arguments = (*line.split()[1:], "--out", "spread")
    ran = ortbench(*arguments, cwd=folder, RAY_ADDRESS=cluster.address, RAY_TMPDIR=str(cluster.tmpdir))
    assert ran.code == 1, ran.err
    lines = ran.err.splitlines()
    assert all(re.match(r"\[\d/5\] ", it) for it in lines), ran.err  # nothing of Ray's
    assert any("tiny--b300's benchmark failed: no machine of the cluster has 1 B300" in it for it in lines)
    assert "| vs slowest GPU |" in (folder / "spread" / "summary.md").read_text()
    rows = csv.DictReader((folder / "spread" / "summary.csv").read_text().splitlines())
    assert {it["id"]: it["node"] for it in rows}["tiny--h100"] == "hopper"
    # What is done is not run again, here either; where a case was to have a card it has to have had it.
    ran = ortbench("suite", "bench.toml", "--only", "outside*", "--out", "spread", cwd=folder)
    assert (ran.code, ran.err.count("done before")) == (0, 1), ran.err
    results = {path.parent.name: json.loads(path.read_text()) for path in (folder / "spread").glob("*/result.json")}
    assert results.keys() == {"tiny--h100", "tiny--a100", "outside--cpu", "chain"}
    for name, result in results.items():
        files = {path.name for path in (folder / "spread" / name).iterdir()}
        assert {"case.json", "result.json", "table.csv", "table.md"} <= files
        assert (folder / result["model"]["path"]).exists()  # by its path on the command's machine
        assert [it["checks"]["outputs"]["verdict"] for it in result["cases"]] == ["passed"] * 2
    assert [it.name for it in (folder / "spread" / "tiny--b300").iterdir()] == ["case.json"]
    nodes = {name: result["environment"]["node"] for name, result in results.items()}
    assert {*nodes["tiny--h100"]} == {"name", "address", "card", "driver", "resources"}
    for name, machine, resource in (("tiny--h100", "hopper", "H100"), ("tiny--a100", "ampere", "A100")):
        assert (nodes[name]["name"], nodes[name]["resources"]) == (machine, {resource: 1})
    assert {it["name"] for it in nodes.values()} <= {*RESOURCES}


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


def is_measured_on(machine: str) -> bool:
    return any(b"worker/__main__.py" in line for line in marked(f"machine-{machine}"))


def check_an_interruption(cluster: RayCluster, folder: Path) -> None:
    text = """
        [[bench]]
        model = "models/tiny.onnx"
        mode = "cpu-tensors"
        precision = 0
        ep = [{name = "short", ep = "cpu", duration = 1, resources = {H100 = 1}}, {name = "long", ep = "cpu", duration = 600, resources = {A100 = 1}}]
    """
    written(folder, text)
    line = command("suite", "bench.toml", "--ray", cluster.address, "--out", "out")
    with (folder / "errors").open("w") as file:
        environment = {**os.environ, MARK: "command"}
        process = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=file)
    wait_for(lambda: is_measured_on("ampere") and "[1/2]" in (folder / "errors").read_text())
    process.send_signal(signal.SIGINT)
    assert process.wait(600) == 130
    first, last = (folder / "errors").read_text().splitlines()  # nothing of Ray's
    assert first.startswith("[1/2] tiny--short: measured, on hopper, took ")
    assert last == "ortbench: interrupted after 1 of 2 cases; the same command goes on"
    assert [path.parent.name for path in folder.glob("out/*/result.json")] == ["tiny--short"]
    assert (folder / "out" / "summary.md").exists()
    assert_whole(folder / "out")
    wait_for(lambda: not marked("command") and not is_measured_on("ampere"))


@pytest.mark.usefixtures("ray")
def test_a_cluster_that_is_not_there_is_said_in_a_line(tmp_path: Path) -> None:
    written(tmp_path / "suite", SUITE)
    ran = ortbench("suite", "bench.toml", "--ray", "127.0.0.1:9", cwd=tmp_path / "suite")
    assert ran.code == 2
    assert ran.error_line.startswith("--ray 127.0.0.1:9: cannot be reached: ")
