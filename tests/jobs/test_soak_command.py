"""`ortbench soak`, as its users have it, on the reference device that leaks what it is told to."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from ortbench.features.soak.measure import Downsampled
from ortbench.features.soak.plan import soak_of
from ortbench.jobs import run
from ortbench.measure import gpus
from ortbench.measure.process import WorkerLost
from tests.conftest import MODELS, ortbench
from tests.jobs.reports import json_in
from tests.softcuda import Config
from tests.virtual.machine import VARIABLE
from tests.worker.test_cuda import with_knobs

TINY, SHAPED = MODELS / "tiny.onnx", MODELS / "multi_output.onnx"
MANY = "batch=" + ",".join(map(str, range(1, 101)))


def soaked(tmp_path: Path, model: Path, *more: object) -> tuple[str, dict[str, Any]]:
    ran = ortbench("soak", model, *more, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    return ran.out, json_in(tmp_path / "out")


def device(library: Path, **knobs: float) -> tuple[object, ...]:
    options = [word for knob, value in knobs.items() for word in ("--ep-option", f"{knob}={value}")]
    return ("--ep-library", library, "--ep-option", "compute_us=100", *options)


LEAKS: dict[str, tuple[Path, dict[str, float], tuple[object, ...], str, float, str]] = {
    "of an inference": (TINY, {"leak_bytes": 1000}, ("--iterations", 1000), "host_growth", 1e6, "grows by"),
    "of a session": (TINY, {"leak_session_bytes": 1_000_000}, ("--iterations", 100, "--reopen", 2), "host_growth", 5e8, "grows by"),
    "of handles": (TINY, {"leak_handles": 0.05}, ("--iterations", 1000), "handle_growth", 50, "Growth: open handles"),
}  # fmt: skip


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_found(leak: str, library: Path, tmp_path: Path) -> None:
    model, knobs, more, metric, growth, words = LEAKS[leak]
    out, result = soaked(tmp_path, model, *device(library, **knobs), *more)
    assert words in out
    (case,) = result["cases"]
    assert (result["kind"], case["mode"], case["status"]) == ("soak", "cpu-tensors", "ok")
    assert case["metrics"][metric]["value"] == pytest.approx(growth, rel=0.1)
    assert result["soak"]["reopened"] == (2 if "--reopen" in more else None)
    readings = result["soak"]["readings"]
    assert readings[-1]["inferences"] == more[1] == len(case["samples"]["latency"])
    if leak == "of an inference":
        assert [it["inferences"] for it in readings[:3]] == [1, 3, 5]
        (file,) = (tmp_path / "out").glob("*/result.json")
        assert ortbench("gate", file, "--max-growth", "100kB").code == 3


@pytest.mark.wide
def test_a_leak_of_each_new_shape_ends(library: Path, tmp_path: Path) -> None:
    leaks = device(library, leak_shape_bytes=20_000)
    out, result = soaked(tmp_path, SHAPED, *leaks, "--dim", MANY, "--iterations", 2000, "--seed", 3)
    assert "in the first" in out
    soak = result["soak"]
    assert (soak["order"], len(soak["shapes"]), sum(it["n"] for it in soak["shapes"])) == ("random", 100, 2000)


def test_smaller_arenas_are_soaked_beside(tmp_path: Path) -> None:
    line = ("soak", SHAPED, "--ep", "cpu", "--dim", "batch=1,2,4", "--shape-order", "cycle", "--try", "arena")
    ran = ortbench(*line, "--iterations", 30, "--out", tmp_path)
    assert ran.code == 0, ran.err
    results = {it.parent.name: json.loads(it.read_text()) for it in tmp_path.glob("*/*/result.json")}
    assert results.keys() == {"default", "no-CPU-arena", "arena-shrinks"}
    targets = {name: result["target"] for name, result in results.items()}
    assert [targets[name]["cpu_mem_arena"] for name in ("default", "no-CPU-arena")] == [True, False]
    assert targets["arena-shrinks"]["run_config"] == {"memory.enable_memory_arena_shrinkage": "cpu:0"}
    for name, result in results.items():
        assert result["soak"]["readings"][-1]["inferences"] == 30
        assert [(it["name"], it["n"]) for it in result["soak"]["shapes"]] == [(f"batch={it}", 10) for it in (1, 2, 4)]
        readings = [it["private"] for it in result["soak"]["readings"]]
        assert result["cases"][0]["metrics"]["host_held"]["value"] == median(readings[len(readings) // 2 :])
        assert re.search(rf"(?m)^[ a-z-]* {name.replace('-', ' ')}  ", ran.out)


@pytest.mark.pure
@pytest.mark.parametrize("count", [1, 8, 9, 17, 1000])
def test_what_is_downsampled_keeps_the_first_and_the_last(count: int) -> None:
    kept: Downsampled[int] = Downsampled(8)
    for number in range(count):
        kept.add(number)
    assert (kept.items[0], kept.items[-1], kept.count) == (0, count - 1, count)
    assert len(kept.items) <= 9
    assert len({b - a for a, b in pairwise(kept.items[:-1])}) <= 1


@pytest.mark.parametrize("by_process", [True, False])
def test_device_memory_is_read_by_nvml(software_cuda: tuple[str, ...], by_process: bool, tmp_path: Path) -> None:
    prefix = with_knobs(software_cuda, Config(used=tmp_path / "used", processes=by_process, leak_bytes=8192))
    ran = ortbench("soak", TINY, "--ep", "cuda", "--iterations", 30, "--out", tmp_path / "out", prefix=prefix)
    assert ran.code == 0, ran.err
    assert json_in(tmp_path / "out")["soak"]["readings"][-1]["device"] >= 30 * 8192
    assert "device memory" in ran.out


def test_noise_is_no_matter_of_a_gate_of_growth(library: Path, tmp_path: Path) -> None:
    line = ("gate", "--model", TINY, *device(library, leak_bytes=1000), "--duration", 0.5, "--max-growth", "2MB")
    ran = ortbench(*line, "--out", tmp_path, **{VARIABLE: json.dumps({"others": [1.0]})})
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.pure
def test_cards_are_read_before_a_worker_opens_the_model_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def opened(_: object) -> None:
        raise WorkerLost("is asked for")

    monkeypatch.setattr(gpus, "read_cards", lambda: done.append("read"))
    monkeypatch.setattr(run, "open_worker", opened)
    with pytest.raises(WorkerLost):
        run.measure([soak_of(str(TINY), {})], None)
    assert done == ["read"]
