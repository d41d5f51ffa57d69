"""What is known of EPs: packages that hinder ONNX Runtime, and engines that EPs build of a model. Pure."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ortbench.core.eps import is_nvidia
from ortbench.core.errors import BadInput
from ortbench.core.safe_text import join_words

if TYPE_CHECKING:  # a worker loads this, and none of what else is known of a machine
    from ortbench.model.protocol import Distribution, ListedEp


OVERWRITTEN, SHARED = "packages-overwritten", "ep-name-shared"  # codes of warnings


class Overwritten(NamedTuple):
    """What is wrong in a sentence, and the two commands that mend it."""

    sentence: str
    commands: tuple[str, str]

    @property
    def message(self) -> str:
        return f"{self.sentence}; mend it with: {' && '.join(self.commands)}"


def overwritten(distributions: Sequence[Distribution]) -> Overwritten | None:
    """What to say of two packages or more in one folder; None of fewer."""
    if len(distributions) < 2:
        return None
    names = sorted(it["name"] for it in distributions)
    # Who has another package beside the plain one wanted what only that one has.
    kept = next((it for it in sorted(distributions, key=lambda it: it["name"]) if it["name"] != "onnxruntime"), None)
    assert kept is not None, "a folder holds one package of a name"
    said = ", ".join(f"{it['name']} {it['version']}" for it in sorted(distributions, key=lambda it: it["name"]))
    return Overwritten(
        f"{said} bring the same module onnxruntime, and the one installed last has overwritten files of the other"
        f"{'s' if len(names) > 2 else ''}",
        (f"pip uninstall -y {' '.join(names)}", f"pip install {kept['name']}=={kept['version']}"),
    )


def in_folder(distributions: Sequence[Distribution], folder: str | None) -> list[Distribution]:
    """Those in the folder that a module was found in."""
    return [
        found
        for found in distributions
        if folder is not None and os.path.normpath(found["folder"]) == os.path.normpath(folder)
    ]


_FAILED = "import numpy failed"  # what an ONNX Runtime says that was built for numpy 1, as onnxruntime-cann 1.24.4 is


def mending(problem: str, numpy: str | None) -> str | None:
    """The command that mends why ONNX Runtime does not load, if that is numpy (its version, None without), else None."""
    if _FAILED in problem:
        return None if numpy is None or numpy.startswith("1.") else "pip install 'numpy<2'"
    # Not onnxruntime, which brings numpy, and would overwrite another package's module.
    return "pip install numpy" if numpy is None and "numpy" in problem else None


def shared_name(ep: str, packages: Sequence[str]) -> str:
    """Whose an EP is by its full name, the first one's of the packages that bring it, and how to ask for the others."""
    others = " or ".join(f"--ep {package}" for package in packages[1:])
    what = "the other" if len(packages) == 2 else "another"
    return f"{ep} is in {join_words(packages)}: by that name --ep takes the one of {packages[0]}, and {others} {what}"


NO_GPU = "this machine has no NVIDIA GPU"


def lacks_gpu(ep: ListedEp, has_gpu: bool) -> bool:
    """Whether an EP that does not load is one of NVIDIA's without a GPU for it."""
    return ep["problem"] is not None and is_nvidia(ep["name"]) and not has_gpu


def problem_of(ep: ListedEp) -> str | None:
    """Why an EP does not load, of a missing library without what brings it."""
    return ep["problem"] if ep["missing"] is None else f"the shared library {ep['missing']} is missing"


# Engines that EPs build of a model, and where they keep them
#
# Options are those of ONNX Runtime's documentation of the TensorRT EP and of the TensorRT RTX EP. The former writes its
# engines, and the timings that its builder took, as soon as they are there; the latter writes what it compiled for the card
# when the session ends.


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
        raise BadInput(f"{option}: {ep_name} builds no engine; {join_words([*known])} do")
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
