"""EPs that build an engine of a model before they run it, and where they keep it. Pure.

Options are those of ONNX Runtime's documentation of the TensorRT EP and of the TensorRT RTX EP. The former writes its
engines, and the timings that its builder took, as soon as they are there; the latter writes what it compiled for the card
when the session ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ortbench.core.errors import BadInput
from ortbench.core.safe_text import listed

TENSORRT, TENSORRT_RTX = "TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider"
BUILDERS = (TENSORRT, TENSORRT_RTX)  # whose engines `--engine-cache` keeps

File = tuple[str, int, int]  # name, bytes, time of its last change in ns


# By EP, the options that switch its cache on, and those that name its folder.
CACHES = {
    TENSORRT: (
        ("trt_engine_cache_enable", "trt_timing_cache_enable"),
        ("trt_engine_cache_path", "trt_timing_cache_path"),
    ),
    TENSORRT_RTX: ((), ("nv_runtime_cache_path",)),
    "OpenVINOExecutionProvider": ((), ("cache_dir",)),
    "MIGraphXExecutionProvider": ((), ("migraphx_model_cache_dir",)),
    "CoreMLExecutionProvider": ((), ("ModelCacheDirectory",)),
}


def cache_options(
    ep_name: str,
    folder: str,
    given: Mapping[str, str],
    option: str = "--engine-cache",
    known: Collection[str] = BUILDERS,
) -> dict[str, str]:
    """The EP options that keep engines in an absolute folder; `BadInput` for an EP that builds none, or options given twice."""
    if ep_name not in known:
        raise BadInput(f"{option}: {ep_name} builds no engine; {listed([*known])} do")
    switches, folders = CACHES[ep_name]
    options = {**dict.fromkeys(switches, "1"), **dict.fromkeys(folders, folder)}
    twice = sorted(options.keys() & given.keys())
    if twice:
        raise BadInput(f"{option} sets {', '.join(twice)} itself: leave them out of --ep-option, or it")
    return options


def is_warm(before: frozenset[File], after: frozenset[File]) -> bool:
    """Whether a session took its engine from the cache, by the files in it before and after its first run.

    An engine file that is new was built. The timings change with every build, and on their own make it faster only.
    """
    return bool(before) and not any(name.endswith(".engine") for name, _, _ in after - before)
