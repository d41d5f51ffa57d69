"""`ortbench run` with lists of settings, and gates whose baseline has another one: on real models and the reference device."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.conftest import MODELS, ONCE, ortbench
from tests.truth import relu_model

pytestmark = pytest.mark.process

MULTI = MODELS / "multi_output.onnx"
CPU = ("--ep", "cpu", "--mode", "cpu-tensors")


def results(out: Path) -> dict[str, dict[str, Any]]:
    """What the only run in a folder saved, by the names of its sides."""
    (folder,) = out.glob("[!.]*")
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/result.json"))}


def test_a_load_of_several_sides_and_one_key_given_twice(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 4000)
    ran = ortbench(
        "load", model, "--ep-library", library, "--ep-option", "compute_us=1000", "--ep-option", "compute_us=3000", "--mode",
        "device-resident", "--concurrency", 1, "--duration", 0.3, "--out", tmp_path / "out", "--html", tmp_path / "it.html",
        "--bmf", tmp_path / "bmf.json", COLUMNS="120",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    found = results(tmp_path / "out")
    assert {name: it["target"]["ep_options"]["compute_us"] for name, it in found.items()} == {
        "compute_us-1000": "1000",
        "compute_us-3000": "3000",
    }
    for name, it in found.items():
        (case,) = [case for case in it["cases"] if case["point"]]  # besides one client alone
        wanted = 1000 * int(name.removeprefix("compute_us-"))
        assert (case["status"], case["point"]) == ("ok", {"concurrency": 1})
        assert wanted <= case["metrics"]["latency"]["median"] <= wanted + 20_000  # and the host's calls
    lines = [line for line in ran.out.splitlines() if " throughput " in line]
    assert re.search(r"concurrency=1 .* 2\.9[0-9]", lines[0]), lines
    assert "compute_us=3000" in (tmp_path / "it.html").read_text()
    assert len(json.loads((tmp_path / "bmf.json").read_text())) >= 2
    ran = ortbench("load", model, "--ep", "cpu", "--intra-op-threads", "1,2", "--rate", "auto", "--slo", "p99=1s")
    assert (ran.code, ran.error_line) == (
        2,
        "--rate auto: configurations are compared at the same rates: give the rates",
    )


def test_a_batch_of_several_sizes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    files = [word for name in ("junit", "action-json", "html", "trace") for word in (f"--{name}", tmp_path / name)]
    ran = ortbench("run", MULTI, *CPU, "--dim", "batch=1,8,32", "--iterations", 3, "--warmup", 1, "--out", out, *files,
                        COLUMNS="100")  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    found = results(out)
    assert list(found) == ["batch-1", "batch-32", "batch-8"]
    assert {name: it["items"] for name, it in found.items()} == {
        f"batch-{count}": {"count": count, "dim": "batch"} for count in (1, 32, 8)
    }
    assert len({it["setup"]["run_id"] for it in found.values()}) == 1
    rounds = {tuple(block[0] for block in it["cases"][0]["blocks"]["latency"]) for it in found.values()}
    assert len(rounds) == 1  # they took turns
    for it in found.values():
        (case,) = it["cases"]
        assert (case["status"], case["checks"]["outputs"]["verdict"]) == ("ok", "passed")
        latency, count = case["metrics"]["latency"], it["items"]["count"]
        assert case["metrics"]["item_throughput"]["value"] == pytest.approx(count * 1e9 / latency["mean"], rel=1e-4)
        assert case["metrics"]["item_time"]["value"] == pytest.approx(latency["median"] / count, abs=0.001)
    # One table of all, and one of what else they cost.
    assert re.findall(r"^mode +(\w+) ", ran.out, re.MULTILINE) == ["metric", "cost"]
    assert [re.search(rf" batch={count} +[\d.]+[kM]? items/s ", ran.out, re.MULTILINE) is not None
            for count in (1, 8, 32)] == [True] * 3  # fmt: skip
    assert re.search(
        r"^. (Cannot tell whether )?batch=\d+ (or|has) .*items/s",
        ran.out,
        re.MULTILINE,
    )
    (folder,) = out.glob("[!.]*")
    assert ran.out.endswith(f"Timeline in {tmp_path / 'trace'}; open it at ui.perfetto.dev or in chrome://tracing\n")
    assert f"Savedin{folder}" in "".join(ran.out.split())  # a long path is broken where the line ends
    assert (folder / "comparison.md").read_text().startswith("# ortbench compare: batch=1, batch=8, batch=32\n")
    # And in what other programs read each side has its name.
    names = [it["name"] for it in json.loads((tmp_path / "action-json").read_text())]
    series = [re.search(r"\((batch=\d+)\).*: cpu-tensors ([\w.]+)$", name) for name in names]
    assert [it and it.groups() for it in series] == [
        (f"batch={count}", figure) for count in (1, 8, 32) for figure in ("latency", "cpu_time")
    ]
    groups = [it.get("classname") or "" for it in ET.parse(tmp_path / "junit").iter("testcase")]
    assert [it.rpartition(", ")[2] for it in groups] == ["batch=1", "batch=8", "batch=32"]
    assert all(f"· batch={count}" in (tmp_path / "trace").read_text() for count in (1, 8, 32))
    assert all(f">batch={count}</a>" in (tmp_path / "html").read_text() for count in (1, 8, 32))


def test_sides_with_the_same_inputs_must_give_the_same_outputs(tmp_path: Path) -> None:
    """And those with others are not compared with each other."""
    model = tmp_path / "model.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[N] y) { y = RandomNormalLike(x) }'
    onnx.save(onnx.parser.parse_model(text), model)
    arguments = ("run", model, *CPU, *ONCE, "--out", tmp_path / "out")
    ran = ortbench(*arguments, "--intra-op-threads", "1,2", "--dim", "N=4")
    assert (
        "intra-op-threads=2: cpu-tensors failed: the outputs of intra-op-threads=2 are not those of intra-op-threads=1"
        in ran.err
    )
    ran = ortbench(*arguments, "--dim", "N=4,8", "--intra-op-threads", "1")
    assert "are not those of" not in ran.err


def test_a_side_that_does_not_open_leaves_the_others(tmp_path: Path) -> None:
    """The shape fits the model, and a Reshape in it takes no other."""
    model = tmp_path / "model.onnx"
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[N] x) => (float[a, b] y)
              <int64[2] s = {2, 2}> { y = Reshape(x, s) }"""
    onnx.save(onnx.parser.parse_model(text), model)
    ran = ortbench("run", model, *CPU, *ONCE, "--dim", "N=4,5", "--out", tmp_path / "out")
    assert ran.code in (1, 2)
    assert "N=5" in ran.err or "synthetic inputs" in ran.err


def test_a_gate_tells_a_setting_that_costs_time(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 1 << 16)
    sides = ("--ep-option", "compute_us=3000", "--dynamic-outputs", "--baseline-set", "dynamic-outputs=off",
             "--baseline-set", "ep-option=compute_us=2000")  # fmt: skip
    ran = ortbench(
        "gate", "--model", model, "--ep", library, *sides, *CPU[2:], "--warmup", 2, "--out", tmp_path / "out"
    )
    assert ran.code == 3
    assert "dynamic outputs: off → on" in ran.out
