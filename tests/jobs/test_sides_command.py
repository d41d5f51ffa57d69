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


def test_settings_of_two_lists_and_of_two_eps(library: Path, tmp_path: Path) -> None:
    ran = ortbench("run", MULTI, "--ep", "cpu", "--ep", library, "--mode", "cpu-tensors", "--opt-level", "basic,all", *ONCE,
                        "--ep-option", f"{library}:compute_us=100", "--dim", "batch=8", "--out", tmp_path)  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    found = results(tmp_path)
    assert sorted(found) == sorted(
        f"{ep}-opt-level-{level}" for ep in ("cpu", library.stem) for level in ("basic", "all")
    )
    assert all(name.endswith(it["target"]["opt_level"]) for name, it in found.items())
    (folder,) = tmp_path.glob("[!.]*")
    assert re.fullmatch(rf"multi_output-cpu-{library.stem}-\d+-\d+", folder.name)


def test_two_settings_are_shown_with_their_phases(tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep", "cpu", "--mode", "device-tensors", "--intra-op-threads", "1,2", *ONCE, "--out",
                        tmp_path, COLUMNS="100")  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    assert {name: it["target"]["intra_op_threads"] for name, it in results(tmp_path).items()} == {
        "intra-op-threads-1": 1,
        "intra-op-threads-2": 2,
    }
    rows = re.findall(r"^device-tensors +([\w ]+?)  ", ran.out, re.MULTILINE)
    # Counts have rows only where one of them is not 0.
    assert [row for row in rows if row not in ("page faults", "involuntary switches")] == [
        "latency", "H2D", "inference", "D2H", "CPU time",
    ]  # fmt: skip
    assert "items/s" not in ran.out


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


def test_items_of_a_run(tmp_path: Path) -> None:
    def items(name: str, *arguments: object) -> tuple[Any, bool]:
        ran = ortbench("run", *arguments, *CPU, *ONCE, "--out", tmp_path / name, "--json", tmp_path / "r.json")
        assert (ran.code, ran.err) == (0, "")
        return json.loads((tmp_path / "r.json").read_text())["items"], "items/s" in ran.out

    ids = MODELS / "transformer_ids.onnx"
    inputs = MODELS / "multi_output.inputs.npz"
    assert items("a", MULTI, "--dim", "batch=8") == ({"count": 8, "dim": "batch"}, True)
    assert items("b", MULTI, "--input", inputs) == ({"count": 2, "dim": "batch"}, True)
    assert items("c", MULTI) == ({"count": 1, "dim": "batch"}, False)
    assert items("d", MODELS / "tiny.onnx") == (None, False)
    assert items("e", MODELS / "tiny.onnx", "--items", 16) == ({"count": 16, "dim": None}, True)
    assert items("f", ids, "--dim", "sequence=16", "--items", "sequence") == ({"count": 16, "dim": "sequence"}, True)


@pytest.mark.parametrize(
    ("arguments", "remark"),
    [
        (
            ["--intra-op-threads", "2", "--baseline-set", "intra-op-threads=1"],
            "baseline → candidate: intra-op threads: 1 → 2",
        ),
        (["--opt-level", "basic", "--baseline-set", "opt-level="], "baseline → candidate: optimisation: all → basic"),
        (["--dim", "batch=8", "--baseline-set", "dim=batch=1"], "baseline → candidate: dim: batch 1 → batch 8"),
        (["--baseline-set", "shape=x:4x64"], "baseline → candidate: shape: x 4x64 → none"),
        (["--run-config", "a=b", "--baseline-set", "run-config="], "baseline → candidate: run config: none → a b"),
    ],
)
def test_a_gate_between_two_settings(arguments: list[str], remark: str, tmp_path: Path) -> None:
    line = ("gate", "--model", MULTI, *CPU, *arguments, "--max-regression", "900%", "--duration", 0.3, "--warmup", 1)
    ran = ortbench(*line, "--out", tmp_path, COLUMNS="140")
    assert ran.code in (0, 4), ran.err  # a busy machine may keep it from telling
    assert f"• {remark}\n" in ran.out
    assert "nothing recorded differs" not in ran.out


def test_a_gate_tells_a_setting_that_costs_time(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 1 << 16)
    sides = ("--ep-option", "compute_us=3000", "--dynamic-outputs", "--baseline-set", "dynamic-outputs=off",
             "--baseline-set", "ep-option=compute_us=2000")  # fmt: skip
    ran = ortbench(
        "gate", "--model", model, "--ep", library, *sides, *CPU[2:], "--warmup", 2, "--out", tmp_path / "out"
    )
    assert ran.code == 3
    assert "dynamic outputs: off → on" in ran.out
