"""Why a library did not load, in words a user can act on."""

from __future__ import annotations

import pytest

from ortbench.runtime.providers import load_problem


@pytest.mark.parametrize(
    ("library", "hint"),
    [
        ("libcublasLt.so.13", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
        ("libcudnn.so.9", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
        ("libnvrtc.so.13", "pip install 'onnxruntime-gpu[cuda,cudnn]'"),
        ("libnvinfer.so.10", "part of TensorRT"),
        ("libvulkan.so.1", "apt install libvulkan1"),
    ],
)
def test_a_missing_library_is_named_with_what_brings_it(library: str, hint: str) -> None:
    error = RuntimeError(f"Failed to load ep.so with error: {library}: cannot open shared object file: No such file")
    assert load_problem(error).startswith(f"the shared library {library} is missing")
    assert hint in load_problem(error)


def test_a_library_that_is_not_known_is_named_without_a_hint() -> None:
    error = RuntimeError("libother.so.1: cannot open shared object file: No such file or directory")
    assert load_problem(error) == "the shared library libother.so.1 is missing"
