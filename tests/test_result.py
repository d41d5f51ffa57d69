"""The result file: the contract's keys, the way to disk and back, and files that are something else."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import pytest

from ortbench import schema
from ortbench.errors import BadInput, NotComparable, Unsupported
from ortbench.files import write_atomically
from ortbench.measure.bench import Bench
from ortbench.measure.process import Client
from ortbench.measure.side import Side
from ortbench.modes import PHASE_NAMES
from ortbench.plan import Loop, Plan, Target
from ortbench.result import SCHEMA_VERSION, Case, Result, load, result_json, save
from ortbench.stats import summarise
from tests.expect import refusal, there
from tests.results import tensor

# Design, "Contract": these keys are read by other programs.
TOP_KEYS = {
    "schema_version", "tool", "created", "command", "environment", "model", "target", "placement", "stopped",
    "warnings", "cases",
}  # fmt: skip
CASE_KEYS = {
    "mode", "status", "reason", "bytes_in", "bytes_out", "outputs_match", "zero_copy", "vs_cpu", "phases", "derived",
    "once", "samples_ns",
}  # fmt: skip
CHAIN_CASE_KEYS = ("stages", "stage_bytes")
SWEEP_KEYS = ("sweep", "points", "switching", "best")
LOOP_CASE_KEYS = ("steps_ns", "state_bytes_in", "state_bytes_out", "step_bytes_in", "step_bytes_out")
STATS_KEYS = {
    "n", "min_ns", "mean_ns", "median_ns", "p90_ns", "p95_ns", "p99_ns", "max_ns", "stdev_ns", "mad_ns", "ci95_ns",
}  # fmt: skip

TIMES = {"cpu": 9_000_000, "device": 9_500_000, "device-resident": 3_000_000, "pipelined": 4_000_000}
HELD = {"name": "x", "memory": "Some", "why": "the session wants it there", "usual": True}
PLACES = {"inputs": [HELD], "outputs": [HELD]}
PHASE_TIMES = {"device": 3_166_666, "pipelined": 3_000_000}


class ScriptedWorker(Client):
    """A worker whose answers are known: a GPU without HOST_ACCESSIBLE memory."""

    def __init__(self) -> None:  # no process
        self.started_ns = 1
        self.meanwhile = None
        self._request: dict[str, Any] = {}

    def send(self, do: str, **arguments: Any) -> None:
        self._request = {"do": do, **arguments}

    def receive(self) -> Any:
        request = dict(self._request)
        answer: Callable[..., Any] = getattr(self, request.pop("do"))
        return answer(**request)

    def close(self) -> None:
        """Nothing to end."""

    def open(self, model: str, target: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        tensor = {"name": "x", "type": "tensor(float)", "model_shape": ["n"], "shape": [1], "bytes": 4, "range": [0, 1]}
        return {
            "ep": "SomeExecutionProvider",
            "library": None,
            "eps": [],
            "version": "1.0",
            "notes": [],
            "device": {"type": "GPU"},
            "memory": {"kind": "ep-device", "default": "Some", "host_accessible": None},
            "placement": {"nodes": {"SomeExecutionProvider": 3}, "memcpy_nodes": 0, "cpu_operators": {}},
            "unsupported": None,
            "inputs": [tensor],
            "outputs": [tensor],
            "guessed_dims": ["n"],
            "expected": False,
            "session_ns": 1_000,
            "engine_cache": None,
            "first_run_ns": 2_000,
            "stages": [["creating the session", 2, 1_000]],
            "runtime": {"onnxruntime": "1.28.0"},
            "ep_options": target["options"],
        }

    def prepare(self, mode: str, warmup: int | None, depth: int, warmup_ns: int) -> dict[str, Any]:
        if mode == "host-accessible":
            raise Unsupported("no HOST_ACCESSIBLE memory")
        return {
            "bytes_in": 4,
            "bytes_out": 4,
            "fence": {"kind": "run", "cost_ns": 0, "how": "seen", "upload": None},
            "zero_copy": None,
            "external": None,
            "graph": None,
            "pipeline": {"depth": depth} if mode == "pipelined" else None,
            "places": PLACES,
            "runs_per_sample": depth if mode == "pipelined" else None,
            "estimates_ns": dict.fromkeys(PHASE_NAMES if mode in PHASE_TIMES else ["total"], float(TIMES[mode])),
            "stages": [["warming up", 3_000, 1_000]],
        }

    def block(self, mode: str, phase: str, n: int, drop: int) -> dict[str, Any]:
        sample = TIMES[mode] if phase == "total" else PHASE_TIMES[mode]
        return {"samples": [sample] * n, "start_ns": 5, "spent_ns": sample * (n + drop)}

    def finish(self, mode: str) -> dict[str, Any]:
        once = {"upload_ns": 7, "download_ns": 8} if mode == "device-resident" else None
        return {"differs": None, "once": once, "early": []}


def measure(plan: Plan) -> Result:
    worker = ScriptedWorker()
    worker.send("open", **plan.worker_request())
    (result,) = Bench([Side(plan, worker)]).run()
    return result


@pytest.fixture
def measured(tmp_path: Path) -> dict[str, Any]:
    """The result file of a whole run, as another program reads it."""
    model = tmp_path / "m.onnx"
    model.write_bytes(b"model")
    target, loop = Target("some", options={"k": "v"}), Loop(iterations=40)
    plan = Plan(str(model), target, loop=loop, command=("ortbench", "run"))
    save(measure(plan), tmp_path / "result.json")
    data: dict[str, Any] = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    return data


def case_of(data: dict[str, Any], mode: str) -> dict[str, Any]:
    found: dict[str, Any] = next(case for case in data["cases"] if case["mode"] == mode)
    return found


@pytest.mark.process
def test_what_a_pipeline_hides_and_brings(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"model")
    plan = Plan(str(model), Target("some"), modes=("device", "pipelined"), loop=Loop(iterations=40, depth=5))
    case = there(measure(plan).case("pipelined"))
    assert case.pipeline == {
        "depth": 5,
        "copies_ns": 6_000_000,
        "hidden_ns": 5_000_000,
        "hidden_share": 0.8333,
        "hidden_ci95": [0.8333, 0.8333],
        "vs_device": {"ratio": 2.375, "ci95": [2.375, 2.375]},
    }
    alone = there(measure(replace(plan, modes=("pipelined",))).case("pipelined"))
    assert alone.pipeline is not None
    assert (alone.pipeline["vs_device"], alone.pipeline["hidden_share"]) == (None, 0.8333)


@pytest.mark.process
def test_contract_top_level_and_parts(measured: dict[str, Any]) -> None:
    assert measured.keys() >= TOP_KEYS
    assert measured["schema_version"] == SCHEMA_VERSION == 1
    assert next(iter(measured)) == "schema_version"
    assert measured["tool"]["name"] == "ortbench"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", measured["created"])
    assert measured["command"] == ["ortbench", "run"]
    assert measured["stopped"] == "iterations: 40 per mode"
    assert [warning.keys() for warning in measured["warnings"]] == [{"code", "message"}]
    assert measured["model"].keys() >= {"path", "sha256", "inputs", "outputs"}
    assert measured["model"]["sha256"] == "9372c470eeadd5ecd9c3c74c2b3cb633f8e2f2fad799250a0f70d652b6b825e4"
    assert measured["target"].keys() >= {"ep", "device", "memory", "fence", "ep_options"}
    assert measured["target"]["memory"].keys() >= {"default", "host_accessible"}
    assert measured["target"]["fence"].keys() >= {"kind", "cost_ns"}
    assert measured["target"]["ep_options"] == {"k": "v"}
    assert measured["placement"].keys() >= {"nodes", "memcpy_nodes"}
    assert [case["mode"] for case in measured["cases"]] == ["cpu", "device", "device-resident", "host-accessible"]
    for case in measured["cases"]:
        assert case.keys() >= CASE_KEYS
        assert case["phases"].keys() == set(PHASE_NAMES) == {"upload", "inference", "download", "total"}
        for stats in filter(None, case["phases"].values()):
            assert stats.keys() == STATS_KEYS
            low, high = stats.pop("ci95_ns")
            assert {type(value) for value in (low, high, *stats.values())} == {int}


@pytest.mark.process
def test_contract_of_the_modes_and_their_samples(measured: dict[str, Any]) -> None:
    has = {case["mode"]: {name for name, stats in case["phases"].items() if stats} for case in measured["cases"]}
    assert has == {
        "cpu": {"total"},
        "device": {"upload", "inference", "download", "total"},
        "device-resident": {"inference", "total"},
        "host-accessible": set(),
    }
    cpu, resident = case_of(measured, "cpu"), case_of(measured, "device-resident")
    assert cpu["derived"] == {"copies_ns": 6_000_000, "inference_ns": 3_000_000}
    assert cpu["once"] is None
    assert resident["once"] == {"upload_ns": 7, "download_ns": 8}
    assert resident["derived"] is None
    assert resident["phases"]["inference"] == resident["phases"]["total"]
    assert resident["vs_cpu"] == {"ratio": 3.0, "ci95": [3.0, 3.0]}
    assert cpu["vs_cpu"] == {"ratio": 1.0, "ci95": [1.0, 1.0]}
    assert [cpu[key] for key in ("status", "reason", "outputs_match", "zero_copy")] == ["ok", None, True, None]
    case = case_of(measured, "host-accessible")
    assert (case["status"], case["reason"]) == ("unsupported", "no HOST_ACCESSIBLE memory")
    assert [case[key] for key in ("bytes_in", "bytes_out", "outputs_match", "vs_cpu")] == [None] * 4
    assert case_of(measured, "cpu")["samples_ns"] == {"total": [9_000_000] * 40}
    phases = case_of(measured, "device")["samples_ns"]
    assert {name: len(samples) for name, samples in phases.items()} == dict.fromkeys(PHASE_NAMES, 40)
    assert case_of(measured, "host-accessible")["samples_ns"] == {}


# To disk and back


def whole() -> Result:
    """A result with a value in every field."""
    total, upload = [3_000, 1_000, 2_000], [10, 20]
    case = Case(
        mode="host-accessible",
        status="failed",
        reason="“quoted”, \\ and\nmore",
        bytes_in=1,
        bytes_out=2,
        outputs_match=False,
        zero_copy={"proved": True, "how": "seen"},
        vs_cpu={"ratio": 1.5, "ci95": [1.25, 1.75]},
        derived={"copies_ns": 3, "inference_ns": 4},
        once={"upload_ns": 5, "download_ns": 6},
        fence={"kind": "run", "cost_ns": 0, "how": "seen", "upload": None, "download": None},
        samples_ns={"total": total, "upload": upload},
        blocks={"total": [[0, 2, 100], [1, 1, 200]], "upload": [[0, 2, 300]]},
    )
    case.phases["total"], case.phases["upload"] = summarise(total, [2, 1]), summarise(upload)
    return Result(
        tool={"name": "ortbench", "version": "0"},
        created="2026-01-01T00:00:00+00:00",
        command=["ortbench", "run", "a b"],
        environment={
            "onnxruntime": "1.0",
            "cpu": {"model": "µ"},
            "gpus": [],
            "load_average": {"start": [0.5, 0.25, 0.125], "end": None},
        },
        model={
            "path": "m.onnx",
            "sha256": "0",
            "outputs": [],
            "inputs": [tensor("x", [1, 3], 12), tensor("s", [])],
        },
        target={
            "ep": "e",
            "device": {"type": "GPU"},
            "memory": {"kind": "none", "default": None, "host_accessible": None},
            "fence": None,
            "ep_options": {},
        },
        placement={"nodes": {"e": 3}, "memcpy_nodes": 0, "cpu_operators": {}},
        setup={"session_ns": 1, "first_run_ns": 2, "seed": 0},
        stopped="interrupted",
        warnings=[{"code": "c", "message": "m"}],
        cases=[case, Case("cpu")],
    )


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    save(whole(), path)
    assert load(path) == whole()
    written = json.loads(path.read_text(encoding="utf-8"))
    wanted = json.loads(json.dumps(asdict(whole())))
    left_out = [
        wanted.pop(key) for key in ("kind", "loop", "chain", "load", "knee", "slo", "back_to_back", *SWEEP_KEYS)
    ]
    assert wanted.pop("levels") == []
    for case in wanted["cases"]:
        left_out += [case.pop(key) for key in (*LOOP_CASE_KEYS, *CHAIN_CASE_KEYS)]
    assert written == wanted
    assert {*left_out} == {None}  # a result of single inferences has none of the keys of a loop, a chain or a load


def test_round_trip_of_a_loop(tmp_path: Path) -> None:
    result = whole()
    result.kind = "loop"
    result.loop = {
        "steps": 2, "feedback": [["out", "in"]], "first": {"sequence": 5}, "grows": ["in"], "state_shapes": [[[0], [2]]],
        "fill": {"x": "step"}, "keep": ["y"], "resident": [],
    }  # fmt: skip
    case = result.cases[0]
    case.steps_ns, case.state_bytes_in, case.state_bytes_out = [3, 4], 0, [4, 8]
    case.step_bytes_in, case.step_bytes_out = 12, None
    case.samples_ns["step"], case.blocks["step"] = [3, 4], [[0, 2, 100]]
    case.phases["step"], case.phases["loop"] = summarise([3, 4]), case.phases["total"]
    path = tmp_path / "result.json"
    save(result, path)
    assert load(path) == result
    written = json.loads(path.read_text(encoding="utf-8"))
    wanted = json.loads(json.dumps({"schema_version": 1, **vars(result), "cases": [*map(asdict, result.cases)]}))
    for key in ("chain", "load", "levels", "knee", "slo", "back_to_back", *SWEEP_KEYS):
        del wanted[key]
    for it in wanted["cases"]:
        for key in CHAIN_CASE_KEYS:
            del it[key]
    assert written == wanted
    assert (written["kind"], written["loop"]["feedback"]) == ("loop", [["out", "in"]])
    assert {key: written["cases"][0][key] for key in LOOP_CASE_KEYS} == {
        "steps_ns": [3, 4], "state_bytes_in": 0, "state_bytes_out": [4, 8], "step_bytes_in": 12, "step_bytes_out": None,
    }  # fmt: skip


def test_round_trip_of_a_load(tmp_path: Path) -> None:
    result = whole()
    latency: schema.Latency = {"mean": 5, "p50": 4, "p95": 8, "p99": 9, "max": 9}
    level: schema.Level = {
        "mode": "cpu", "sessions": "shared", "concurrency": 2, "status": "ok", "reason": None, "runs_per_s": 3.5, "ci95": [3.0, 4.0],
        "latency_ns": latency, "n": 7, "outputs_match": True, "cpu_cores": 1.5, "lock_wait": 0.25, "fairness": 1.0,
        "clock_mhz": None,
    }  # fmt: skip
    result.kind, result.levels = "load", [level]
    result.load = {
        "sessions": "shared", "duration_s": 2.0, "arrivals": None, "file": None, "seed": 0, "callers": 1, "slo": None,
    }  # fmt: skip
    result.knee = {"cpu": {"concurrency": 2, "share_of_peak": 1.0}}
    path = tmp_path / "result.json"
    save(result, path)
    assert load(path) == result
    written = json.loads(path.read_text(encoding="utf-8"))
    assert (written["kind"], written["levels"], written["knee"]) == ("load", [level], result.knee)
    assert {"slo", "back_to_back"} <= written.keys()
    assert not {"loop", "chain"} & written.keys()


def test_a_result_without_what_reports_need_is_refused(tmp_path: Path) -> None:
    for change in [
        lambda data: data["environment"].pop("onnxruntime"),
        lambda data: data["model"].pop("path"),
        lambda data: data["target"].pop("ep"),
        lambda data: data["placement"].pop("nodes"),
        lambda data: data["cases"][0]["phases"]["total"].update(ci95_ns=[1]),
        lambda data: data.pop("cases"),
        lambda data: data.pop("tool"),
        lambda data: data.pop("created"),
        lambda data: data.pop("command"),
        lambda data: data["cases"][0].pop("mode"),
        lambda data: data["cases"][0].pop("phases"),
        lambda data: data["cases"][0]["phases"]["total"].pop("median_ns"),
        lambda data: data["cases"][0]["phases"]["total"].pop("ci95_ns"),
        lambda data: data.update(cases=None),
        lambda data: data.update(cases=[1]),
        lambda data: data["cases"][0].update(phases=[]),
        lambda data: data["cases"][0]["phases"].update(total=7),
    ]:
        path = rewritten(tmp_path, change)
        assert refusal(BadInput, load, path).startswith(f"{path} is not a whole result file: ")


def test_the_text_is_for_reading() -> None:
    text = result_json(whole())
    assert text.endswith("}\n")
    assert text.startswith('{\n  "schema_version": 1,\n  "tool": {\n')
    assert '"model": "µ"' in text
    lines = [line.strip() for line in result_json(whole()).splitlines()]
    for line in (
        '"total": [3000, 1000, 2000],',
        '"upload": [10, 20]',
        '"ci95_ns": [1000, 3000]',
        '"ci95": [1.25, 1.75]',
        "[0, 2, 100],",
        "[1, 1, 200]",
        '"shape": [1, 3],',
    ):
        assert line in lines


def test_texts_that_are_strange(tmp_path: Path) -> None:
    strange = whole()
    strange.command = ['"\\u00000"', "\\u00000", "[1, 2]"]
    save(strange, tmp_path / "result.json")
    assert load(tmp_path / "result.json") == strange
    strange = whole()
    strange.model["path"] = "\udcff.onnx"
    save(strange, tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["model"]["path"] == "\udcff.onnx"
    strange = whole()
    cast(Any, strange.setup)["seed"] = float("nan")
    with pytest.raises(ValueError, match="JSON compliant"):
        result_json(strange)
    cast(Any, strange.setup)["seed"] = [1.0, float("inf")]
    with pytest.raises(ValueError, match="JSON compliant"):
        result_json(strange)


def test_texts_of_a_file_are_made_fit_for_every_page_and_terminal(tmp_path: Path) -> None:
    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spoil(item) for key, item in value.items()}
        if isinstance(value, list):
            return [spoil(item) for item in value]
        return f"{value}\x00\x1b[31m\n\ud800" if isinstance(value, str) else value

    def change(data: dict[str, Any]) -> None:
        data.update(spoil(data))
        data["placement"]["nodes"] = {"EP\x07": 3}

    strange = load(rewritten(tmp_path, change))
    assert strange.cases[0].mode == "host-accessible\ufffd\ufffd[31m\n\ufffd"
    assert strange.placement["nodes"] == {"EP\ufffd": 3}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\ud800-\udfff]", result_json(strange))
    assert strange.cases[0].samples_ns == whole().cases[0].samples_ns


def rewritten(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A result file, changed."""
    data = json.loads(result_json(whole()))
    change(data)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_unknown_keys_are_ignored(tmp_path: Path) -> None:
    def add(data: dict[str, Any]) -> None:
        data["new"] = 1
        data["target"]["new"] = 2
        data["cases"][0]["new"] = 3
        data["cases"][0]["phases"]["total"]["p999_ns"] = 4

    found = load(rewritten(tmp_path, add))
    expected = whole()
    cast(Any, expected.target)["new"] = 2
    assert found == expected


def test_files_that_are_no_results(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert refusal(BadInput, load, path) == f"cannot read {path}: No such file or directory"
    for version in [0, 2, "1", None]:
        path.write_text(json.dumps({**json.loads(result_json(whole())), "schema_version": version}))
        said = f"{path} has schema {version}; this ortbench reads schema 1"
        assert refusal(NotComparable, load, path) == said
    for data in [b"", b"no JSON", b'{"schema_version": 1', b"{'schema_version': 1}", b"\xff\xfe\x00"]:
        path.write_bytes(data)
        assert refusal(BadInput, load, path).endswith("is not a result file: it is not JSON")
    for text in ["[]", "1", "null", '"text"', "{}", '{"cases": []}']:
        path.write_text(text, encoding="utf-8")
        assert refusal(BadInput, load, path).endswith("is not a result file of ortbench: it has no schema_version")
    assert refusal(BadInput, load, tmp_path).startswith(f"cannot read {tmp_path}: ")


# Writing


def test_writing_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, "one")
    write_atomically(path, "zwölf\n")
    assert path.read_bytes() == "zwölf\n".encode()
    assert list(tmp_path.iterdir()) == [path]
    write_atomically(path, "old")
    with pytest.raises(TypeError):
        write_atomically(path, ["no text"])  # type: ignore[arg-type]
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "no" / "a.txt", "")


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
def test_others_may_read_the_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.txt", "")
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "Ctrl-C"])
def test_an_interrupted_rename_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "result.json"
    save(whole(), path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(error)):
        save(Result(tool={"name": "", "version": ""}, created="", command=[]), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_result_that_is_no_json_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    save(whole(), path)
    strange = whole()
    cast(Any, strange.setup)["seed"] = float("nan")
    with pytest.raises(ValueError, match="JSON compliant"):
        save(strange, path)
    assert load(path) == whole()
    assert list(tmp_path.iterdir()) == [path]


# What a result knows of itself


def test_what_a_result_knows_of_itself() -> None:
    result = whole()
    assert result.case("cpu") is result.cases[1]
    assert result.case("host-accessible") is None  # it failed
    assert result.case("device") is None
    result = whole()
    result.warn("c", "m")
    result.warn("c", "another")
    assert [warning["message"] for warning in result.warnings] == ["m", "another"]
    case = whole().cases[0]
    assert (case.median("total"), case.median("inference"), case.median("none")) == (2_000, None, None)
