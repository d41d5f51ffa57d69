"""Engine caches of TensorRT EPs, as far as a machine without a GPU goes: options, the folder, what is said, bad input."""

from __future__ import annotations

import gc
import mmap
import weakref
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from ortbench.analysis.eps import TENSORRT, TENSORRT_RTX, File, cache_options, is_warm
from ortbench.core import files
from ortbench.core.eps import CPU_EP
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.facts.shared import engine_facts
from ortbench.features.suite.job import cases
from ortbench.features.suite.job.jobs import Job, fingerprint, jobs_of
from ortbench.measure.configuration import Configuration
from ortbench.plan.baseline import baseline_of
from ortbench.plan.plan import Plan
from ortbench.plan.target import Inputs, Target
from ortbench.worker import libraries, session
from ortbench.worker.providers import Provider
from ortbench.worker.state import Worker
from tests.conftest import MODELS, lacking, ortbench
from tests.results import fact, result_of, values

TINY = str(MODELS / "tiny.onnx")


def cached(folder: Path, **options: str) -> Target:
    return Target(ep="tensorrt", options=options, engine_cache=str(folder))


def test_the_options_of_tensorrt(tmp_path: Path) -> None:
    found = session.engine_options(TINY, cached(tmp_path / "new" / "cache", trt_fp16_enable="1"), TENSORRT)
    (own,) = (tmp_path / "new" / "cache").iterdir()
    assert own.name.startswith("tiny-")
    assert found == {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(own),
        "trt_timing_cache_enable": "1",
        "trt_timing_cache_path": str(own),
        "trt_fp16_enable": "1",
    }
    assert own.is_dir()


def test_the_options_of_tensorrt_rtx(tmp_path: Path) -> None:
    found = session.engine_options(TINY, cached(tmp_path), TENSORRT_RTX)
    assert found == {"nv_runtime_cache_path": str(*tmp_path.iterdir())}


def test_a_relative_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = session.engine_options(TINY, cached(Path("c")), TENSORRT_RTX)["nv_runtime_cache_path"]
    assert found == str(*(tmp_path / "c").iterdir())
    assert session.EngineWatch(TINY, cached(Path("c"))).cache_state() == {
        "path": f"c/{Path(found).name}",
        "warm": False,
    }


def test_without_a_cache_the_options_are_the_users() -> None:
    assert session.engine_options(TINY, Target(options={"a": "b"}), CPU_EP) == {"a": "b"}
    assert session.EngineWatch(TINY, Target()).cache_state() is None


def folder_of(target: Target, model: str = TINY) -> str:
    return session.engine_options(model, target, TENSORRT)["trt_engine_cache_path"]


def test_all_that_an_engine_follows_from_has_a_folder_of_its_own(tmp_path: Path) -> None:
    plain = cached(tmp_path)
    fp16, cached_fp16 = {"trt_fp16_enable": "1"}, {"trt_fp16_enable": "1", "trt_int8_enable": "0"}
    others = [
        replace(plain, options=fp16),
        replace(plain, options=cached_fp16),
        replace(plain, session_config={"ep.context_enable": "1"}),
        replace(plain, opt_level="disable"),
    ]
    model = tmp_path / "tiny.onnx"
    model.write_bytes(Path(TINY).read_bytes() + b" ")
    assert len({folder_of(plain, str(model)), *(folder_of(it) for it in (plain, *others))}) == 6
    assert folder_of(replace(plain, options=dict(reversed(cached_fp16.items())))) == folder_of(others[1])
    assert folder_of(replace(plain, intra_op_threads=2)) == folder_of(plain)


def test_a_baseline_has_the_candidates_cache_unless_it_is_another_ep() -> None:
    plan = Plan(TINY, cached(Path("c"), trt_fp16_enable="1"))
    assert baseline_of(plan, {"baseline-set.ep-option": {}}).target.engine_cache == "c"
    assert baseline_of(plan, {"baseline-model": "other.onnx"}).target.engine_cache == "c"
    assert baseline_of(plan, {"baseline-set.ep": "cuda"}).target.engine_cache is None


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        ["run", TINY, "--ep", "cpu"],
        ["gate", "--model", TINY, "--ep", "cpu", "--max-cpu-nodes", "0"],
        ["profile", TINY, "--ep", "cpu", "--attach-only"],
        ["inspect", TINY, "--ep", "cpu"],
    ],
    ids=lambda it: str(it[0]),
)
def test_every_command_that_makes_a_session_takes_it(command: list[str], tmp_path: Path) -> None:
    ran = ortbench(*command, "--engine-cache", tmp_path / "c", cwd=tmp_path)
    assert (ran.code, ran.error_line) == (
        2,
        "--engine-cache: CPUExecutionProvider builds no engine; TensorrtExecutionProvider and "
        "NvTensorRTRTXExecutionProvider do",
    )
    assert not (tmp_path / "c").exists()


@pytest.mark.process
def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"trt_engine_cache_path itself: leave them out"):
        session.engine_options(TINY, cached(tmp_path, trt_engine_cache_path="/x"), TENSORRT)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"--engine-cache .*/file: cannot be used: "):
        session.engine_options(TINY, cached(tmp_path / "file"), TENSORRT)
    for command in (["inspect", TINY], ["gate", "result.json", "--max-cpu-nodes", "0"]):
        ran = ortbench(*command, "--engine-cache", "c")
        assert ran.code == 2
        assert "--engine-cache" in ran.error_line


def test_a_suite_takes_it_relative_to_its_file_and_for_no_case_it_is_another_one(tmp_path: Path) -> None:
    def job(cache: str) -> Job:
        text = f'[suite]\nname = "a"\n[[bench]]\nmodel = "{TINY}"\nep = "tensorrt"\n{cache}\n'
        (tmp_path / "a.toml").write_text(text)
        (found,) = jobs_of(cases.read(tmp_path / "a.toml", {}), ())
        return found

    cached_job, plain = job('engine-cache = "c"'), job("")
    assert cached_job.plans[0].target.engine_cache == str(tmp_path / "c")
    assert fingerprint(cached_job) == fingerprint(plain)


def test_the_options_reach_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def refuse(path: object, options: object, providers: list[Any], **_: object) -> None:
        given.extend(providers)
        raise RuntimeError("no GPU")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    for captured in (False, True):  # what ortbench itself sets for a graph makes no other engine
        with pytest.raises(Exception, match="no GPU"):
            session.open_model(TINY, replace(cached(tmp_path), cuda_graph=captured), Provider(TENSORRT))
    (name, options), _, (_, captured_options), _ = given
    (own,) = tmp_path.iterdir()
    assert (name, options["trt_engine_cache_path"]) == (TENSORRT, str(own))
    assert captured_options == {**options, "trt_cuda_graph_enable": "1"}


def test_the_ep_knows_the_options_by_these_names() -> None:
    library = libraries.bundled_library(TENSORRT)
    if library is None:
        lacking("this onnxruntime package has no TensorRT EP")
    with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for name in cache_options(TENSORRT, "/c", {}):
            assert content.find(b"\0" + name.encode() + b"\0") > 0, name


OLD: File = ("m_sm90.engine", 10, 1)
TIMINGS: File = ("cache_sm90.timing", 10, 1)


@pytest.mark.parametrize(
    ("before", "after", "warm"),
    [
        ([], [], False),
        ([], [OLD], False),
        ([OLD], [OLD], True),
        ([OLD, TIMINGS], [OLD, (*TIMINGS[:2], 2)], True),
        ([OLD], [OLD, ("m_fp16_sm90.engine", 10, 2)], False),  # with other options: another engine
        ([OLD], [(OLD[0], 11, 2)], False),
        ([TIMINGS], [TIMINGS, OLD], False),
        ([("graph_0", 5, 1)], [("graph_0", 5, 1)], True),  # TensorRT RTX writes its file at the session's end
    ],
)
def test_warm(before: list[File], after: list[File], warm: bool) -> None:
    assert is_warm(frozenset(before), frozenset(after)) is warm


def test_the_watch_sees_what_is_built(tmp_path: Path) -> None:
    target = cached(tmp_path)
    cold = session.EngineWatch(TINY, target)
    own = Path(session.engine_options(TINY, target, TENSORRT)["trt_engine_cache_path"])
    (own / "m.engine").write_text("engine")
    assert cold.cache_state() == {"path": str(own), "warm": False}
    assert session.EngineWatch(TINY, target).cache_state() == {"path": str(own), "warm": True}


def test_its_facts() -> None:
    times: dict[str, Any] = {"setup__session_ns": 42_000_000_000, "setup__first_inference_ns": 310_000_000}
    trt: dict[str, Any] = {"target__ep": TENSORRT, **times}
    found = fact(result_of(**trt, setup__engine_cache=None), "engine")
    assert (found.verdict, found.next) == ("built", "measure again with --engine-cache DIR")
    assert values(found) == {"session": 42_000_000_000, "first": 310_000_000}
    for warm in (False, True):  # nobody acts on a cache that does its work
        assert list(engine_facts(result_of(**trt, setup__engine_cache={"path": "c", "warm": warm}))) == []
    assert list(engine_facts(result_of(**times))) == []


def test_a_side_has_its_session_end_in_order_where_an_engine_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(self: Configuration, do: str) -> None:
        asked.append(do)
        if len(asked) > 1:
            raise BenchmarkFailed("it crashed")

    monkeypatch.setattr(Configuration, "ask", ask)
    Configuration(Plan(TINY)).release()
    assert asked == []
    side = Configuration(Plan(TINY, cached(Path("c"))))
    side.release()
    assert (asked, side.result.warnings) == (["release"], [])
    side.release()
    (warning,) = side.result.warnings
    assert warning["code"] == "engine-not-kept"
    assert warning["message"].endswith("may not be kept: it crashed")


def test_a_session_that_is_released_has_ended() -> None:
    worker = Worker()
    asked = {"model": TINY, "target": asdict(Target(ep="cpu")), "inputs": asdict(Inputs())}
    assert "ok" in worker.answer({"do": "open", **asked})
    for mode in ("cpu-tensors", "device-resident", "host-accessible"):
        assert "ok" in worker.answer({"do": "prepare", "mode": mode, "warmup": 1})
    ended = weakref.ref(worker.state.opened.model.session)
    gc.collect()
    assert ended() is not None
    assert worker.answer({"do": "release"}) == {"ok": {}}
    assert ended() is None


def test_an_engine_that_could_not_be_kept_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Configuration, "ask", lambda self, do: None)
    side = Configuration(Plan(TINY, cached(tmp_path)))

    def noted(folder: Path) -> list[str]:
        files.not_written()
        side.result.setup["engine_cache"] = {"path": str(folder), "warm": False}
        side.release()
        return files.not_written()

    gone = tmp_path / "gone"
    assert noted(gone) == [f"the engine in {gone} was not written: No such file or directory"]
    assert noted(tmp_path) == []  # the EP built none, though it could have been kept
    assert list(tmp_path.iterdir()) == []

    def full(path: Path, content: str | bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ortbench.measure.describe.write_atomically", full)
    assert noted(tmp_path) == [f"the engine in {tmp_path} was not written: No space left on device"]
    (tmp_path / "x.engine").write_bytes(b"engine")
    assert noted(tmp_path) == []
