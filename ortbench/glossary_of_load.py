"""The columns of a load, and the words for its levels: see `ortbench.report.glossary`."""

from __future__ import annotations

from ortbench.glossary_of_verdicts import Texts

LOAD: Texts = {
    "callers": (
        "how many callers there are at a time, each of which starts its next inference when its last is done",
        "A level of a closed loop. Each has its own inputs, outputs and buffers.",
        "load.md#reading-the-table",
        ("concurrency", "closed loop", "caller", "level", "levels"),
    ),
    "rate": (
        "how many requests are due in a second, whether others are done or not",
        "A level of an open loop. Back to back are the same runs one behind the other, beside it.",
        "load.md#reading-the-table",
        ("open loop", "back to back", "requests"),
    ),
    "±": (
        "by how much runs/s may be off with 95 % confidence, to the farther end",
        "",
        "load.md#reading-the-table",
        ("plus minus",),
    ),
    "p50": (
        "half of the runs took at most so long; at a rate from the moment when the request was due",
        "So what a request waited for others is in it: no request is left out because another one was slow (coordinated omission).",
        "load.md#reading-the-table",
        ("coordinated omission", "latency"),
    ),
    "p95": ("95 of 100 runs took at most so long; at a rate from the moment when the request was due",),
    "p99": ("99 of 100 runs took at most so long; at a rate from the moment when the request was due",),
    "SLO": (
        "whether the level keeps what --slo asks of latency: kept or broken",
        "",
        "load.md#reading-the-table",
        ("kept", "broken", "--slo"),
    ),
    "knee": (
        "the last number of callers that brings at least 5 % more runs/s than fewer do",
        "Beyond it more callers mostly wait for each other.",
        "load.md#the-knee",
    ),
    "of peak": ("the runs/s at the knee as a share of the most", "", "load.md#the-knee"),
    "most runs/s": ("the highest runs/s of all numbers of callers", "", "load.md#the-knee", ("peak",)),
    "runs/s by callers": (
        "a curve of runs/s over the numbers of callers, from nothing to the most of all modes",
        "",
        "load.md#the-knee",
    ),
    "p99 by callers": (
        "a curve of p99 over the numbers of callers, from nothing to the most of all modes",
        "",
        "load.md#the-knee",
    ),
    "p99 by rate": (
        "a curve of p99 over the rates, from nothing to the most of all modes; queues that grow are as high as there is room",
        "",
        "load.md#reading-the-table",
    ),
}
