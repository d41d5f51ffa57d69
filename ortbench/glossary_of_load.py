"""The columns of a load, and the words for its levels: see `ortbench.glossary`."""

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
    "runs/s": ("inferences that all callers together complete in a second", "", "load.md#reading-the-table"),
    "±": (
        "by how much runs/s may be off with 95 % confidence, to the farther end",
        "",
        "load.md#reading-the-table",
        ("plus minus",),
    ),
    "speed-up": (
        "how many times the runs/s of one caller so many bring",
        "With its 95 % interval, over the rounds in which both were measured.",
        "load.md#reading-the-table",
        ("speedup",),
    ),
    "p50": (
        "half of the runs took at most so long; at a rate from the moment when the request was due",
        "So what a request waited for others is in it: no request is left out because another one was slow (coordinated omission).",
        "load.md#reading-the-table",
        ("coordinated omission", "latency"),
    ),
    "p95": ("95 of 100 runs took at most so long; at a rate from the moment when the request was due",),
    "p99": ("99 of 100 runs took at most so long; at a rate from the moment when the request was due",),
    "CPU cores": (
        "CPU time of the worker, all its threads together, divided by the time by the clock",
        "",
        "load.md#reading-the-table",
    ),
    "lock": (
        "the share of their time in which callers waited for Python's lock",
        "ONNX Runtime's Python package holds it while it copies tensors. Above 3 % a sentence says so; --sessions process has no "
        "lock in common.",
        "load.md#reading-the-table",
        ("GIL", "Python's lock"),
    ),
    "fairness": (
        "Jain's index of how many runs each caller got done: 1 where all got the same, 1/n where one got all",
        "Times the number of callers it is how many would have shared the runs alike.",
        "load.md#reading-the-table",
        ("Jain's index",),
    ),
    "SM clock": (
        "the median of the GPU's clock while the level ran, by NVML",
        "",
        "load.md#reading-the-table",
        ("clock",),
    ),
    "SLO": (
        "whether the level keeps what --slo asks of latency: kept or broken",
        "",
        "load.md#reading-the-table",
        ("kept", "broken", "--slo"),
    ),
    "wait": (
        "the mean time from when a request was due to when it started; grows where the queue does so without end",
        "Where the callers are busy 98 % of the time and more, a mean would only say how long the level lasted.",
        "load.md#reading-the-table",
        ("grows", "queue"),
    ),
    "service": ("half of the runs took at most so long from their start", "", "load.md#reading-the-table"),
    "busy": (
        "the share of their time in which the serving callers had a request",
        "",
        "load.md#reading-the-table",
        ("utilisation",),
    ),
    "late": (
        "the share of the requests that ortbench itself issued late although a caller was free",
        "That is the machine, not the model: what was late is in the latency all the same.",
        "load.md#reading-the-table",
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
    "keeps SLO up to": (
        "the highest rate that keeps the SLO, as --rate auto found it",
        "",
        "load.md#reading-the-table",
    ),
    "p99 by rate": (
        "a curve of p99 over the rates, from nothing to the most of all modes; queues that grow are as high as there is room",
        "",
        "load.md#reading-the-table",
    ),
}
