"""The words of reports and what they mean: `ortbench explain`, the glossary of a page and docs/words.md are made of these.

Everything a table has a column of, every mode, verdict and code of a warning has an entry, which a test holds. Metrics are those
of the catalogue, `ortbench.model.metrics`; verdicts and warnings are in `ortbench.glossary_of_verdicts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ortbench.glossary_of_costs import COSTS
from ortbench.glossary_of_history import HISTORY
from ortbench.glossary_of_load import LOAD
from ortbench.glossary_of_sweeps import SWEEPS
from ortbench.glossary_of_verdicts import VERDICTS, WARNINGS, Texts
from ortbench.model.metrics import METRICS, Metric
from ortbench.model.modes import ALL_MODES, MODES, PER_INFERENCE, Mode


class Group(Enum):
    """What words are of: the title of their list, and what one of them is."""

    WORDS = "Words", "a word"
    MODES = "Modes", "a mode"
    METRICS = "Metrics", "a metric"
    RUN = "Columns of a run", "a column of a run"
    LOOP = "Columns of a loop", "a column of a loop"
    LOAD = "Columns of a load", "a column of a load"
    CHAIN = "Columns of a chain", "a column of a chain"
    SWEEP = "Columns of a sweep", "a column of a sweep"
    COMPARISON = "Columns of compare and gate", "a column of compare and gate"
    HISTORY = "Columns of history", "a column of history"
    SUITE = "Columns of a suite", "a column of a suite"
    BANDWIDTH = "Columns of a bandwidth sweep", "a column of a bandwidth sweep"
    COSTS = "Columns of what else it costs", "a column of what else it costs"
    PLACES = "Columns of where tensors are", "a column of where tensors are"
    NODES = "Columns of nodes", "a column of the tables of nodes"
    PROFILE = "Columns of a profiled session", "a column of a profiled session"
    CLEAN = "Columns of clean", "a column of clean"
    VERDICTS = "Verdicts", "a verdict"
    WARNINGS = "Warnings", "a warning"

    @property
    def title(self) -> str:
        """Of the list."""
        return self.value[0]

    @property
    def one(self) -> str:
        """One of them, with its article."""
        return self.value[1]


@dataclass(frozen=True)
class Entry:
    """A word of reports.

    Attributes:
        word: as reports have it.
        group: what it is of.
        sentence: what it means, in a few words that go on after it, without an end.
        more: what else there is to know, in sentences, or "".
        page: where docs/ says more, such as ``measuring.md#the-fence``, or "".
        also: what else it may be called.
    """

    word: str
    group: Group
    sentence: str
    more: str = ""
    page: str = ""
    also: tuple[str, ...] = ()


# A word: its sentence, more, the page, other spellings.
_WORDS: Texts = {
    "fence": (
        "what makes sure that the device has finished before the clock is read",
        "A run that returned is not a run that finished. Which fence does it on this EP (the run itself, synchronize_outputs, "
        "or reading a value back) is proved before anything is measured; the heading names it, and what it costs of every run.",
        "measuring.md#the-fence",
    ),
    "split": (
        "a bar as long as the mode's latency, shared out by what its phases take",
        "░ H2D, █ inference, ▒ D2H, ≈ copies both ways (known in sum only), ┅ time per run of many with one wait, ━ not "
        "split. Phases are timed apart from latency, so the bar shares latency out in proportion to them.",
        "",
        ("bar", "bars", "░", "█", "▒", "┅", "━"),
    ),
    "≈": (
        "derived, not measured: the copies inside a cpu-tensors run are its latency less that of device-resident",
        "A difference of two medians. It stands for both directions together.",
        "measuring.md#what-a-time-is",
        ("~", "derived", "(both)", "both"),
    ),
    "95% CI": (
        "the interval in which the median, or the ratio, lies with 95 % confidence",
        "That of a median takes into account that samples come in blocks; that of a ratio is from pairs of blocks of the same "
        "round. An interval of a ratio that holds 1 shows no difference.",
        "measuring.md#what-a-time-is",
        ("95%", "95 %", "95", "ci95", "interval"),
    ),
    "–": ("nothing is known, or there are too few samples to say", "", "", ("-", "dash")),
    "median": (
        "half of the samples took less, half took more",
        "All times in tables are medians, unless they say otherwise.",
    ),
    "mode": (
        "a way to hand inputs to a model and to get its outputs back",
        "Modes are measured side by side in alternating blocks, and their outputs are compared.",
        "modes.md",
        ("modes",),
    ),
    "phase": (
        "h2d, inference or d2h, or latency for all of an inference",
        "Phases are timed in blocks of their own, each ended by a fence, so they need not add up to latency.",
        "measuring.md#what-a-time-is",
        ("phases",),
    ),
    "block": (
        "a short burst of samples of one mode and phase, about 20 ms; blocks of all modes alternate",
        "So what drifts in the machine hits all alike. A round has one block of each.",
        "measuring.md#what-a-time-is",
        ("blocks", "round", "rounds", "sample", "samples"),
    ),
    "EP": (
        "execution provider: the part of ONNX Runtime that runs a model's nodes on a device",
        "",
        "running.md#execution-providers",
        ("execution provider", "provider"),
    ),
    "HOST_ACCESSIBLE": (
        "memory of an EP's device that the host reads and writes in place",
        "On NVIDIA's GPUs it is pinned host memory.",
        "modes.md#which-memory-they-bind",
        ("host accessible", "pinned", "pinned memory"),
    ),
    "zero-copy": (
        "inputs and outputs are used where they lie, and nothing is copied on the way",
        "It is proved, or said not to be: the bound addresses must be used, and a run must not take longer by what copies "
        "would add.",
        "measuring.md#what-is-checked",
        ("zero copy",),
    ),
    "Memcpy node": (
        "a node that ONNX Runtime puts into a graph to copy between the CPU and the device",
        "It is there because a node beside it stays on the CPU, and it copies in every run.",
        "hidden-copies.md",
        ("memcpy", "memcpy nodes"),
    ),
    "state": (
        "in a loop, what an output of one step hands to an input of the next, such as a cache of keys and values",
        "In mode cpu-tensors ONNX Runtime copies it back and in again in every step; the other modes leave it where it is. Where it "
        "grows, a step copies more than the one before it.",
        "loops.md",
        ("states", "past", "present", "KV cache"),
    ),
    "feedback": (
        "which output of a loop's step is which input of the next one, as --feedback OUT=IN says",
        "ortbench inspect MODEL suggests pairs by their names.",
        "loops.md#what-is-fed-back",
        ("--feedback", "fed back"),
    ),
    "done after": (
        "what the blocks of a measurement took, and why it ended",
        "Enough was known (every median to --precision), time was up (--duration for each mode), as many iterations as "
        "--iterations asks for were done, the most samples that are kept were taken, or every contest of a gate was decided.",
        "running.md#how-long",
        ("done", "stopped"),
    ),
    "warning": (
        "something to bear in mind with the figures; in result.json it has a code, which is explained by its name",
        "",
        "",
        ("warnings",),
    ),
}

_RUN: Texts = {
    "p95": ("95 of 100 inferences took at most so long", "It takes 20 samples to be known.", "", ("percentile",)),
    "p99": ("99 of 100 inferences took at most so long", "It takes 100 samples to be known."),
    "samples": (
        "how many inferences were timed, on which latency and its percentiles rest",
        "Warm-up is not among them.",
    ),
    "copied/run": ("bytes to and from the device in one inference",),
}

_LOOP: Texts = {
    "first": (
        "the median of the first step, which has a shape of its own with --first-dim",
        "Of such a loop it is apart in the curve, and no part of what each step adds.",
        "loops.md#the-first-step",
    ),
    "last": ("the median of the last step",),
    "by step": (
        "a curve of the medians from step to step, on one scale for all modes, the lowest of all at ▁",
        "At most 16 characters wide: in a longer loop each stands for several steps.",
        "loops.md",
        ("curve", "▁", "█ by step"),
    ),
    "state/step": (
        "bytes copied to and from the device in one step because of the state",
        "Where it grows, that of step 0 and what each step adds: 2.05 kB + 512 B × step. – where nobody knows it.",
        "loops.md",
        ("state per step",),
    ),
    "copied/step": (
        "bytes copied to and from the device in one step in all, the state among them",
        "",
        "loops.md",
        ("copied per step",),
    ),
}

_CHAIN: Texts = {
    "copied/chain": ("bytes to and from the devices in one chain", "", "chains.md#what-is-copied"),
    "stage": ("a model of a chain", "A stage with repeat and feedback is a loop.", "chains.md", ("stages",)),
    "steps": ("how often a stage that is a loop runs",),
    "link": ("an output of a stage that is an input of another", "", "chains.md", ("links",)),
    "with device-resident": (
        "what becomes of a link there: it stays on the device, is copied, or is in host memory in any case",
        "",
        "chains.md#what-is-copied",
        ("stays", "copied"),
    ),
    "through the host": (
        "what the copies of a link take alone: its download and, as often as mode cpu-tensors makes it, its upload",
        "They are timed by themselves after the measurement, so they need not add up to what the modes differ by.",
        "chains.md#what-is-copied",
    ),
}

_COMPARISON: Texts = {
    "ratio": (
        "median time of the second result divided by that of the first; above 1 is slower",
        "From blocks of the same rounds where both are of one run, else from runs at different times, with their noise.",
        "gates.md#compare",
    ),
    "verdict": (
        "in a word whether a difference is real",
        "The words themselves are explained one by one: slower, faster, same, cannot tell.",
        "gates.md#compare",
    ),
    "result": ("which result a row is of",),
    "metric": ("which metric is compared; its own name says what it is",),
    "point": ("the place on the axes that a row is of, such as a shape of a sweep or a load point",),
    "value": ("that figure of a result", "", "load.md#gates"),
    "vs first": ("median time divided by that of the first result; above 1 is slower",),
    "vs previous": ("median time divided by that of the result before; above 1 is slower",),
    "step": ("the verdict on the difference to the result before",),
    "baseline": ("what a gate holds the candidate against", "", "gates.md#live-gates"),
    "candidate": ("what a gate judges", "", "gates.md#live-gates"),
}

_SUITE: Texts = {
    "case": ("one model on one EP with one shape, measured in its modes", "", "suites.md"),
    "cpu-tensors": ("the median of mode cpu-tensors",),
    "fastest mode": ("the mode with the shortest median of those whose figure is a latency",),
    "× cpu-tensors": ("how many times as fast as mode cpu-tensors the fastest mode is", "", "", ("x cpu-tensors",)),
    "machine": ("the machine of the cluster that the case was on", "", "clusters.md"),
    "card": (
        "the card that the case was on",
        "Where NVML does not name it, the resources that the case was given of the cluster stand for it.",
        "clusters.md",
    ),
    "× slowest card": (
        "how many times as fast as on the slowest of the cards that the same case was on",
        "Cases are the same where they differ in nothing but where they were carried out.",
        "clusters.md",
    ),
    "verdict": ("what became of the case", "The words themselves are explained one by one.", "suites.md"),
}

_BANDWIDTH: Texts = {
    "size": ("bytes of one copy", "", "bandwidth.md"),
}

_PLACES: Texts = {
    "tensor": ("an input or an output of the model", "", "modes.md#which-memory-they-bind"),
    "in modes": ("the modes in which it is there",),
    "memory": ("where it is bound: the EP's own memory, or host memory",),
    "why": ("why it is there, and not where the mode's tensors usually are",),
}

_CLEAN: Texts = {
    "folder": ("what ortbench made, by its path", "", "running.md#tidying-up"),
    "what": ("of which command it is: a run, a suite, a sweep, or one that was not finished",),
    "age": ("since its last change",),
}

_NODES: Texts = {
    "operator": ("the ONNX operator of nodes; compiled graph is what an EP made of several", "", "hidden-copies.md"),
    "on": ("where nodes ran: an EP, or between EPs for Memcpy nodes",),
    "nodes": ("how many nodes there are",),
    "time": ("what they take of a run in ONNX Runtime's profiler, by the host's clock",),
    "share": ("that time as a part of a profiled run",),
    "copied tensor": ("what a Memcpy node copies", "", "hidden-copies.md"),
    "direction": ("to host, or from host to the device",),
    "bytes": ("of a copied tensor, or of all that an island has copied",),
    "forced by": ("the node because of which a Memcpy node is there", "", "hidden-copies.md"),
    "island": (
        "nodes on the CPU that hang together, between nodes on the device",
        "",
        "hidden-copies.md",
        ("islands",),
    ),
    "on the CPU": ("the operators of an island",),
    "copies": ("how many Memcpy nodes an island forces",),
    "in nodes": ("what the nodes of an island take of a profiled run",),
    "in copies": ("what the copies of an island take of a profiled run",),
}

_PROFILE: Texts = {
    "ortbench": ("the median that ortbench measured", "", "timelines.md#nsight-systems"),
    "range": ("the median of the NVTX ranges around the same calls", "", "timelines.md#the-ranges", ("NVTX",)),
    "to device": ("copies to the device in one run, by the GPU's clock", "", "timelines.md#nsight-systems"),
    "to host": ("copies to the host in one run, by the GPU's clock", "", "timelines.md#nsight-systems"),
    "kernels": ("what the GPU computes in one run, by its own clock", "", "timelines.md#nsight-systems"),
}


def _mode(mode: Mode) -> Entry:
    said = [f"Asked for with --{mode.option}."] if mode.option else []
    said += [f"It is held against {mode.like}."] if mode.like else []
    said += (
        [] if mode.figure == PER_INFERENCE else [f"Its figure is {mode.figure}, which is throughput and not latency."]
    )
    page = "loops.md#modes" if mode.name not in MODES else "modes.md"
    return Entry(mode.name, Group.MODES, mode.sentence, " ".join(said), page)


def _metric(it: Metric) -> Entry:
    sentence, _, more = it.meaning.partition(". ")
    return Entry(it.title, Group.METRICS, sentence.removesuffix("."), more, it.docs, (it.key, *it.also))


def entries() -> tuple[Entry, ...]:
    """Every word, by group and in the order in which reports have them."""
    lists = {
        Group.WORDS: _WORDS,
        Group.RUN: _RUN,
        Group.LOOP: _LOOP,
        Group.LOAD: LOAD,
        Group.CHAIN: _CHAIN,
        Group.SWEEP: SWEEPS,
        Group.COMPARISON: _COMPARISON,
        Group.HISTORY: HISTORY,
        Group.SUITE: _SUITE,
        Group.BANDWIDTH: _BANDWIDTH,
        Group.COSTS: COSTS,
        Group.PLACES: _PLACES,
        Group.NODES: _NODES,
        Group.PROFILE: _PROFILE,
        Group.CLEAN: _CLEAN,
        Group.VERDICTS: VERDICTS,
        Group.WARNINGS: WARNINGS,
    }
    found = [Entry(word, group, *said) for group, texts in lists.items() for word, said in texts.items()]
    found += [*map(_mode, ALL_MODES.values()), *map(_metric, METRICS.values())]
    order = list(Group)
    return tuple(sorted(found, key=lambda it: order.index(it.group)))
