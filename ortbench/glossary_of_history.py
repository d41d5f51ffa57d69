"""The words of results of many days; see `ortbench.report.glossary`."""

from __future__ import annotations

from ortbench.glossary_of_verdicts import Texts

HISTORY: Texts = {
    "series": (
        "results of the same thing, in the order in which they were measured",
        "Of the same model (its content or its path), EP, shapes, settings and machine; versions may change.",
        "history.md#what-is-one-series",
        ("history",),
    ),
    "results": ("how many results a series has; of a step, how many before it and after it up to the next one",),
    "first": ("the median of the first result",),
    "last": ("the median of the last result",),
    "change": (
        "the last median divided by the first; above 1 is slower",
        "Of two single results: whether a series has stepped is said by its steps.",
        "history.md",
    ),
    "over time": (
        "a curve of the medians from result to result, each on a scale of its own",
        "The scale reaches from 5 % below the middle to 5 % above it at least, so that scatter is no mountain. At most 16 "
        "characters wide: of more results each stands for several.",
        "history.md",
    ),
    "scatter": (
        "by how much results of one level differ from their median, as a standard deviation",
        "1.4826 times the median of the absolute differences, so that a single bad night does not change it.",
        "history.md#steps",
    ),
    "steps": (
        "how often the level changes for certain, found by E-divisive means; – in a series that is too short",
        "A step is beyond what shuffled results show in 99 of 100, its interval is clear of 1, and it is greater than --same.",
        "history.md#steps",
        ("step", "change point", "change points", "level"),
    ),
    "since": ("when the first result of the new level was measured, in UTC",),
    "before": ("the median of the results from the step before, or the first one, to this step",),
    "after": ("the median of the results from this step to the next one, or the last",),
    "ratio": (
        "how many times as long the new level takes; above 1 is slower",
        "Hodges' and Lehmann's estimate: the median of all ratios between a result after the step and one before.",
        "history.md#steps",
    ),
}
