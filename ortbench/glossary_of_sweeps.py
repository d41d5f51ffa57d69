"""What the columns of a sweep of shapes mean; see `ortbench.report.glossary`."""

from __future__ import annotations

from ortbench.glossary_of_verdicts import Texts

_PAGE = "sweeps.md#reading-the-tables"
SWEEPS: Texts = {
    "shape": (
        "the sizes that a row is of, or the set of real inputs",
        "All shapes of a sweep run in one session.",
        _PAGE,
    ),
    "best": (
        "the shape with most items a second, of those that keep the SLO where there is one",
        "A shape that is `as good` cannot be told from it: the interval of their ratio holds 1.",
        _PAGE,
        ("as good",),
    ),
    "copies": (
        "which share of a call is copies, derived",
        "With cpu-tensors what a call takes longer than with device-resident; in other modes the copies as they were timed apart, by "
        "the latency.",
        _PAGE,
    ),
    "SLO": (
        "whether the shape keeps what --slo asks for",
        "A percentile takes as many runs as it needs to have one beyond it: 100 for p99.",
        "sweeps.md#a-limit-to-keep",
        ("kept", "broken", "--slo"),
    ),
    "items": ("how many items a call has: the dimension that is called a batch, or --items", "", "running.md#items"),
    "inputs": ("the bytes of a call's inputs",),
    "outputs": ("the bytes of a call's outputs",),
    "most with": ("the shape whose calls take longest for it, by the ratio", "", "sweeps.md#what-switching-costs"),
}
