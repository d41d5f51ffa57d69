"""The result file: the contract's keys, the way to disk and back, and files that are something else."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from ortbench.core.errors import BadInput, Unsupported
from ortbench.core.files import write_atomically
from ortbench.core.stats import Value, summarise
from ortbench.measure.configuration import Configuration
from ortbench.measure.driver import Driver
from ortbench.measure.process import Client
from ortbench.measure.rounds import Rounds
from ortbench.model.modes import PHASE_NAMES
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load, result_json, save
from ortbench.plan.plan import Loop, Plan
from ortbench.plan.target import Target
from tests.expect import refusal
from tests.odd import swept
from tests.results import serving, soak_result, tensor

TIMES = {"cpu-tensors": 9_000_000, "device-tensors": 9_500_000, "device-resident": 3_000_000, "pipelined": 4_000_000}
HELD = {"name": "x", "memory": "Some", "why": "the session's memory info", "usual": True}
PLACES = {"inputs": [HELD], "outputs": [HELD]}
PHASE_TIMES = {"device-tensors": 3_166_666, "pipelined": 3_000_000}


class ScriptedWorker(Client):
    """A worker whose answers are known: a GPU without HOST_ACCESSIBLE memory."""

    pid = 1

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
            "device": {"type": "GPU", "name": "gpu", "index": 0},
            "memory": {"kind": "ep-device", "default": "Some", "host_accessible": None},
            "placement": {"nodes": {"SomeExecutionProvider": 3}, "memcpy_nodes": 0, "cpu_operators": {}},
            "unsupported": None,
            "inputs": [tensor],
            "outputs": [tensor],
            "guessed_dims": {"n": 1},
            "expected": None,
            "session_ns": 1_000,
            "engine_cache": None,
            "first_inference_ns": 2_000,
            "stages": [["creating the session", 2, 1_000]],
            "runtime": {"onnxruntime": "1.28.0"},
            "ep_options": target["options"],
        }

    def prepare(self, mode: str, warmup: int | None, depth: int, warmup_ns: int, least_sync: str) -> dict[str, Any]:
        if mode == "host-accessible":
            raise Unsupported("no HOST_ACCESSIBLE memory")
        return {
            "bytes_in": 4,
            "bytes_out": 4,
            "sync": {"kind": "run", "cost_ns": 0, "how": "seen", "h2d": None},
            "zero_copy": None,
            "external": None,
            "graph": None,
            "pipeline": {"depth": depth} if mode == "pipelined" else None,
            "places": PLACES,
            "inferences_per_sample": depth if mode == "pipelined" else None,
            "estimates_ns": dict.fromkeys(PHASE_NAMES if mode in PHASE_TIMES else ["latency"], float(TIMES[mode])),
            "stages": [["warming up", 3_000, 1_000]],
        }

    def block(self, mode: str, phase: str, n: int, drop: int) -> dict[str, Any]:
        sample = TIMES[mode] if phase == "latency" else PHASE_TIMES[mode]
        return {"samples": [sample] * n, "start_ns": 5, "spent_ns": sample * (n + drop)}

    def finish(self, mode: str) -> dict[str, Any]:
        once = {"h2d_ns": 7, "d2h_ns": 8} if mode == "device-resident" else None
        return {"differs": None, "once": once, "early": []}


def measure(plan: Plan) -> Result:
    worker = ScriptedWorker()
    worker.send("open", **plan.worker_request())
    (result,) = Driver([Configuration(plan, worker)], Rounds).run()
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


# To disk and back


def whole() -> Result:
    """A result with a value in every field."""
    total: list[int | float] = [3_000, 1_000, 2_000]
    upload: list[int | float] = [10, 20]
    case = Case(
        mode="host-accessible",
        status="failed",
        reason="“quoted”, \\ and\nmore",
        checks={"outputs": {"verdict": "failed"}, "zero_copy": {"verdict": "passed", "how": "seen"}},
        speedup=Value(1.5, (1.25, 1.75)),
        sync={"kind": "run", "cost_ns": 0, "how": "seen", "h2d": None, "d2h": None},
        samples={"latency": [*total], "h2d": [*upload]},
        blocks={"latency": [[0, 2, 100], [1, 1, 200]], "h2d": [[0, 2, 300]]},
    )
    case.metrics["latency"], case.metrics["h2d"] = summarise(total, [2, 1]), summarise(upload)
    case.set_metric("copies", -3, derived=True)
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
            "device": {"type": "GPU", "name": "gpu", "index": 0},
            "memory": {"kind": "none", "default": None, "host_accessible": None},
            "sync": None,
            "ep_options": {},
        },
        placement={"nodes": {"e": 3}, "memcpy_nodes": 0, "cpu_operators": {}},
        setup={"session_ns": 1, "first_inference_ns": 2, "seed": 0},
        stopped={"reason": "interrupted"},
        warnings=[{"code": "c", "message": "m"}],
        cases=[case, Case("cpu-tensors")],
    )


def looped() -> Result:
    result = whole()
    result.kind = "loop"
    result.own["loop"] = {
        "steps": 2, "feedback": [["out", "in"]], "first": {"sequence": 5}, "grows": ["in"], "state_shapes": [[[0], [2]]],
        "fill": {"x": "step"}, "keep": ["y"], "resident": [],
    }  # fmt: skip
    case = result.cases[0]
    case.steps_ns, case.step_bytes = [3, 4], {"state_h2d": 0, "state_d2h": [4, 8], "step_h2d": 12, "step_d2h": None}
    case.samples["step"], case.blocks["step"] = [3, 4], [[0, 2, 100]]
    case.metrics["step"], case.metrics["loop"] = summarise([3, 4]), case.metrics["latency"]
    return result


PARTS = {"loop", "chain", "load", "knee", "slo", "sweep", "shapes", "switching", "best"}


def shrunk() -> Result:
    """A soak whose memory may have become less."""
    result = soak_result([10**7 - 1000 * (number % 7) for number in range(40)])
    growth = result.cases[0].metrics["host_growth"]
    assert isinstance(growth, Value)
    assert growth.ci95 is not None
    assert growth.ci95[0] < 0
    return result


@pytest.mark.parametrize(
    "make",
    [whole, looped, partial(serving, run_id="r"), swept, shrunk],
    ids=["run", "loop", "load", "sweep", "soak"],
)
def test_round_trip(make: Callable[[], Result], tmp_path: Path) -> None:
    result, path = make(), tmp_path / "result.json"
    save(result, path)
    found = load(path)
    assert result_json(found) == path.read_text(encoding="utf-8")
    assert json.loads(result_json(found)) == json.loads(result_json(result))
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written.keys() & PARTS == {key for key in PARTS if result.own.get(key) or vars(result).get(key)}
    allowed = {"reason", "speedup"}
    assert {key for case in written["cases"] for key, value in case.items() if value is None} <= allowed


def _latency(data: dict[str, Any]) -> Any:
    return data["cases"][0]["metrics"]["latency"]


SWEEP: dict[str, Any] = {"kind": "sweep", "sweep": {"slo": None}, "shapes": [{"name": "all", "point": {}, "shape": {}}]}
LOAD: dict[str, Any] = {
    "kind": "load", "load": dict.fromkeys(("arrivals", "file", "slo")) | {"sessions": "shared", "duration_s": 1.0, "seed": 0, "workers": 1},
}  # fmt: skip
BEST: dict[str, Any] = {"shape": "batch=9", "by": "items_per_s", "items_per_s": None, "ci95": None, "ties": []}
SWITCHED: dict[str, Any] = {
    "mode": "cpu-tensors", "rounds": 1, "calls": 1, "ratio": 1.0, "ci95": None, "cost_ns": 0, "cost_ci95_ns": None, "shapes": [],
}  # fmt: skip
AT = "cases[0].metrics.latency"
WRONG: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda data: data["environment"].pop("onnxruntime"), 'environment: the key "onnxruntime" is missing'),
    (lambda data: data["model"].pop("path"), 'model: the key "path" is missing'),
    (lambda data: data["target"].pop("ep"), 'target: the key "ep" is missing'),
    (lambda data: data["placement"].pop("nodes"), 'placement: the key "nodes" is missing'),
    (lambda data: data.pop("cases"), 'the key "cases" is missing or empty'),
    (lambda data: data.update(cases=[]), 'the key "cases" is missing or empty'),
    (lambda data: data.pop("model"), 'the key "model" is missing or empty'),
    (lambda data: data.pop("tool"), 'the key "tool" is missing'),
    (lambda data: data.update(cases=[1]), "cases[0]: an object is needed, not 1"),
    (lambda data: data["cases"][0].pop("mode"), 'cases[0]: the key "mode" is missing'),
    (lambda data: data["cases"][0].update(status="fine"), 'cases[0].status: "fine" is none of the values that are known'),
    (lambda data: data["cases"][0]["metrics"].update(latency=7), f"{AT}: an object is needed, not 7"),
    (lambda data: _latency(data).update(ci95=[1]), f"{AT}.ci95: a list of length 2 is needed, not a list of 1"),
    (lambda data: _latency(data).update(ci95=[2, 1]), f"{AT}.ci95: its low end is above its high end"),
    (lambda data: _latency(data).update(median="x"), f'{AT}.median: a number is needed, not "x"'),
    (lambda data: _latency(data).update(p95=1), f"{AT}: p90 is above p95"),
    (lambda data: _latency(data).update(min=-1), f"{AT}.min: a number of at least 0 is needed, not -1"),
    (lambda data: _latency(data).update(n=0), f"{AT}.n: a number of at least 1 is needed, not 0"),
    (lambda data: _latency(data).update(n=4), f"{AT}.n: there are 3 samples, not 4"),
    (lambda data: _latency(data).update(max=1e300), f"{AT}.max: 1e+300 is beyond what a measurement can give"),
    (lambda data: data["cases"][0]["samples"]["latency"].append(5), "cases[0].blocks.latency: they are of 3 samples, and there are 4"),
    (lambda data: data["cases"][0]["samples"].pop("h2d"), "cases[0].blocks.h2d: their samples are missing, and so are their medians"),
    (lambda data: data["cases"][0]["blocks"].pop("h2d"), "cases[0].samples.h2d: they are of no blocks"),
    (lambda data: data["cases"][0]["blocks"]["h2d"][0].pop(), "cases[0].blocks.h2d[0]: round, number of samples and start are needed"),
    (lambda data: data["cases"][0].update(mode="x" * 300_000), "cases[0].mode: a text of at most 200 characters is needed, not one of 300000"),
    (lambda data: data["cases"][0].update(energy={}), "cases[0].energy: the keys how, of, start_ns, parts and idle, or unsupported are needed"),
    (lambda data: data["cases"][0].update(load_blocks=[{"round": 0, "n": 1, "throughput": 1, "latency": {"p95": 1}}]),
     "cases[0].load_blocks[0].latency: the keys mean, median, p95, p99 and max are needed"),
    (lambda data: data["target"]["device"].pop("name"), "target.device: the keys vendor_id and device_id, or name and index are needed"),
    (lambda data: data["environment"]["cpu"].update(cores=0), "environment.cpu.cores: a number of at least 1 is needed, not 0"),
    (lambda data: data.update(noise={"cores": 0, "blocks": [], "readings": []}), "noise.cores: a number of at least 1 is needed, not 0"),
    (lambda data: data.update(kind="soak", soak={"order": "by size", "reopened": None, "shapes": [], "readings": []}),
     'soak.order: "by size" is none of the values that are known'),
    (lambda data: data.update(SWEEP, switching=[SWITCHED]), "switching[0].shapes: at least one shape is needed"),
    (lambda data: data["cases"][1].update(mode="host-accessible"), "cases[1]: another case has the same mode and point"),
    (lambda data: data["cases"][1].update(point={"batch": 8}), 'cases[1].point: no axis "batch" has 8'),
    (lambda data: data.update(kind="walk"), 'kind: "walk" is none of the kinds that are known'),
    (lambda data: data.update(kind="loop"), 'the key "loop" is missing or empty'),
    (lambda data: data.update(kind="sweep"), 'the key "sweep" is missing or empty'),
    (lambda data: data.update(LOAD, knee={"walking": None}), 'knee: there is no "walking"'),
    (lambda data: data.update(SWEEP, best={"mode": "walking", "modes": {}}), 'best.mode: there is no "walking"'),
    (lambda data: data.update(SWEEP, best={"mode": None, "modes": {"cpu-tensors": BEST}}), 'best.modes.cpu-tensors: there is no "batch=9"'),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_result_that_cannot_be_is_refused_with_the_place(
    change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    path = rewritten(tmp_path, change)
    assert refusal(BadInput, load, path) == f"{path}: {message}"


def test_the_text_is_for_reading() -> None:
    text = result_json(whole())
    assert text.endswith("}\n")
    assert text.startswith('{\n  "schema_version": 2,\n  "tool": {\n')
    assert '"model": "µ"' in text
    lines = [line.strip() for line in result_json(whole()).splitlines()]
    for line in (
        '"latency": [3000, 1000, 2000],',
        '"h2d": [10, 20]',
        '"ci95": [1000, 3000]',
        '"ci95": [1.25, 1.75],',
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
    def change(data: dict[str, Any]) -> None:
        data["note"] = data["cases"][0]["reason"] = "a\x00\x1b[31m\n\ud800"
        data["placement"]["nodes"] = {"EP\x07": 3}

    strange = load(rewritten(tmp_path, change))
    assert strange.note == strange.cases[0].reason == "a\ufffd\ufffd[31m\n\ufffd"
    assert strange.placement["nodes"] == {"EP\ufffd": 3}
    assert not re.search(r"[\x00-\x09\x0b-\x1f\ud800-\udfff]", result_json(strange))
    assert strange.cases[0].samples == whole().cases[0].samples


def rewritten(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A result file, changed."""
    data = json.loads(result_json(whole()))
    change(data)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_unknown_keys_are_kept(tmp_path: Path) -> None:
    def add(data: dict[str, Any]) -> None:
        data["new"] = {"a": [-1]}
        data["target"]["new"] = 2
        data["cases"][0]["new"] = 3
        _latency(data)["p999"] = 4

    path = rewritten(tmp_path, add)
    found = load(path)
    assert replace(found, target=whole().target) == whole()
    assert json.loads(result_json(found)) == json.loads(path.read_text())


def test_files_that_are_no_results(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert refusal(BadInput, load, path) == f"cannot read {path}: No such file or directory"
    for version in (0, 3, "1", None):
        path.write_text(json.dumps({**json.loads(result_json(whole())), "schema_version": version}))
        why = "a newer ortbench wrote it" if version == 3 else "measure again"
        has = f"{path} has schema_version {json.dumps(version)}"
        assert refusal(BadInput, load, path) == f"{has}, this ortbench reads schema_version 2: {why}"
    for data in [b"", b"no JSON", b'{"schema_version": 1', b"{'schema_version': 1}", b"\xff\xfe\x00"]:
        path.write_bytes(data)
        assert refusal(BadInput, load, path).startswith(f"{path} is not JSON: ")
    for text in ["[]", "1", "null", '"text"', "{}", '{"cases": []}']:
        path.write_text(text, encoding="utf-8")
        assert refusal(BadInput, load, path).endswith("is not a result file of ortbench: it has no schema_version")
    assert refusal(BadInput, load, tmp_path).startswith(f"cannot read {tmp_path}: ")
    path.write_text(json.dumps({**json.loads(result_json(whole())), "kind": "bandwidth"}))
    assert refusal(BadInput, load, path).startswith(
        f"{path} is a bandwidth curve: table.md and bandwidth.svg beside it show it"
    )


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


# What a result knows of itself


def test_what_a_result_knows_of_itself() -> None:
    result = whole()
    assert result.case("cpu-tensors") is result.cases[1]
    assert result.case("host-accessible") is None  # it failed
    assert result.case("device-tensors") is None
    result = whole()
    result.warn("c", "m")
    result.warn("c", "another")
    assert [warning["message"] for warning in result.warnings] == ["m", "another"]
    case = whole().cases[0]
    assert (case.median("latency"), case.median("inference"), case.median("none")) == (2_000, None, None)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
def test_others_may_read_the_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.txt", "")
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644
