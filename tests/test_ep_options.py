"""EP options that say whose they are, as ``ep.cuda.KEY``."""

from __future__ import annotations

import pytest

from ortbench.ep_options import own, prefixes, refuse_unclaimed
from ortbench.errors import BadInput

CUDA = "CUDAExecutionProvider"


@pytest.mark.parametrize(
    ("ep", "expected"),
    [
        (CUDA, ("ep.cuda.", "ep.cudaexecutionprovider.")),
        ("NvTensorRTRTXExecutionProvider",
         ("ep.nv-tensorrt-rtx.", "ep.nvtensorrtrtx.", "ep.nvtensorrtrtxexecutionprovider.")),
        ("OpenVINOExecutionProvider.AUTO", ("ep.openvinoexecutionprovider.auto.",)),
        ("Another", ("ep.another.",)),
    ],
)  # fmt: skip
def test_an_ep_is_named_by_its_short_and_its_full_name(ep: str, expected: tuple[str, ...]) -> None:
    assert prefixes(ep) == expected


@pytest.mark.parametrize("written", ["a_key", "ep.cuda.a_key", "ep.cudaexecutionprovider.a_key", "ep.CUDA.a_key"])
def test_the_prefix_of_the_ep_is_taken_off(written: str) -> None:
    assert own({written: "1", "other": "2"}, CUDA) == {"a_key": "1", "other": "2"}


def test_what_only_looks_like_a_prefix_is_left() -> None:
    options = {"ep.context_enable": "1", "a.b.c": "2", "ep.cuda.": "3", "deep.cuda.key": "4"}
    assert own(options, CUDA) == options
    assert own({"ep.cuda.arena.max": "1"}, CUDA) == {"arena.max": "1"}


def test_an_option_of_another_ep_is_refused_and_beside_that_ep_left_to_it() -> None:
    with pytest.raises(BadInput) as caught:
        own({"ep.webgpu.key": "1"}, CUDA)
    assert str(caught.value) == (
        "--ep-option ep.webgpu.key: is an option of another EP than CUDAExecutionProvider, which runs here: "
        "write ep.cuda.KEY or KEY alone"
    )
    assert own({"ep.webgpu.key": "1", "key": "2"}, CUDA, several_eps=True) == {"key": "2"}


@pytest.mark.parametrize("several", [False, True])
def test_one_option_in_two_spellings_is_refused(several: bool) -> None:
    with pytest.raises(BadInput) as caught:
        own({"key": "1", "ep.cuda.key": "1"}, CUDA, several)
    assert str(caught.value) == (
        "--ep-option key and ep.cuda.key are the same option of CUDAExecutionProvider: give it once"
    )


def test_an_option_of_no_ep_of_the_run_is_refused() -> None:
    refuse_unclaimed(["key", "ep.cuda.key", "ep.Another.key"], [CUDA, "Another"])
    with pytest.raises(BadInput) as caught:
        refuse_unclaimed(["key", "ep.cdua.key"], [CUDA, "Another", CUDA])
    assert str(caught.value) == (
        "--ep-option ep.cdua.key: is an option of none of the EPs that run here: CUDAExecutionProvider and Another"
    )
