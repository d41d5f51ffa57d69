"""What the columns of "What else it costs" mean; see `ortbench.glossary`."""

from __future__ import annotations

from ortbench.glossary_of_verdicts import Texts

_HOST = "costs.md#the-hosts-own-work"
_OF_HOST: Texts = {
    "submit": (
        "until the call of an inference returns, before any fence",
        "The median over the samples of inference, taken in the same calls. Only where the fence waits behind the call: where the "
        "run itself waits, it is the inference.",
        _HOST,
        ("launch", "host-bound"),
    ),
    "of inference": (
        "submit as a part of inference, or of a run of many with one wait",
        "Near 100 % the host is what takes the time, and a faster device would not help.",
        _HOST,
    ),
    "CPU time": (
        "what a run takes of the CPU: of all threads of the worker together, over all timed blocks of total",
        "So it counts threads of ONNX Runtime and of the EP too, those that spin while they wait among them.",
        _HOST,
        ("cpu_time", "cpu-time"),
    ),
    "cost": ("what a run costs besides its time, of results side by side", "", "costs.md#held-against-each-other"),
    "user": ("the part of the CPU time outside of the system's kernel", "", _HOST),
    "system": ("the part of the CPU time inside of the system's kernel, drivers among it", "", _HOST),
    "cores": ("how many cores were in use on average: CPU time by time", "", _HOST),
    "per step": ("the CPU time of a loop by its steps", "", _HOST),
    "spinning": (
        "with --spin: which part of the CPU time is threads of ONNX Runtime that spin while they wait for work",
        "What a run takes less in a pass of its own with session.intra_op.allow_spinning=0.",
        _HOST,
        ("spin", "--spin"),
    ),
    "without": ("the CPU time of a run whose threads do not spin", "", _HOST),
    "total without": ("the median of total where threads do not spin", "", _HOST),
}
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
}
_ENERGY = "costs.md#energy"
_OF_ENERGY: Texts = {
    "energy/run": (
        "what the device draws for a run, less what it draws idle",
        "By its energy counter in a stretch of runs after the measurement (--energy); the interval is from parts of that stretch.",
        _ENERGY,
        ("energy", "--energy", "joules", "J/run"),
    ),
    "power": ("what the device draws while runs go on, idle draw included", "", _ENERGY, ("watts",)),
    "idle": (
        "what it draws with the worker there and nothing running, right before and after",
        "",
        _ENERGY,
        ("idle draw",),
    ),
    "runs/J": ("runs for a joule: 1 J divided by energy/run, where that is above 0 for certain", "", _ENERGY),
}
COSTS: Texts = {**_OF_HOST, **_MEMORY, **_OF_ENERGY}
