"""EP options that say whose they are, as ``ep.cuda.KEY``."""

from __future__ import annotations

from ortbench.core.errors import BadInput
from ortbench.plan.target import own, prefixes, refuse_unclaimed
from tests.expect import refusal

CUDA = "CUDAExecutionProvider"


def test_the_prefix_of_the_ep_is_taken_off() -> None:
    assert prefixes(CUDA) == ("ep.cuda.", "ep.cudaexecutionprovider.")
    assert prefixes("NvTensorRTRTXExecutionProvider")[:2] == ("ep.nv-tensorrt-rtx.", "ep.nvtensorrtrtx.")
    assert prefixes("OpenVINOExecutionProvider.AUTO") == ("ep.openvinoexecutionprovider.auto.",)
    for written in ["a_key", "ep.cuda.a_key", "ep.cudaexecutionprovider.a_key", "ep.CUDA.a_key"]:
        assert own({written: "1", "other": "2"}, CUDA) == {"a_key": "1", "other": "2"}
    options = {"ep.context_enable": "1", "a.b.c": "2", "ep.cuda.": "3", "deep.cuda.key": "4"}
    assert own(options, CUDA) == options
    assert own({"ep.cuda.arena.max": "1"}, CUDA) == {"arena.max": "1"}


def test_options_that_are_refused() -> None:
    other = refusal(BadInput, own, {"ep.webgpu.key": "1"}, CUDA)
    assert other.startswith(f"--ep-option ep.webgpu.key: is an option of another EP than {CUDA}")
    assert own({"ep.webgpu.key": "1", "key": "2"}, CUDA, several_eps=True) == {"key": "2"}
    for several in [False, True]:
        said = refusal(BadInput, own, {"key": "1", "ep.cuda.key": "1"}, CUDA, several)
        assert said.startswith("--ep-option key and ep.cuda.key are the same option")
    refuse_unclaimed(["key", "ep.cuda.key", "ep.Another.key"], [CUDA, "Another"])
    none = refusal(BadInput, refuse_unclaimed, ["key", "ep.cdua.key"], [CUDA, "Another", CUDA])
    assert none == f"--ep-option ep.cdua.key: is an option of none of the EPs that run here: {CUDA} and Another"
