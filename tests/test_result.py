"""The result file: the way to disk and back, what is refused and where, and texts that are strange."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from ortbench.core.errors import BadInput
from ortbench.core.files import write_atomically
from ortbench.core.stats import Value, summarise
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load, result_json, save
from tests.expect import refusal
from tests.results import tensor


def whole() -> Result:
    """A result with a value in every field."""
    times: dict[str, list[int | float]] = {"latency": [3_000, 1_000, 2_000], "h2d": [10, 20]}
    case = Case(
        mode="host-accessible", status="failed", reason="“quoted”, \\ and\nmore",
        checks={"outputs": {"verdict": "failed"}, "zero_copy": {"verdict": "passed", "how": "seen"}}, speedup=Value(1.5, (1.25, 1.75)),
        sync={"kind": "run", "cost_ns": 0, "how": "seen", "h2d": None, "d2h": None}, samples={phase: [*ns] for phase, ns in times.items()},
        blocks={"latency": [[0, 2, 100], [1, 1, 200]], "h2d": [[0, 2, 300]]},
    )  # fmt: skip
    case.metrics = {"latency": summarise(times["latency"], [2, 1]), "h2d": summarise(times["h2d"])}
    case.set_metric("copies", -3, derived=True)
    load_average: Any = {"start": [0.5, 0.25, 0.125], "end": None}
    return Result(
        tool={"name": "ortbench", "version": "0"}, created="2026-01-01T00:00:00+00:00", command=["ortbench", "run", "a b"],
        environment={"onnxruntime": "1.0", "cpu": {"model": "µ"}, "gpus": [], "load_average": load_average},
        model={"path": "m.onnx", "sha256": "0", "outputs": [], "inputs": [tensor("x", [1, 3], 12), tensor("s", [])]},
        target={
            "ep": "e", "device": {"type": "GPU", "name": "gpu", "index": 0}, "sync": None, "ep_options": {},
            "memory": {"kind": "none", "default": None, "host_accessible": None},
        },
        placement={"nodes": {"e": 3}, "memcpy_nodes": 0, "cpu_operators": {}},
        setup={"session_ns": 1, "first_inference_ns": 2, "seed": 0}, stopped={"reason": "interrupted"},
        warnings=[{"code": "c", "message": "m"}], cases=[case, Case("cpu-tensors")],
    )  # fmt: skip


# What is refused


def at(place: str, value: Any = ...) -> Callable[[dict[str, Any]], object]:
    """Sets a value at a place such as ``cases.0.mode``, or takes it away."""

    def change(data: Any) -> None:
        *path, last = [int(key) if key.isdigit() else key for key in place.split(".")]
        for key in path:
            data = data[key]
        if value is ...:
            data.pop(last)
        else:
            data[last] = value

    return change


SWEEP: dict[str, Any] = {"kind": "sweep", "sweep": {"slo": None}, "shapes": [{"name": "all", "point": {}, "shape": {}}]}
LOAD: dict[str, Any] = {
    "kind": "load", "load": dict.fromkeys(("arrivals", "file", "slo")) | {"sessions": "shared", "duration_s": 1.0, "seed": 0, "workers": 1},
}  # fmt: skip
BEST: dict[str, Any] = {"shape": "batch=9", "by": "items_per_s", "items_per_s": None, "ci95": None, "ties": []}
SWITCHED: dict[str, Any] = {
    "mode": "cpu-tensors", "rounds": 1, "calls": 1, "ratio": 1.0, "ci95": None, "cost_ns": 0, "cost_ci95_ns": None, "shapes": [],
}  # fmt: skip
SOAK: dict[str, Any] = {"order": "by size", "reopened": None, "shapes": [], "readings": []}
LATENCY, AT = "cases.0.metrics.latency", "cases[0].metrics.latency"
WRONG: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    *((at(f"{part}.{key}"), f'{part}: the key "{key}" is missing') for part, key in
      (("environment", "onnxruntime"), ("model", "path"), ("target", "ep"), ("placement", "nodes"))),
    (at("cases"), 'the key "cases" is missing or empty'),
    (at("cases", []), 'the key "cases" is missing or empty'),
    (at("tool"), 'the key "tool" is missing'),
    (at("cases", [1]), "cases[0]: an object is needed, not 1"),
    (at("cases.0.mode"), 'cases[0]: the key "mode" is missing'),
    (at("cases.0.status", "fine"), 'cases[0].status: "fine" is none of the values that are known'),
    (at(LATENCY, 7), f"{AT}: an object is needed, not 7"),
    (at(f"{LATENCY}.ci95", [2, 1]), f"{AT}.ci95: its low end is above its high end"),
    (at(f"{LATENCY}.p95", 1), f"{AT}: p90 is above p95"),
    (at(f"{LATENCY}.min", -1), f"{AT}.min: a number of at least 0 is needed, not -1"),
    (at(f"{LATENCY}.n", 0), f"{AT}.n: a number of at least 1 is needed, not 0"),
    (at(f"{LATENCY}.n", 4), f"{AT}.n: there are 3 samples, not 4"),
    (at(f"{LATENCY}.max", 1e300), f"{AT}.max: 1e+300 is beyond what a measurement can give"),
    (at("cases.0.samples.latency", [3, 1, 2, 5]), "cases[0].blocks.latency: they are of 3 samples, and there are 4"),
    (at("cases.0.samples.h2d"), "cases[0].blocks.h2d: their samples are missing, and so are their medians"),
    (at("cases.0.blocks.h2d"), "cases[0].samples.h2d: they are of no blocks"),
    (at("cases.0.blocks.h2d.0.2"), "cases[0].blocks.h2d[0]: round, number of samples and start are needed"),
    (at("cases.0.mode", "x" * 300_000), "cases[0].mode: a text of at most 200 characters is needed, not one of 300000"),
    (at("cases.0.energy", {}), "cases[0].energy: the keys how, of, start_ns, parts and idle, or unsupported are needed"),
    (at("cases.0.load_blocks", [{"round": 0, "n": 1, "throughput": 1, "latency": {"p95": 1}}]),
     "cases[0].load_blocks[0].latency: the keys mean, median, p95, p99 and max are needed"),
    (at("target.device.name"), "target.device: the keys vendor_id and device_id, or name and index are needed"),
    (at("environment.cpu.cores", 0), "environment.cpu.cores: a number of at least 1 is needed, not 0"),
    (at("noise", {"cores": 0, "blocks": [], "readings": []}), "noise.cores: a number of at least 1 is needed, not 0"),
    (at("cases.1.mode", "host-accessible"), "cases[1]: another case has the same mode and point"),
    (at("cases.1.point", {"batch": 8}), 'cases[1].point: no axis "batch" has 8'),
    (at("kind", "walk"), 'kind: "walk" is none of the kinds that are known'),
    (at("kind", "loop"), 'the key "loop" is missing or empty'),
    (lambda data: data.update(kind="soak", soak=SOAK), 'soak.order: "by size" is none of the values that are known'),
    (lambda data: data.update(**LOAD, knee={"walking": None}), 'knee: there is no "walking"'),
    (lambda data: data.update(**SWEEP, switching=[SWITCHED]), "switching[0].shapes: at least one shape is needed"),
    (lambda data: data.update(**SWEEP, best={"mode": "walking", "modes": {}}), 'best.mode: there is no "walking"'),
    (lambda data: data.update(**SWEEP, best={"mode": None, "modes": {"cpu-tensors": BEST}}), 'best.modes.cpu-tensors: there is no "batch=9"'),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_result_that_cannot_be_is_refused_with_the_place(
    change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    path = rewritten(tmp_path, change)
    assert refusal(BadInput, load, path) == f"{path}: {message}"


def rewritten(tmp_path: Path, *changes: Callable[[dict[str, Any]], object]) -> Path:
    """A result file, changed."""
    data, path = json.loads(result_json(whole())), tmp_path / "result.json"
    for change in changes:
        change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_files_that_are_no_results(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert refusal(BadInput, load, path) == f"cannot read {path}: No such file or directory"
    assert refusal(BadInput, load, tmp_path).startswith(f"cannot read {tmp_path}: ")
    for version in (0, 3, "1", None):
        why = "a newer ortbench wrote it" if version == 3 else "measure again"
        has = f"{path} has schema_version {json.dumps(version)}"
        said = refusal(BadInput, load, rewritten(tmp_path, at("schema_version", version)))
        assert said == f"{has}, this ortbench reads schema_version 2: {why}"
    for data in [b"", b"no JSON", b'{"schema_version": 1', b"{'schema_version': 1}", b"\xff\xfe\x00"]:
        path.write_bytes(data)
        assert refusal(BadInput, load, path).startswith(f"{path} is not JSON: ")
    for text in ["[]", "1", "null", '"text"', "{}", '{"cases": []}']:
        path.write_text(text, encoding="utf-8")
        assert refusal(BadInput, load, path).endswith("is not a result file of ortbench: it has no schema_version")
    said = refusal(BadInput, load, rewritten(tmp_path, at("kind", "bandwidth")))
    assert said.startswith(f"{path} is a bandwidth curve: table.md and bandwidth.svg beside it show it")


# Texts


def test_the_text_is_for_reading() -> None:
    text = result_json(whole())
    assert text.startswith('{\n  "schema_version": 2,\n  "tool": {\n')
    lines = {'"latency": [3000, 1000, 2000],', '"ci95": [1.25, 1.75],', "[0, 2, 100],"}
    assert lines <= {line.strip() for line in text.splitlines()}


def test_texts_and_numbers_that_are_strange(tmp_path: Path) -> None:
    strange, path = whole(), tmp_path / "result.json"
    strange.command = ['"\\u00000"', "\\u00000", "[1, 2]"]
    save(strange, path)
    assert (load(path), result_json(load(path))) == (strange, path.read_text(encoding="utf-8"))
    strange.model["path"] = "\udcff.onnx"
    save(strange, path)
    assert json.loads(path.read_text(encoding="utf-8"))["model"]["path"] == "\udcff.onnx"
    for number in (float("nan"), [1.0, float("inf")]):
        cast(Any, strange.setup)["seed"] = number
        with pytest.raises(ValueError, match="JSON compliant"):
            result_json(strange)


def test_texts_of_a_file_are_made_fit_for_every_page_and_terminal(tmp_path: Path) -> None:
    harm = "a\x00\x1b[31m\n\ud800"
    harmful = [at("note", harm), at("cases.0.reason", harm), at("placement.nodes", {"EP\x07": 3})]
    strange = load(rewritten(tmp_path, *harmful))
    assert strange.note == strange.cases[0].reason == "a\ufffd\ufffd[31m\n\ufffd"
    assert strange.placement["nodes"] == {"EP\ufffd": 3}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\ud800-\udfff]", result_json(strange))
    assert strange.cases[0].samples == whole().cases[0].samples


def test_unknown_keys_are_kept(tmp_path: Path) -> None:
    new = [at("new", {"a": [-1]}), at("target.new", 2), at("cases.0.new", 3), at(f"{LATENCY}.p999", 4)]
    path = rewritten(tmp_path, *new)
    found = load(path)
    assert replace(found, target=whole().target) == whole()
    assert json.loads(result_json(found)) == json.loads(path.read_text())


# Writing


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in ("one", "zwölf\n"):
        write_atomically(path, text)
        assert path.read_bytes() == text.encode()
    with pytest.raises(TypeError):
        write_atomically(path, ["no text"])  # type: ignore[arg-type]
    assert path.read_bytes() == "zwölf\n".encode()
    assert list(tmp_path.iterdir()) == [path]
    assert os.name != "posix" or stat.S_IMODE(path.stat().st_mode) == 0o644  # others may read it
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "no" / "a.txt", "")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "Ctrl-C"])
def test_an_interrupted_rename_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "result.json"
    save(whole(), path)
    before = path.read_bytes()
    with patch.object(os, "replace", side_effect=error), pytest.raises(type(error)):
        save(Result(tool={"name": "", "version": ""}, created="", command=[]), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_result_knows_of_itself() -> None:
    result = whole()
    assert [result.case(it) for it in ("cpu-tensors", "device-tensors")] == [result.cases[1], None]
    assert result.case("host-accessible") is None  # it failed
    assert [result.cases[0].median(it) for it in ("latency", "inference")] == [2_000, None]
    for message in ("m", "another"):
        result.warn("c", message)
    assert [warning["message"] for warning in result.warnings] == ["m", "another"]
