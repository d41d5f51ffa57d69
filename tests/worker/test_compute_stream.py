"""A stream of the user's: made where there is one, and a clear line where an EP takes none."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.worker import streams
from ortbench.worker.providers import Provider
from tests.conftest import ROOT


@pytest.mark.process
def test_a_stream_of_onnx_runtime(real_library: Path) -> None:
    """On the reference device, whose sessions take none, but which makes some."""
    code = """if True:
        import json, sys
        import onnxruntime as ort
        from ortbench.worker import libraries, providers, streams
        (name,) = libraries.register_library(sys.argv[1])
        provider = providers.Provider(name, libraries.ep_devices(name)[0])
        made = [streams.make_ort_stream(provider) for _ in range(2)]
        print(json.dumps([stream.options() for stream in made]))
    """
    done = subprocess.run(
        [sys.executable, "-c", code, str(real_library)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    options = json.loads(done.stdout)
    assert [set(each) for each in options] == [{"has_user_compute_stream", "user_compute_stream"}] * 2
    handles = [int(each["user_compute_stream"]) for each in options]
    assert 0 not in handles
    assert handles[0] != handles[1]


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
