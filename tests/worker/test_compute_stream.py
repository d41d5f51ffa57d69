"""A stream of the user's: made where there is one, and a clear line where an EP takes none."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.worker import streams
from ortbench.worker.providers import Provider


def test_streams_that_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("no streams today")

    by_name = Provider("CUDAExecutionProvider")
    with pytest.raises(BadInput, match="--stream cuda-python does without"):
        streams.make_compute_stream("ort", by_name)
    with pytest.raises(BenchmarkFailed, match="CUDAExecutionProvider made no stream: no streams today"):
        streams.make_compute_stream("ort", replace(by_name, ep_device=SimpleNamespace(create_sync_stream=refuse)))
    monkeypatch.setitem(sys.modules, "cuda", None)
    with pytest.raises(BadInput, match="--stream cuda-python: the package cuda-python does not load: "):
        streams.make_compute_stream("cuda-python", by_name)
