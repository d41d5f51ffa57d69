"""EP options that say whose they are, as ``ep.cuda.KEY``."""

from __future__ import annotations

from ortbench.core.errors import BadInput
from ortbench.plan.target import own, prefixes, refuse_unclaimed
from tests.expect import refusal

CUDA = "CUDAExecutionProvider"


def test_the_prefix_of_the_ep_is_taken_off() -> None:
    for ep, expected in [
        (CUDA, ("ep.cuda.", "ep.cudaexecutionprovider.")),
        ("NvTensorRTRTXExecutionProvider",
         ("ep.nv-tensorrt-rtx.", "ep.nvtensorrtrtx.", "ep.nvtensorrtrtxexecutionprovider.")),
        ("OpenVINOExecutionProvider.AUTO", ("ep.openvinoexecutionprovider.auto.",)),
        ("Another", ("ep.another.",)),
    ]:  # fmt: skip
        assert prefixes(ep) == expected
    for written in ["a_key", "ep.cuda.a_key", "ep.cudaexecutionprovider.a_key", "ep.CUDA.a_key"]:
        assert own({written: "1", "other": "2"}, CUDA) == {"a_key": "1", "other": "2"}
    options = {"ep.context_enable": "1", "a.b.c": "2", "ep.cuda.": "3", "deep.cuda.key": "4"}
    assert own(options, CUDA) == options
    assert own({"ep.cuda.arena.max": "1"}, CUDA) == {"arena.max": "1"}


def test_options_that_are_refused() -> None:
    assert refusal(BadInput, own, {"ep.webgpu.key": "1"}, CUDA) == (
        "--ep-option ep.webgpu.key: is an option of another EP than CUDAExecutionProvider, which runs here: "
        "write ep.cuda.KEY or KEY alone"
    )
    assert own({"ep.webgpu.key": "1", "key": "2"}, CUDA, several_eps=True) == {"key": "2"}
    said = "--ep-option key and ep.cuda.key are the same option of CUDAExecutionProvider: give it once"
    for several in [False, True]:
        assert refusal(BadInput, own, {"key": "1", "ep.cuda.key": "1"}, CUDA, several) == said
    refuse_unclaimed(["key", "ep.cuda.key", "ep.Another.key"], [CUDA, "Another"])
    assert refusal(BadInput, refuse_unclaimed, ["key", "ep.cdua.key"], [CUDA, "Another", CUDA]) == (
        "--ep-option ep.cdua.key: is an option of none of the EPs that run here: CUDAExecutionProvider and Another"
    )
