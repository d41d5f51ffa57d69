"""The columns of what a run costs besides time; see `ortbench.glossary`."""

from __future__ import annotations

from ortbench.glossary_of_verdicts import Texts

_MEMORY: Texts = {
    "device": (
        "what a mode takes of the device's memory in all",
        "What the process holds on the card where NVML tells it, else what ortbench bound and the EP's arena held.",
        "costs.md#memory",
        ("device memory",),
    ),
    "bound": (
        "what ortbench itself allocated of the device's memory for a mode, at most at a time",
        "",
        "costs.md#memory",
    ),
    "arena held": ("what the arenas of the session's EPs had taken, used or not", "", "costs.md#memory", ("arena",)),
    "arena in use": ("what of the arenas was in use at most",),
    "on the card": (
        "what NVML says that the process held of the card's memory, the EP's own included",
        "",
        "",
        ("NVML",),
    ),
    "before": ("the worker's resident set with ONNX Runtime loaded, before there is a session",),
    "with session": ("its resident set with the session",),
    "host peak": (
        "its resident set at its peak, which is what a mode takes of the host's memory",
        "",
        "costs.md#memory",
        ("resident set", "RSS"),
    ),
    "pinned": ("what ortbench allocated of HOST_ACCESSIBLE memory for a mode, at most at a time",),
    "node": ("a node of the graph that holds much of the memory", "", "costs.md#memory"),
    "allocated": ("what a node's kernel asked its EP's allocator for and kept, in the run where that was most",),
    "outputs": ("the bytes of a node's outputs, wherever they are",),
    "weights": ("the bytes of a node's inputs that are parts of the model",),
    "memory": ("of a comparison: whose memory a row is of, the device's or the host's", "", "costs.md#memory"),
}
COSTS: Texts = {**_MEMORY}
