"""What the columns of "What else it costs" mean that are no metric; see `ortbench.report.glossary`."""

from __future__ import annotations

from ortbench.glossary_of_verdicts import Texts

COSTS: Texts = {
    "cost": ("what a run costs besides its time, of results side by side", "", "costs.md#held-against-each-other"),
    "device": (
        "what a mode takes of the device's memory in all",
        "What the process holds on the card where NVML tells it, else what ortbench bound and the EP's arena held.",
        "costs.md#memory",
    ),
    "node": ("a node of the graph that holds much of the memory", "", "costs.md#memory"),
    "allocated": ("what a node's kernel asked its EP's allocator for and kept, in the run where that was most",),
    "outputs": ("the bytes of a node's outputs, wherever they are",),
    "weights": ("the bytes of a node's inputs that are parts of the model",),
}
