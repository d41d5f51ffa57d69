"""The catalogue of metrics: every figure that a case of a result may have, in the order of keys in result files and of columns.

Tables, CSV, data frames, comparisons, gates, exports, the page and `ortbench explain` read it. A new metric takes one
entry here, in the place that it has among the others, and the code that measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Literal, NamedTuple

from ortbench.core import units

LATENCY = "latency"
NAME = "NAME"  # stands for the name in the key of a family of metrics, such as ``stage.NAME``

# What `Stats` of samples have, with the titles of columns. A gate takes one of GATED.
STATISTICS = {
    "n": "samples", "min": "min", "mean": "mean", "median": "median", "p90": "p90", "p95": "p95", "p99": "p99", "max": "max",
    "stdev": "stdev", "mad": "MAD", "ci95": "95% CI",
}  # fmt: skip
GATED = ("median", "mean", "min", "max", "p90", "p95", "p99")
USUAL = "median"

Better = Literal["lower", "higher", "none"]


class Unit(NamedTuple):
    """The unit of a metric, and how its figures are printed."""

    symbol: str  # as data frames have it in ``attrs``; "1" for a pure number
    suffix: str  # the end of a CSV column's name
    measure: str  # Bencher's name of what is measured
    cell: Callable[[float], str]  # prints a figure in a table, with its unit unless `heading` has it
    heading: str = ""  # the unit in the heading of a column; "" where each cell has its own
    # where one unit can fit all figures of a column: gives its name and size for all of them, None where none does
    scale: Callable[[Iterable[float]], tuple[str, float] | None] | None = None
    # a figure that is smaller counts as this in a ratio, so that it exists: a step of the clock, a byte
    least: float = 1e-9
    spelled: str = ""  # `heading` in a sentence, where that has room for a longer word

    def text(self, value: float) -> str:
        """A figure alone, with its unit: ``4.21 ms``."""
        return f"{self.cell(value)} {self.spelled or self.heading}".rstrip()

    def column(self, values: Iterable[float]) -> tuple[str, Callable[[float], str]]:
        """The unit in the heading of a column of figures, and what prints its cells."""
        scaled = self.scale and self.scale(values)
        if scaled is None:
            return self.heading, self.cell
        name, size = scaled
        return name, partial(units.time, unit=size)


def _per_1000(show: Callable[[float], str], value: float) -> str:
    return f"{show(value)}/1,000 inf"


def _decimal(value: float, decimals: int) -> str:
    return f"{value:.{decimals}f}"


def _small(value: float) -> str:
    """Three digits, of what is far from 1 with an exponent."""
    return units.digits(value) if value == 0 or 1e-3 <= abs(value) < 1e6 else f"{value:.2e}"


def _rate(symbol: str, measure: str = "throughput", suffix: str = "_per_s") -> Unit:
    return Unit(symbol, suffix, measure, units.rate, symbol)


TIME = Unit("ns", "_ns", "latency", units.duration, scale=units.table_unit, least=1)
SIZE = Unit("B", "_bytes", "size", units.size, least=1)
BANDWIDTH = Unit("B/s", "_bytes_per_s", "bandwidth", lambda value: f"{units.size(value)}/s")
INFERENCES = _rate("inf/s")._replace(spelled="inferences/s")
ITEMS, STEPS, REQUESTS = map(_rate, ("items/s", "steps/s", "requests/s"))
PREFILL_TOKENS, DECODE_TOKENS, SEQUENCE_TOKENS = (
    _rate("tokens/s")._replace(heading=heading)
    for heading in ("prefill tokens/s", "decode tokens/s", "tokens/s per sequence")
)
ENERGY = Unit("J", "_j", "energy", units.energy)
POWER = Unit("W", "_w", "power", partial(units.digits, most=2), "W")
INFERENCES_PER_J = _rate("inf/J", "efficiency", "")._replace(spelled="inferences/J")
ITEMS_PER_J = _rate("items/J", "efficiency", "")
GROWTH = Unit("B/1000 inf", "_bytes_per_1000", "growth", partial(_per_1000, units.size), least=1000)
COUNTED_GROWTH = Unit("1/1000 inf", "_per_1000", "growth", partial(_per_1000, units.digits), least=0.01)
SHARE = Unit("1", "", "share", lambda value: f"{units.digits(value * 100)}%")
RATIO = Unit("1", "", "ratio", units.times)
SIMILARITY = Unit("1", "", "similarity", partial(_decimal, decimals=5))
INDEX = Unit("1", "", "index", units.digits)
NUMBER = Unit("1", "", "value", _small)
COUNT = Unit("1", "", "count", units.digits, least=0.01)
FAULTS = COUNT._replace(least=10)  # of 4 kB pages, which take an inference some µs
CORES = Unit("cores", "_cores", "cores", units.digits, "cores")
CLOCK = Unit("MHz", "_mhz", "clock", partial(_decimal, decimals=0), "MHz")
DECIBEL = Unit("dB", "_db", "sqnr", lambda value: f"{value:.{0 if abs(value) >= 99.95 else 1}f}", "dB")
PLAIN = Unit("", "", "value", units.digits)


class Group(Enum):
    """What metrics are shown together: a title, and the page of docs/ that explains them."""

    TIME = "time", "measuring.md#what-a-time-is"
    COPIES = "copies", "measuring.md#copies"
    HOST = "host CPU", "resources.md"
    MEMORY = "memory", "resources.md#memory"
    ENERGY = "energy", "resources.md#energy"
    LOAD = "load", "load.md"
    OUTPUTS = "outputs", "measuring.md#what-is-checked"

    @property
    def title(self) -> str:
        return self.value[0]


class Metric(NamedTuple):
    key: str  # in result files and gates; of a family with ``NAME`` for the name
    title: str  # in tables and texts
    unit: Unit  # of its figures
    better: Better  # which direction is better
    group: Group  # the metrics that it is shown with
    meaning: str  # what it is, in one or two sentences
    sampled: bool = False  # it has samples, and so statistics (`Stats`); else it is one number (`Value`)
    per_block: bool = False  # each block of `LATENCY` gives one sample, of all its inferences
    usually: str = USUAL  # the statistic of samples that is meant where none is named
    of_mode: bool = True  # each mode has its own; False for one of the whole run, whose key has a dot
    also: tuple[str, ...] = ()  # what else it may be called
    page: str = ""  # of docs/, where that is not its group's
    # it is a count that is 0 in most runs: no row of a comparison where it is 0 everywhere, and nothing for services
    # that divide by the last value
    often_zero: bool = False

    @property
    def docs(self) -> str:
        return self.page or str(self.group.value[1])

    @property
    def header(self) -> str:
        """What heads a column of it: a rate is known by its unit."""
        return self.unit.heading if "/" in self.unit.heading else self.title

    @property
    def usual(self) -> str:
        """The statistic that is meant where none is named; "" where there are none."""
        return self.usually if self.sampled else ""

    def column(self, statistic: str = "") -> str:
        """The name of a column of CSV and data frames: ``latency_median_ns``, ``energy_j``; a unit that it has is not said twice."""
        name = "_".join(filter(None, (self.key.replace(".", "_", 1), statistic)))
        said = self.unit.suffix.lstrip("_") in self.key.split("_")
        return name if said or statistic == "n" else name + self.unit.suffix


def _metrics(group: Group, page: str, *entries: Metric) -> list[Metric]:
    """Metrics of a group that one page explains; "" for the group's own."""
    return [it._replace(group=group, page=page) for it in entries]


def _samples(key: str, title: str, meaning: str, *also: str, unit: Unit = TIME) -> Metric:
    """Of samples, fewer or less of which is better."""
    return Metric(key, title, unit, "lower", Group.TIME, meaning, sampled=True, also=also)


def _count(key: str, title: str, unit: Unit, meaning: str) -> Metric:
    """What the system counts in a block, by inference: most blocks may have nothing of it, so that its mean tells more."""
    return _samples(key, title, meaning, unit=unit)._replace(per_block=True, usually="mean", often_zero=True)


def _value(key: str, title: str, unit: Unit, better: Better, meaning: str, *also: str) -> Metric:
    return Metric(key, title, unit, better, Group.TIME, meaning, also=also)


def _of_starts(*entries: Metric) -> list[Metric]:
    """Metrics of a whole process, whose keys say so and which no mode has."""
    return _metrics(Group.TIME, "start.md", *(it._replace(of_mode=False) for it in entries))


_CATALOGUE = [
    *_metrics(
        Group.TIME, "",
        _samples(LATENCY, "latency",
            "Time from the start of an inference to its outputs; at a request rate, from the moment when the request was due. In "
            "pipelined and device-resident-async it is the time per inference, which is throughput and not latency.",
            "response time"),
    ),
    *_metrics(
        Group.TIME, "measuring.md#a-loop",
        _samples("loop", "loop", "Time of a whole loop: the first state is copied to the device, then all steps run; the last state stays where the mode keeps it."),
        _samples("first_step", "first step", "Time of the first step of a loop, which has its own shape with --first-dim.", "prefill"),
        _samples("step", "step",
            "Time of one step of a loop with the state of the step before, from its inputs to its outputs. Its statistics are over all "
            "steps of all loops.", "decode"),
        _value("last_step", "last step", TIME, "lower", "Median time of the last step of a loop."),
        _value("step_growth", "growth per step", TIME, "lower",
            "Time by which a step takes longer than the step before it: the slope of a straight line through the medians of the steps after the first eighth.",
            "slope"),
        _value("step_throughput", "step throughput", STEPS, "higher",
            "Steps per second: the steps of all loops divided by the time that they took.", "steps/s"),
    ),
    *_metrics(
        Group.TIME, "loops.md#metrics",
        _samples("time_to_first_token", "TTFT",
            "Time of the first step of a loop that generates: it takes the prompt and ends with the choice of the first token.", "time to first token", "first token"),
        _samples("inter_token_latency", "ITL",
            "Time of a later step of a loop that generates, from one token to the next. Its statistics are over all later steps of all loops.",
            "inter-token latency", "time per output token", "TPOT"),
        _value("prefill_tokens_per_s", "prefill throughput", PREFILL_TOKENS, "higher",
            "Tokens of the prompts of all sequences per second: divided by the mean time to first token.", "pp"),
        _value("decode_tokens_per_s", "decode throughput", DECODE_TOKENS, "higher",
            "Tokens of all sequences per second behind the first: divided by the mean time of a loop's later steps together.", "tg"),
        _value("sequence_tokens_per_s", "decode throughput per sequence", SEQUENCE_TOKENS, "higher",
            "Tokens per second behind the first in each sequence of a batch."),
        _value("next_token", "next token", TIME, "lower",
            "Time of the choice of a token on the host: the copy of its logits, where the run does not bring them, and the search for the "
            "largest. It is timed alone, after the measurement, and is part of each step."),
    ),
    *_metrics(
        Group.TIME, "paced-requests.md#one-each-32-ms",
        _samples("paced", "paced",
            "Time of an inference, or a step of a loop, where one begins each --every, as in a program that waits for what it is given. Of a prompt, whose "
            "step has a shape of its own, it is not.", "paced p95", "paced p99"),
        _value("paced_ratio", "paced vs back to back", RATIO, "lower", "Paced divided by the time of the same back to back: the ratio of their medians."),
        _samples("missed_starts", "missed starts", "The share of paced starts that came late as the one before still ran.", unit=SHARE._replace(least=0.001))._replace(
            usually="mean", often_zero=True
        ),
    ),
    *_metrics(
        Group.TIME, "chains.md",
        _samples("chain", "chain", "Time of all stages of a chain, one after the other, from the first input to the last output."),
        _samples(f"stage.{NAME}", f"stage {NAME}", "Time of one stage of a chain, up to its synchronization."),
        _value(f"link.{NAME}", f"link {NAME}", TIME, "lower",
            "Time of the copies that a link of a chain takes through the host. They are timed alone, after the measurement."),
    ),
    *_metrics(
        Group.TIME, "",
        _samples("h2d", "H2D", "Time of the host to device copy of the inputs, with its synchronization."),
        _samples("inference", "inference", "Time of an inference whose tensors are in place, with its synchronization.", "compute"),
        _samples("d2h", "D2H", "Time of the device to host copy of the outputs, with its synchronization."),
        _value("remainder", "remainder", TIME, "lower",
            "Latency less all of its parts. Of a loop it is the time between its steps, of a chain that between its stages, both "
            "measured; of an inference it is latency less H2D, inference and D2H, and below 0 where those add up to more."),
        _value("speedup", "speedup", RATIO, "higher",
            "How many times as fast as with cpu-tensors an inference is, or the whole loop or chain: the ratio of the medians of latency. Above 1 is "
            "faster."),
        _value("pipeline_speedup", "speedup vs device-tensors", RATIO, "higher",
            "How many times as fast as device-tensors pipelined is: the ratio of the medians of their latency."),
        _value("throughput", "throughput", INFERENCES, "higher",
            "Inferences per second (loops of a loop, chains of a chain): those that were completed, divided by the time that they took: under "
            "load by all clients, else one after the other.", "inf/s", "QPS", "chains/s"),
    ),
    *_metrics(
        Group.TIME, "inputs.md#items",
        _value("item_throughput", "item throughput", ITEMS, "higher",
            "Items per second: the items of an inference, such as the images of a batch, divided by its mean time.", "items/s"),
        _value("item_time", "time per item", TIME, "lower", "Median latency divided by the items of an inference."),
    ),
    *_metrics(
        Group.TIME, "sweeps.md#reading-the-tables",
        _value("first_inference", "first inference", TIME, "lower",
            "Time of the first inference with a shape, which includes planning, allocation and tuning for this shape."),
        _value("first_ratio", "first vs later", RATIO, "lower",
            "How many times as long as a later inference the first inference with a shape takes."),
    ),
    *_metrics(
        Group.TIME, "sweeps.md#what-switching-costs",
        _value("same_shape", "same shape", TIME, "lower", "Median latency of inferences that have the same shape as the one before."),
        _value("other_shape", "other shape", TIME, "lower", "Median latency of inferences that have another shape than the one before."),
        _value("switching_ratio", "switching", RATIO, "lower",
            "Latency where each inference has another shape, divided by latency with one shape at a time."),
        _value("switching_cost", "switching cost", TIME, "lower",
            "Time by which an inference takes longer because the one before had another shape."),
    ),
    *_of_starts(
        _samples("start.ready", "time to ready", "Time from the start of a process to the outputs of its first inference.", "cold start"),
        _samples("start.interpreter", "interpreter", "Time from the start of a process to the first statement of its program."),
        _samples("start.import", "import", "Time in which a program imports onnxruntime and numpy."),
        _samples("start.ep_load", "EP load", "Time in which a program registers the library of a plugin EP and looks for its device. Built-in EPs load with the session."),
        _samples("start.session", "session", "Time in which a program creates the session: the model is loaded, optimised, compiled and initialised."),
        _samples("start.inputs", "inputs", "Time in which a program reads its inputs from files."),
        _samples("start.first_inference", "1st inference", "Time of the first inference of a process."),
        _samples("start.second_inference", "2nd inference", "Time of the second inference of a process. It is no part of the time to ready."),
        _samples("start.memory", "peak memory", "Resident set of a process at its peak, after two inferences.", unit=SIZE),
    ),
    *_metrics(
        Group.COPIES, "",
        _value("copies", "copies", TIME, "lower",
            "Time of the copies in an inference, both directions together. With cpu-tensors it is derived: latency less that of "
            "device-resident."),
        _value("copy_share", "copy share", SHARE, "lower", "Copies as a share of latency."),
        _value("copies_hidden", "hidden copies", TIME, "higher",
            "Time of the copies of pipelined that runs at the same time as inference, and so adds nothing to the time per inference."),
        _value("hidden_share", "hidden share", SHARE, "higher", "Hidden copies as a share of all copies of pipelined."),
        _value("bytes_h2d", "H2D bytes", SIZE, "lower", "Bytes copied from host to device in one inference, loop or chain."),
        _value("bytes_d2h", "D2H bytes", SIZE, "lower", "Bytes copied from device to host in one inference, loop or chain."),
        _value("copy_rate", "copy rate", BANDWIDTH, "higher", "Bytes of the copies of an inference divided by their time, both directions together; of cpu-tensors only where their time is mostly that of copies."),
        _value("once_h2d", "H2D once", TIME, "lower", "Time of the copy of the inputs of device-resident to the device, once before all inferences."),
        _value("once_d2h", "D2H once", TIME, "lower", "Time of the copy of the outputs of device-resident to the host, once after all inferences."),
        _value("gpu_latency", "latency with CUPTI", TIME, "lower", "Median latency of the inferences in which CUPTI recorded the GPU's activity."),
        _value("gpu_h2d", "H2D on the GPU", TIME, "lower", "Time of the host to device copies in one inference by the GPU's clock, as CUPTI records it."),
        _value("gpu_kernels", "kernels", TIME, "lower", "Time of the kernels in one inference by the GPU's clock, as CUPTI records it."),
        _value("gpu_d2h", "D2H on the GPU", TIME, "lower", "Time of the device to host copies in one inference by the GPU's clock, as CUPTI records it."),
        _value("gpu_bytes_h2d", "H2D bytes on the GPU", SIZE, "lower", "Bytes of the host to device copies in one inference, as CUPTI records them."),
        _value("gpu_bytes_d2h", "D2H bytes on the GPU", SIZE, "lower", "Bytes of the device to host copies in one inference, as CUPTI records them."),
    ),
    *_metrics(
        Group.COPIES, "loops.md#state-that-grows",
        _samples("state_bytes_h2d", "state H2D", "Bytes of the state copied from host to device in one step; statistics are over the steps of a loop.", unit=SIZE),
        _samples("state_bytes_d2h", "state D2H", "Bytes of the state copied from device to host in one step; statistics are over the steps of a loop.", unit=SIZE),
        _samples("step_bytes_h2d", "step H2D", "Bytes copied from host to device in one step, with the state; statistics are over the steps of a loop.", unit=SIZE),
        _samples("step_bytes_d2h", "step D2H", "Bytes copied from device to host in one step, with the state; statistics are over the steps of a loop.", unit=SIZE),
    ),
    *_metrics(
        Group.COPIES, "copies.md#measure-copies-over-sizes",
        _value("h2d_rate", "H2D rate", BANDWIDTH, "higher", "Bytes of a host to device copy divided by its median time.", "H2D GB/s"),
        _value("d2h_rate", "D2H rate", BANDWIDTH, "higher", "Bytes of a device to host copy divided by its median time.", "D2H GB/s"),
    ),
    *_metrics(
        Group.HOST, "",
        _samples("enqueue", "enqueue",
            "Time until the call of an inference returns, before any synchronization. It is known where the synchronization comes after "
            "the call.", "launch"),
        _value("enqueue_share", "enqueue share", SHARE, "none",
            "Enqueue as a share of inference. Near 100% the host takes the time, and a faster device would not help."),
        _samples("cpu_time", "CPU time",
            "Mean CPU time per inference of all threads of the worker, also those that spin while they wait.")._replace(per_block=True, usually="mean"),
        _value("cpu_user", "user", TIME, "lower", "CPU time in user mode."),
        _value("cpu_system", "system", TIME, "lower", "CPU time in kernel mode, drivers included. Some systems count it in ticks of some ms, so that a little of it in few samples is chance."),
        _value("cpu_cores", "CPU cores", CORES, "lower", "CPU cores in use on average: CPU time divided by wall time."),
        _samples("paced_cpu_time", "CPU time, paced",
            "CPU time of all threads of the worker from one paced start to the next, with what threads spin while they wait.")._replace(usually="mean"),
        _value("step_cpu_time", "CPU time per step", TIME, "lower", "CPU time of a loop divided by its steps."),
    ),
    *_metrics(
        Group.HOST, "resources.md#threads-that-spin",
        _value("spin_share", "spinning", SHARE, "lower",
            "The share of the CPU time that threads of ONNX Runtime spend spinning while they wait for work. It is derived from inferences "
            "whose threads do not spin.", "spin"),
        _value("latency_spin_off", "latency, no spin", TIME, "lower", "Median latency of inferences whose threads do not spin."),
        _value("cpu_time_spin_off", "CPU time, no spin", TIME, "lower", "CPU time of an inference whose threads do not spin."),
        _value("cpu_user_spin_off", "user, no spin", TIME, "lower", "CPU time in user mode where threads do not spin."),
        _value("cpu_system_spin_off", "system, no spin", TIME, "lower", "CPU time in kernel mode where threads do not spin."),
        _value("cpu_cores_spin_off", "CPU cores, no spin", CORES, "lower", "CPU cores in use on average where threads do not spin."),
    ),
    *_metrics(
        Group.HOST, "",
        _count("page_faults", "page faults", FAULTS,
            "Page faults of the worker per inference, minor and major together; comparisons take fewer than 10 as 10."),
        _count("involuntary_switches", "involuntary switches", COUNT,
            "Involuntary context switches of the worker's threads per inference: the system gave the CPU to another thread."),
    ),
    *_metrics(
        Group.MEMORY, "",
        _value("device_memory", "device memory", SIZE, "lower",
            "Device memory that a mode takes: what the worker's process holds on the GPU where NVML says it, else what ortbench "
            "allocates and the EP's arena holds."),
        _value("device_memory_bound", "bound device memory", SIZE, "lower", "Device memory that ortbench itself allocates for a mode, at its peak."),
        _value("device_memory_process", "process on the GPU", SIZE, "lower", "Device memory that the worker's process holds by NVML, with the EP's own.", "NVML"),
        _value("arena_held", "arena held", SIZE, "lower", "Memory that the arenas of the session's EPs hold, in use or not."),
        _value("arena_in_use", "arena in use", SIZE, "lower", "Memory of the arenas of the session's EPs that is in use, at its peak."),
        _value("host_memory", "host memory", SIZE, "lower", "Resident set of the worker at its peak.", "RSS", "resident set"),
        _value("host_memory_before", "before the session", SIZE, "none", "Resident set of the worker with ONNX Runtime loaded, before the session."),
        _value("host_memory_session", "with the session", SIZE, "lower", "Resident set of the worker with the session."),
        _value("pinned_memory", "pinned memory", SIZE, "lower", "HOST_ACCESSIBLE memory that ortbench allocates for a mode, at its peak."),
    ),
    *_metrics(
        Group.MEMORY, "soak.md",
        _value("host_growth", "host growth", GROWTH, "lower",
            "Host memory by which the worker grows in 1,000 inferences: private memory where the system tells it, else the resident set.",
            "leak", "memory leak"),
        _value("device_growth", "device growth", GROWTH, "lower", "Device memory by which the worker grows in 1,000 inferences, by NVML."),
        _value("host_held", "private memory, second half", SIZE, "lower",
            "Median memory of the worker's process alone in the second half of a soak, without pages that processes share; the resident set "
            "where the system does not tell private memory."),
        _value("device_held", "device memory, second half", SIZE, "lower", "Median device memory that the worker holds in the second half of a soak, by NVML."),
        _value("handle_growth", "handle growth", COUNTED_GROWTH, "lower", "Open files, sockets and other handles that the worker gains in 1,000 inferences.")._replace(often_zero=True),
        _value("thread_growth", "thread growth", COUNTED_GROWTH, "lower", "Threads that the worker gains in 1,000 inferences.")._replace(often_zero=True),
    ),
    *_metrics(
        Group.ENERGY, "",
        _value("energy", "energy", ENERGY, "lower", "Energy that the device draws for one inference, less what it draws idle.", "J/inf"),
        _value("token_energy", "energy per token", ENERGY, "lower", "Energy of a loop that generates, divided by the tokens that it generates.", "J/token"),
        _value("power", "power", POWER, "lower", "Power that the device draws during inferences, with what it draws idle."),
        _value("idle_power", "idle power", POWER, "none", "Power that the device draws while the worker waits, right before and after the inferences."),
        _value("inferences_per_joule", "inferences per joule", INFERENCES_PER_J, "higher", "Inferences per joule: 1 J divided by the energy of one.", "inf/J"),
        _value("items_per_joule", "items per joule", ITEMS_PER_J, "higher", "Items per joule: the items of an inference divided by its energy.", "items/J"),
    ),
    *_metrics(
        Group.LOAD, "",
        _samples("queue_delay", "queue delay", "Time from the moment when a request was due until a worker was free."),
        _samples("service_time", "service time", "Time from the start of a request's inference to its outputs."),
        _samples("generator_lag", "generator lag",
            "Time by which ortbench itself issues a request late although a worker is free. It is part of the latency all the same."),
        _value("late_share", "late share", SHARE, "lower", "The share of the requests that ortbench itself issues more than 100 µs late although a worker is free."),
        _value("utilisation", "utilisation", SHARE, "none", "The share of their time in which the workers of an open loop have a request.", "utilization"),
        _value("gil_wait", "GIL wait", SHARE, "lower", "The share of their time in which clients wait for Python's GIL.", "GIL"),
        _value("fairness", "Jain's fairness index", INDEX, "higher",
            "How evenly clients get their inferences done: 1 where all get the same, 1/n where one of n gets all."),
        _value("scaling", "scaling", RATIO, "higher", "Throughput with N clients compared with that of one client."),
        _samples(f"mixed.{NAME}", f"{NAME} in the mix", "Latency of the inferences of one shape in a load of several, which --shape-order mixes."),
        _samples(f"apart.{NAME}", f"{NAME} apart",
            "Latency of one shape at the same load point without the others; of all, each counts as often as in the mix."),
        _value(f"mixing.{NAME}", f"mixing {NAME}", RATIO, "lower",
            "How many times as long the p99 of a shape, or of all, is in the mix as apart."),
        _value("sm_clock", "SM clock", CLOCK, "none", "Median of the GPU's SM clock during the load point, by NVML."),
        _value("slo_rate", "highest rate in SLO", REQUESTS, "higher", "The highest request rate at which the SLO is met, as --rate auto finds it."),
    ),
    *_metrics(
        Group.OUTPUTS, "",
        _value("outputs.max_error", "max error", NUMBER, "lower",
            "The largest absolute difference of an output from the one that it is compared with.")._replace(of_mode=False),
        _value("outputs.mean_error", "mean error", NUMBER, "lower",
            "The mean absolute difference of an output from the one that it is compared with.")._replace(of_mode=False),
        _value("outputs.sqnr", "SQNR", DECIBEL, "higher",
            "Signal to quantization noise ratio of the outputs, compared with those of the baseline.")._replace(of_mode=False),
        _value("outputs.cosine", "cosine", SIMILARITY, "higher",
            "Cosine similarity of an output and the one that it is compared with: 1 where both point the same way.")._replace(of_mode=False),
        _value("outputs.top1", "top-1", SHARE, "higher",
            "The share of rows of scores in which the largest score is the same one.")._replace(of_mode=False),
    ),
]  # fmt: skip

METRICS = {it.key: it for it in _CATALOGUE}
PER_BLOCK = tuple(key for key, it in METRICS.items() if it.per_block)
FAMILIES = {key.partition(".")[0]: it for key, it in METRICS.items() if key.endswith(f".{NAME}")}


def metric(key: str) -> Metric:
    """The metric of a key, of a family the one with its name (``stage.decoder``); `KeyError` where this version knows
    none."""
    if key in METRICS:
        return METRICS[key]
    prefix, dot, name = key.partition(".")
    if not dot or not name or prefix not in FAMILIES:
        raise KeyError(key)
    family = FAMILIES[prefix]
    return family._replace(key=key, title=family.title.replace(NAME, name))


_POSITIONS = {key: number for number, key in enumerate(METRICS)}


def in_order(keys: Iterable[str]) -> list[str]:
    """Keys in the order of the catalogue; members of a family as they come, those that are not known last."""
    return sorted(
        keys, key=lambda key: _POSITIONS.get(key, _POSITIONS.get(f"{key.partition('.')[0]}.{NAME}", len(_POSITIONS)))
    )


def known_or_plain(key: str) -> Metric:
    """The metric of a key; for one that this version does not know, as a stored result may have it, plain numbers."""
    try:
        return metric(key)
    except KeyError:
        meaning = "This version of ortbench does not know this metric."
        return Metric(key, key, PLAIN, "none", Group.TIME, meaning)


class Figure(NamedTuple):
    """A metric and which statistic of it; "" of one that is one number."""

    metric: str
    statistic: str

    @property
    def text(self) -> str:
        """As it is written, without a mode: ``latency.p99``."""
        return ".".join(filter(None, self))


def figure(text: str) -> Figure:
    """The figure that a text of the package names: ``latency.p99``, ``latency`` for its usual statistic, ``energy``."""
    key, _, statistic = text.rpartition(".")
    if key and statistic in STATISTICS:
        return Figure(metric(key).key, statistic)
    return Figure(text, metric(text).usual)
