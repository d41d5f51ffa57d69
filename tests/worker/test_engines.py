"""Engine caches of TensorRT EPs, as far as a machine without a GPU goes: options, the folder, what is said, bad input."""

from __future__ import annotations

import gc
import weakref
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import onnxruntime
import pytest

from ortbench.core import files
from ortbench.core.eps import TENSORRT, File, is_warm
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.measure.configuration import Configuration
from ortbench.plan.plan import Plan
from ortbench.plan.target import Inputs, Target
from ortbench.worker import Worker, session
from ortbench.worker.providers import Provider
from tests.conftest import MODELS
from tests.expect import refusal

TINY = str(MODELS / "tiny.onnx")


def cached(folder: Path, **options: str) -> Target:
    return Target(ep="tensorrt", options=options, engine_cache=str(folder))


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


def test_what_is_refused(tmp_path: Path) -> None:
    own = cached(tmp_path, trt_engine_cache_path="/x")
    assert "trt_engine_cache_path itself: leave them out" in refusal(BadInput, folder_of, own)
    (tmp_path / "file").write_text("")
    assert "/file: cannot be used: " in refusal(BadInput, folder_of, cached(tmp_path / "file"))


def test_the_options_reach_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def refuse(path: object, options: object, providers: list[Any], **_: object) -> None:
        given.append(providers[0])
        raise RuntimeError("no GPU")

    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    target = cached(tmp_path / "new" / "cache", trt_fp16_enable="1")
    for captured in (False, True):  # what ortbench itself sets for a graph makes no other engine
        with pytest.raises(Exception, match="no GPU"):
            session.open_model(TINY, replace(target, cuda_graph=captured), Provider(TENSORRT))
    (own,) = (tmp_path / "new" / "cache").glob("tiny-*")
    options = {f"trt_{kind}_cache_enable": "1" for kind in ("engine", "timing")} | {"trt_fp16_enable": "1"}
    options |= {f"trt_{kind}_cache_path": str(own) for kind in ("engine", "timing")}
    assert given == [(TENSORRT, options), (TENSORRT, {**options, "trt_cuda_graph_enable": "1"})]


OLD: File = ("m_sm90.engine", 10, 1)
TIMINGS: File = ("cache_sm90.timing", 10, 1)


@pytest.mark.parametrize(
    ("before", "after", "warm"),
    [
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
    cold, own = session.EngineWatch(TINY, cached(tmp_path)), Path(folder_of(cached(tmp_path)))
    (own / "m.engine").write_text("engine")
    assert cold.cache_state() == {"path": str(own), "warm": False}
    assert session.EngineWatch(TINY, cached(tmp_path)).cache_state() == {"path": str(own), "warm": True}


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
    assert [warning["code"] for warning in side.result.warnings] == ["engine-not-kept"]


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
    side, full = Configuration(Plan(TINY, cached(tmp_path))), OSError(28, "No space left on device")

    def noted(folder: Path) -> list[str]:
        files.not_written()
        side.result.setup["engine_cache"] = {"path": str(folder), "warm": False}
        side.release()
        return files.not_written()

    gone = tmp_path / "gone"
    assert noted(gone) == [f"the engine in {gone} was not written: No such file or directory"]
    assert noted(tmp_path) == []  # the EP built none, though it could have been kept
    with monkeypatch.context() as disk:
        disk.setattr("ortbench.measure.describe.write_atomically", Mock(side_effect=full))
        assert noted(tmp_path) == [f"the engine in {tmp_path} was not written: No space left on device"]
    (tmp_path / "x.engine").write_bytes(b"engine")
    assert noted(tmp_path) == []
