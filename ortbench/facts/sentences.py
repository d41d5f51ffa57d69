"""The one table: for each fact its sentence, what a reader does about it, and how much it matters. No sentence is joined or rewritten.
And a check: what was asked of a result, and whether it holds, does not, or cannot be told."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from string import Formatter
from typing import Any, NamedTuple

from ortbench.analysis.advice import Weight
from ortbench.core import units
from ortbench.core.features import features, part_of
from ortbench.core.safe_text import first_of, join_words, shorten
from ortbench.core.units import request_rate
from ortbench.facts import Fact, Quantity, record
from ortbench.model.schema import Finding

_MOST_FIGURES = 5  # of a page
_MOST_NAMES = 3  # of a list that a sentence has
# How lists that have to be whole are shown, by the format.
_WHOLE: dict[str, Callable[[Sequence[str]], str]] = {
    "all": ", ".join,
    "apart": "; ".join,
    "and": join_words,
    "code": " ".join,
}
_DURATION = re.compile(r" --duration \S+")

_UNITS: dict[str, Callable[[float], str]] = {
    "ns": units.duration,
    "B": units.size,
    "×": units.times,
    "ratio": lambda value: units.ratio(value, 3),
    "share": units.share,
    "inferences/s": lambda value: f"{units.rate(value)} inferences/s",
    "items/s": lambda value: f"{units.rate(value)} items/s",
    "tokens/s": lambda value: f"{units.rate(value)} tokens/s",
    "steps/s": lambda value: f"{units.rate(value)} steps/s",
    "requests/s": request_rate,
    "%": lambda value: f"{value:g}%",
    "dB": lambda value: f"{units.digits(value)} dB",
    "1": lambda value: f"{value:g}" if value == int(value) else units.digits(value),
}
# How both ends of an interval are shown, where that is not how one figure is.
_ENDS: dict[str, Callable[[float], str]] = {
    "×": units.digits,
    **dict.fromkeys(("inferences/s", "items/s", "tokens/s"), units.rate),
}


class Sentence(NamedTuple):
    text: str  # a template over the mode and the values of the fact
    action: str  # what a reader does about it
    weight: Weight = Weight.DETAIL
    tone: str = ""  # "good", "bad", "unclear"
    page: str = ""  # of the documentation
    figure: tuple[str, str] = ("", "")  # of a page's large figures: its name, and the value that is shown
    warning: str = ""  # the code of the warning that says no more than the fact


class _Words(Formatter):
    """Shows figures in their units, with ``:ci`` behind their interval, with ``:to`` its ends alone; with ``:if`` a mode and what it needs; with a noun as the format a
    number of such things; with one of `_WHOLE` a list that is not cut."""

    def __init__(self, needs: str) -> None:
        self._needs = needs

    def format_field(self, value: Any, spec: str) -> str:
        if isinstance(value, Quantity):
            if spec == "to":
                return " to ".join(map(_UNITS[value.unit], value.ci95 or ()))
            if spec not in ("", "ci"):
                return units.count(value.value, spec)
            return _figure(value) + (_interval(value) if spec else "")
        if isinstance(value, int):
            return units.count(value, spec) if spec else str(value)
        if spec in _WHOLE:
            return _WHOLE[spec]([value] if isinstance(value, str) else value)
        if isinstance(value, str):
            return f"{value} (if {self._needs})" if spec == "if" and self._needs else shorten(value)
        return first_of([shorten(it) for it in value], _MOST_NAMES)


def _figure(value: Quantity) -> str:
    if value.unit == "×":
        return units.times(value.value, value.ci95)
    return f"{'≈' * value.derived}{_UNITS[value.unit](value.value)}"


def _interval(value: Quantity) -> str:
    """Both ends in brackets, with one unit; nothing where they do not read otherwise than the figure."""
    if value.ci95 is None:
        return ""
    low, high = units.ends(value.ci95, _ENDS.get(value.unit, _UNITS[value.unit]))
    if low == high:
        return ""
    number, _, unit = low.partition(" ")
    return f" ({number if unit and high.endswith(f' {unit}') else low}–{high})"


def sentence_of(fact: Fact) -> Sentence:
    return _OF_CORE.get(fact.key) or sentences()[fact.key]


@cache
def sentences() -> dict[tuple[str, str], Sentence]:
    """The sentences of all facts, those of features too."""
    of_features = (part_of(name, "facts", "SENTENCES", {}) for name in features())
    return {key: it for table in (_OF_CORE, *of_features) for key, it in table.items()}


def sentence(fact: Fact) -> str:
    return _Words(str(fact.values.get("needs", ""))).format(sentence_of(fact).text, mode=fact.mode, **fact.values)


def phrase(fact: Fact) -> str:
    """The same without its full stop, for headings and lists."""
    return sentence(fact).removesuffix(".")


class LargeFigure(NamedTuple):
    """One of the figures that a page begins with."""

    name: str
    value: str
    note: str


def large_figures(facts: Sequence[Fact]) -> list[LargeFigure]:
    """The figures that a page begins with, a few, each of another name."""
    found: dict[str, LargeFigure] = {}
    for fact in facts:
        name, key = sentence_of(fact).figure
        if name and name not in found:
            value = fact.values[key]
            shown = _figure(value) if isinstance(value, Quantity) else str(value)
            found[name] = LargeFigure(name, shown, sentence(fact))
    return [*found.values()][:_MOST_FIGURES]


def in_order(facts: Sequence[Fact]) -> list[Fact]:
    """The facts that matter most first, else in the order given; each command once, however long it measures."""
    found, commands = [], {""}
    for fact in sorted(facts, key=lambda it: -sentence_of(it).weight):
        command = _DURATION.sub("", fact.next)
        found.append(fact._replace(next="") if command in commands else fact)
        commands.add(command)
    return found


_DETAIL, _COST, _GAIN, _ANSWER, _DOUBT = Weight
WAIT = "measure again on a quiet machine: --wait-quiet 60s"
LONGER = "measure longer: --duration"
PROGRAM = "take the program that ortbench code writes"
_FALLBACK = "use an operator, type or opset that the EP has a kernel for; compute what is at the start or the end outside of the model"
_NODES = "--measure-nodes shows which nodes take the time"

_OF_CORE: dict[tuple[str, str], Sentence] = {
    # the machine
    ("busy-machine", "stopped"): Sentence("Busy machine: a CPU limit stopped this process for {stopped} of the time.", "use as many threads as the limit allows", _DOUBT, "unclear", "noise"),
    ("busy-machine", "others"): Sentence("Busy machine: other processes used {others} of {cores:core}.", WAIT, _DOUBT, "unclear", "noise"),
    ("busy-machine", "stolen"): Sentence("Busy machine: the hypervisor took {stolen} of {cores:core}.", WAIT, _DOUBT, "unclear", "noise"),
    ("busy-machine", "waited"): Sentence("Busy machine: this process waited for a CPU in {waited} of blocks.", WAIT, _DOUBT, "unclear", "noise"),
    ("busy-machine", "gpu"): Sentence("Busy machine: {gpu_processes:other process} computed on the GPU.", "end them, or measure later", _DOUBT, "unclear", "noise"),
    ("software-gpu", "known"): Sentence("The GPU is a software renderer, {renderer}: the CPU computes.", "install the GPU's driver, or use --ep cpu", _DOUBT, "unclear", "choose-ep"),
    ("software-gpu", "likely"): Sentence("The GPU is likely a software renderer: the CPU computes with {cores} cores during an inference.", "install the GPU's driver, or use --ep cpu", _DOUBT, "unclear", "choose-ep"),
    ("precision", "lower"): Sentence("{ep} is likely to compute in a lower precision: the outputs differ from {against} by up to {error}. No ratio or gate uses these figures.", "set the option that Next names, or allow the difference with --rtol", _DOUBT, "unclear", "measuring"),
    ("precision", "lower-of"): Sentence("{configuration}: {ep} is likely to compute in a lower precision: the outputs differ from {against} by up to {error}. No ratio or gate uses these figures.", "set the option that Next names, or allow the difference with --rtol", _DOUBT, "unclear", "measuring"),
    ("certificate", "tells"): Sentence("This machine tells {least} in {within} s, {alarms} of {gates} false alarms (certificate of {date}).", "measure smaller differences for longer", _DETAIL, "", "troubleshooting"),
    ("certificate", "nothing"): Sentence("This machine tells no difference in a minute (certificate of {date}).", "measure on a quiet machine", _DETAIL, "unclear", "noise"),
    ("threads", "beyond-cores"): Sentence("{threads} threads share {cores:core}.", "set --intra-op-threads to the cores there are", _DOUBT, "unclear", "noise"),
    ("threads", "of-the-host"): Sentence("ONNX Runtime takes {threads} threads, one a core of the machine; this process may use {cores:core}.", "set --intra-op-threads to the cores there are", _DOUBT, "unclear", "noise"),
    # where nodes are
    ("fallback", "all"): Sentence("Nothing ran on {ep}: all {of:node} ran on {where}.", "see why: ortbench inspect", _DOUBT, "unclear", "copies", warning="cpu-nodes"),
    ("fallback", "most"): Sentence("Most of the model ran on {where}, not on {ep}: {nodes} of {of:node}.", "see which: ortbench inspect", _DOUBT, "unclear", "copies", warning="cpu-nodes"),
    ("fallback", "most-time"): Sentence("Most of an inference is on the CPU, not on {ep}: {share}, in {nodes} of {of:node}.", "see which: ortbench inspect", _DOUBT, "unclear", "copies", warning="cpu-nodes"),
    ("memcpy", "much"): Sentence("{nodes:Memcpy node} inside the graph: {bytes} copied in each inference.", _NODES, _ANSWER, "", "copies", warning="cpu-nodes"),
    ("memcpy", "some"): Sentence("{nodes:Memcpy node} inside the graph: {bytes} copied in each inference.", _NODES, _GAIN, "", "copies", warning="cpu-nodes"),
    ("memcpy", "little"): Sentence("{nodes:Memcpy node} inside the graph: {bytes} copied in each inference.", "nothing: it costs too little", _DETAIL, "", "copies", warning="cpu-nodes"),
    ("memcpy", "unknown"): Sentence("{nodes:Memcpy node} inside the graph: copies in each inference.", _NODES, _ANSWER, "", "copies", warning="cpu-nodes"),
    ("cpu-fallback", "much"): Sentence("A CPU fallback ({operators}; {position}) takes up to {share} of an inference: {memcpy} in {copies:Memcpy node}, {nodes_time} in nodes.", _FALLBACK, _ANSWER, "", "copies"),
    ("cpu-fallback", "some"): Sentence("A CPU fallback ({operators}; {position}) takes up to {share} of an inference: {memcpy} in {copies:Memcpy node}, {nodes_time} in nodes.", _FALLBACK, _GAIN, "", "copies"),
    ("operator", "most"): Sentence("{operator} ({nodes:node}) takes {share} of an inference under the profiler.", "begin there: another type, opset or EP for it", _GAIN, "", "why"),
    # copies
    ("copies", "measured"): Sentence("Copies take {share} of the latency of {mode}: {copies:ci} of {latency}.", "use the mode that the next finding names", _ANSWER, "", "modes", figure=("Copies", "share")),
    ("copies", "mixed"): Sentence("Copies and other work of session.run take {share} of the latency of {mode}: {copies:ci} of {latency}.", "use the mode that the next finding names", _ANSWER, "", "modes", figure=("Copies", "share")),
    ("copies", "none"): Sentence("Copies take no measurable part of the latency of {mode}, {latency}.", _NODES, _ANSWER, "", "modes"),
    ("arrays", "in-place"): Sentence("{ep} reads arrays in place: {mode} copies nothing.", "keep session.run", _ANSWER, "", "modes"),
    ("arrays", "passed"): Sentence("ONNX Runtime passes arrays through; {ep} may copy them itself.", "keep session.run", _ANSWER, "", "modes"),
    ("latency", "known"): Sentence("An inference takes {latency} with {mode}.", "try settings: ortbench tune", _COST, "", "tune", figure=("One inference", "latency")),
    # what begins at set moments
    ("pace", "slower"): Sentence("{mode} takes {paced} ({stat} {tail}) at one {what} each {every}, {ratio:ci} as long as back to back: {back_to_back}.", "count on this latency: threads sleep, caches cool down and clocks fall meanwhile", _ANSWER, "", "paced-requests", figure=("Paced", "paced")),
    ("pace", "faster"): Sentence("{mode} takes {paced} ({stat} {tail}) at one {what} each {every}, {ratio:ci} as long as back to back: {back_to_back}.", "nothing", _ANSWER, "", "paced-requests", figure=("Paced", "paced")),
    ("pace", "same"): Sentence("{mode} takes as long at one {what} each {every} as back to back: {paced} ({stat} {tail}).", "nothing", _ANSWER, "", "paced-requests", figure=("Paced", "paced")),
    ("pace", "open"): Sentence("Cannot tell whether {mode} takes longer at one {what} each {every} than back to back: {ratio:ci}.", LONGER, _ANSWER, "unclear", "paced-requests"),
    ("pace", "few-samples"): Sentence("Too few blocks to tell whether {mode} takes longer at one {what} each {every} than back to back: {ratio}.", LONGER, _ANSWER, "unclear", "paced-requests"),
    ("pace", "noise"): Sentence("The machine was too busy to tell whether {mode} takes longer at one {what} each {every} than back to back.", WAIT, _ANSWER, "unclear", "noise"),
    ("missed-starts", "some"): Sentence("{missed} of the starts of {mode} came late at one {what} each {every}, as the one before still ran.", "a longer --every, a faster mode or EP; --wait-quiet 60s", _GAIN, "unclear", "paced-requests"),
    ("missed-starts", "most"): Sentence("{mode} cannot keep up with one {what} each {every}: {missed} of the starts waited for the one before.", "a longer --every, a faster mode or EP", _ANSWER, "bad", "paced-requests"),
    ("paced-cpu", "burns"): Sentence("Threads burn CPU time until the next {what} of {mode}: {cpu} each {every} ({cores} cores), back to back {back_to_back}.", "session.intra_op.allow_spinning=0, or --intra-op-threads 1", _GAIN, "bad", "resources"),
    # the two speedups
    ("modes", "same"): Sentence("No gain from device tensors: all modes are the same within {margin}.", _NODES, _ANSWER, "", "modes"),
    ("modes", "none-faster"): Sentence("No mode is faster than cpu-tensors: at most {most}.", _NODES, _ANSWER, "", "modes"),
    ("modes", "little"): Sentence("Little or no gain from device tensors: at most {most}.", _NODES, _ANSWER, "", "modes"),
    ("modes", "open"): Sentence("Cannot tell whether a mode is faster than cpu-tensors: at most {most}.", LONGER, _ANSWER, "unclear", "noise"),
    ("replacement", "faster"): Sentence("{mode} is {speedup:ci} as fast as cpu-tensors with {takes}.", PROGRAM, _ANSWER, "good", "modes", figure=("Fastest mode", "speedup")),
    ("replacement", "tied"): Sentence("{mode} is {speedup:ci} as fast as cpu-tensors with {takes}, the same as {ties}.", PROGRAM, _ANSWER, "good", "modes", figure=("Speedup", "speedup")),
    ("replacement", "faster-open"): Sentence("{mode} is {speedup:ci} as fast as cpu-tensors with {takes}; {ties} may be as fast.", PROGRAM, _ANSWER, "good", "modes", figure=("Speedup", "speedup")),
    ("replacement", "none"): Sentence("No mode with {takes} is faster than cpu-tensors: {mode} {speedup:ci}.", "keep session.run", _ANSWER, "", "modes"),
    ("replacement", "open"): Sentence("Cannot tell whether {mode} is faster than cpu-tensors: {speedup:ci}.", LONGER, _ANSWER, "unclear", "noise"),
    ("replacement", "few-samples"): Sentence("Too few blocks to tell whether {mode} is faster than cpu-tensors: {speedup}.", LONGER, _ANSWER, "unclear", "noise"),
    ("replacement", "noise"): Sentence("The machine was too busy to tell whether {mode} is faster than cpu-tensors.", WAIT, _ANSWER, "unclear", "noise"),
    ("residency", "faster"): Sentence("{mode} is {speedup:ci} as fast as cpu-tensors if {needs}.", PROGRAM, _ANSWER, "good", "loops", figure=("Tensors on the device", "speedup")),
    ("residency", "faster-on-top"): Sentence("{mode} is {on_top:ci} as fast as {other} if {needs}.", PROGRAM, _ANSWER, "good", "loops", figure=("Tensors on the device", "on_top")),
    ("residency", "no-faster-than-other"): Sentence("{mode} is not faster than {other}.", "nothing: tensors need not stay", _COST, "", "modes"),
    ("residency", "open-to-other"): Sentence("Cannot tell whether {mode} is faster than {other}: {on_top:ci}.", LONGER, _COST, "unclear", "noise"),
    ("residency", "none"): Sentence("{mode} is not faster than cpu-tensors, even if {needs}.", "nothing: tensors need not stay", _COST, "", "modes"),
    ("residency", "open"): Sentence("Cannot tell whether {mode} is faster than cpu-tensors: {speedup:ci}.", LONGER, _ANSWER, "unclear", "noise"),
    ("residency", "few-samples"): Sentence("Too few blocks to tell whether {mode} is faster than cpu-tensors: {speedup}.", LONGER, _ANSWER, "unclear", "noise"),
    ("residency", "noise"): Sentence("The machine was too busy to tell whether {mode} is faster than cpu-tensors.", WAIT, _ANSWER, "unclear", "noise"),
    # other modes
    ("pipeline", "faster"): Sentence("{mode} ({depth} in flight) completes {rate}, {speedup:ci} as many as {base}.", "keep several inferences in flight", _GAIN, "good", "modes"),
    ("pipeline", "same"): Sentence("{mode} ({depth} in flight) completes as many as {base}: {speedup:ci}.", "keep one inference at a time", _COST, "", "modes"),
    ("pipeline", "slower"): Sentence("{mode} ({depth} in flight) completes fewer than {base}: {speedup:ci}.", "keep one inference at a time", _COST, "bad", "modes"),
    ("pipeline", "open"): Sentence("Cannot tell whether {mode} ({depth} in flight) completes more than {base}: {speedup:ci}.", LONGER, _COST, "unclear", "modes"),
    ("pipeline", "few-samples"): Sentence("{mode} ({depth} in flight) completes {rate}, {speedup} as many as {base}; too few blocks to tell.", LONGER, _COST, "unclear", "modes"),
    ("pipeline", "noise"): Sentence("{mode} ({depth} in flight) completes {rate}; the machine was too busy to compare it.", WAIT, _COST, "unclear", "modes"),
    # checks
    ("zero-copy", "verified"): Sentence("{mode} is verified as zero-copy: {how}.", "nothing", _DETAIL, "", "measuring"),
    ("zero-copy", "not-verified"): Sentence("{mode} is not verified as zero-copy: {how}.", "do not rely on zero-copy", _COST, "unclear", "measuring"),
    ("external", "verified"): Sentence("{mode} binds another library's memory without a copy: {how}.", "nothing", _DETAIL, "", "inputs"),
    ("external", "not-verified"): Sentence("{mode} may copy another library's memory: {how}.", "do not rely on zero-copy", _COST, "unclear", "inputs"),
    ("graph", "verified"): Sentence("{mode} replays a captured graph: {how}.", "nothing", _DETAIL, "", "tune"),
    ("graph", "not-verified"): Sentence("Replays of {mode} are not verified to read new inputs: {how}.", "check outputs before you use --cuda-graph", _COST, "unclear", "tune"),
    # the host
    ("host-bound", "gpu-waits"): Sentence("The GPU computes for {share} of an inference with {mode}; the rest it waits for the host.", "--cuda-graph, or a larger batch", _GAIN, "", "resources"),
    ("host-bound", "enqueues"): Sentence("{mode} is host-bound: the host enqueues for {share} of an inference.", "--cuda-graph, or a larger batch", _GAIN, "", "resources"),
    ("spinning", "burns"): Sentence("Spinning threads burn {share} of the CPU time of {mode}: {cpu_time}, {without} without.", "session.intra_op.allow_spinning=0, if the latency allows", _COST, "", "resources"),
    # engines
    ("engine", "built"): Sentence("The engine was built in {session}; the first inference took {first}.", "keep it: --engine-cache DIR", _COST, "", "start"),
    ("step-of-a-loop", "likely"): Sentence("The model looks like a step of a loop: {feedback}.", "measure the loop: ortbench loop", _COST, "", "loops"),
    # several results
    # results side by side
    ("best-configuration", "better"): Sentence("{configuration} has the lowest {what} with {mode}, {value}: {other} takes {ratio:ci} as much.", "set what is printed below", _ANSWER, "good", "tune"),
    ("best-configuration", "better-tied"): Sentence("{configuration} has a lower {what} than {other} with {mode}, {value}: {other} takes {ratio:ci} as much; the same: {ties}.", "set what is printed below", _ANSWER, "good", "tune"),
    ("best-configuration", "better-open"): Sentence("{configuration} has a lower {what} than {other} with {mode}, {value}: {other} takes {ratio:ci} as much; maybe as low: {ties}.", "set what is printed below", _ANSWER, "good", "tune"),
    ("best-configuration", "same"): Sentence("The {what} with {mode} is the same within {margin} in all configurations, {value}.", "keep the first", _ANSWER, "", "tune"),
    ("best-configuration", "none"): Sentence("No configuration has a lower {what} than {configuration} with {mode}: {configuration} takes at most {most} as much.", "keep the first", _ANSWER, "", "tune"),
    ("best-configuration", "open"): Sentence("Cannot tell whether {other} has a lower {what} than {configuration} with {mode}: {configuration} takes {ratio:ci} as much.", LONGER, _ANSWER, "unclear", "noise"),
    ("best-configuration", "noise"): Sentence("The machine was too busy to tell whether {other} has a lower {what} than {configuration} with {mode}.", WAIT, _ANSWER, "unclear", "noise"),
    ("fastest-ep", "faster"): Sentence("{model}: {ep} with {mode} is {ratio:ci} as fast as {other} with {other_mode}.", "use that EP", _ANSWER, "good", "choose-ep"),
    ("fastest-ep", "far"): Sentence("{model}: {ep} with {mode} is {ratio} as fast as {other} with {other_mode}, each inference at least {times}×.", "use that EP", _ANSWER, "good", "choose-ep"),
    ("fastest-ep", "same"): Sentence("{model}: {ep} with {mode} and {other} with {other_mode} are the same within {margin}.", "either", _ANSWER, "", "choose-ep"),
    ("fastest-ep", "open"): Sentence("{model}: cannot tell whether {ep} is faster than {other}: {ratio:ci}.", LONGER, _ANSWER, "unclear", "noise"),
    ("fastest-ep", "few-samples"): Sentence("{model}: too few blocks to tell whether {ep} is faster than {other}.", LONGER, _ANSWER, "unclear", "noise"),
    ("fastest-ep", "noise"): Sentence("{model}: the machine was too busy to tell whether {ep} is faster than {other}.", WAIT, _ANSWER, "unclear", "noise"),
    ("difference", "slower"): Sentence("{configuration} is slower than {base} with {mode}: {what} {ratio:ci}.", "see why: compare --why", _ANSWER, "bad", "compare"),
    ("difference", "faster"): Sentence("{configuration} is faster than {base} with {mode}: {what} {ratio:ci}.", "nothing", _ANSWER, "good", "compare"),
    ("difference", "same"): Sentence("{configuration} and {base} are the same within {margin} with {modes}.", "nothing", _ANSWER, "", "compare"),
    ("difference", "open"): Sentence("Cannot tell whether {configuration} or {base} is faster with {modes}.", LONGER, _ANSWER, "unclear", "noise"),
    ("difference", "noise"): Sentence("The machine was too busy to tell whether {configuration} or {base} is faster with {modes}.", WAIT, _ANSWER, "unclear", "noise"),
    ("few-blocks", "some"): Sentence("Too few blocks to compare {configurations}: {blocks} of {needed}.", LONGER, _ANSWER, "unclear", "noise"),
    ("few-blocks", "load"): Sentence("Too few blocks of a load point to compare: an interval takes {needed} in both results.", LONGER, _ANSWER, "unclear", "noise"),
    ("between-runs", "one-each"): Sentence("One run each: differences below {least} cannot be told.", "compare several runs of each configuration, or measure in turns: a live gate", _COST, "unclear", "compare"),
    ("between-runs", "certified"): Sentence("Runs of this machine differ by up to {least} (certificate of {date}): smaller differences cannot be told.", "compare several runs of each configuration, or measure in turns: a live gate", _COST, "unclear", "compare"),
    ("comparability", "forced"): Sentence("not comparable, forced: {base} and {configuration}: {differences:apart}.", "measure both on the same thing", _DOUBT, "unclear", "compare"),
    ("comparability", "changed"): Sentence("what differs ({base} → {configuration}): {changes:apart}.", "nothing, if it is what you compare", _DETAIL, "", "compare"),
    ("comparability", "same"): Sentence("{base} and {configuration}: nothing recorded differs between the two (model files with the same contents, same EP, options, versions, machine): differences are noise, or come from what is not recorded.", "check that you compare what you meant to", _DETAIL, "", "compare"),
    ("only-in", "modes"): Sentence("only {configuration} has: {modes:all}.", "measure the modes in both", _DETAIL, "", "compare"),
    ("only-in", "points"): Sentence("only in {configuration}: {points:apart}.", "measure the points in both", _DETAIL, "", "compare"),
    ("settings", "options"): Sentence("To set {configuration}, best for {goals:and} with these inputs, on ortbench's command line: {options:code}.", "nothing, or try them in other models", _DETAIL, "", "tune"),
    ("settings", "python"): Sentence("The same in Python (options: onnxruntime.SessionOptions): {statements:apart}.", "paste it into the program", _DETAIL, "", "tune"),
    ("settings", "cpp"): Sentence("The same in C++ (options: Ort::SessionOptions): {statements:code}.", "paste it into the program", _DETAIL, "", "tune"),
    ("most-items", "most"): Sentence("{configuration} has the most items/s with {mode}: {rate:ci}.", "batch like this", _ANSWER, "good", "sweeps"),
    ("most-items", "tied"): Sentence("{configuration} has {rate:ci} with {mode}, the same as {ties}.", "take the smallest batch of them", _ANSWER, "good", "sweeps"),
    ("most-items", "open"): Sentence("Cannot tell whether {configuration} or {ties} has the most items/s: {rate:ci} with {mode}.", LONGER, _ANSWER, "unclear", "sweeps"),
    ("busy-cases", "some"): Sentence("The machine was busy in {busy} of {cases:case}: {names}.", 'set wait-quiet = "60s" under [defaults] in the suite\'s file', _DOUBT, "unclear", "noise"),
    ("several", "fallback"): Sentence("In {off} of {results} results most of the model did not run on the EP that was asked for.", "see which: ortbench inspect", _DOUBT, "unclear", "copies"),
    ("several", "copies"): Sentence("Copies take {least} to {most} of the latency of cpu-tensors in {results} results.", "use the mode that each result names", _ANSWER, "", "modes"),
    ("several", "side-by-side"): Sentence("{results} results side by side.", "nothing", _DETAIL, "", "compare"),
    ("fastest-mode", "faster"): Sentence("{configuration}: {mode:if} is {speedup:ci} as fast as cpu-tensors, {latency}.", PROGRAM, _ANSWER, "", "modes"),
    ("fastest-mode", "none"): Sentence("{configuration}: no mode with {takes} is faster than cpu-tensors.", "keep session.run", _ANSWER, "", "modes"),
    ("fastest-mode", "open"): Sentence("{configuration}: cannot tell whether {mode} is faster than cpu-tensors: {speedup:ci}.", LONGER, _ANSWER, "unclear", "noise"),
    ("fastest-mode", "few-samples"): Sentence("{configuration}: too few blocks to tell whether {mode} is faster than cpu-tensors.", LONGER, _ANSWER, "unclear", "noise"),
    ("fastest-mode", "noise"): Sentence("{configuration}: the machine was too busy to tell whether {mode} is faster than cpu-tensors.", WAIT, _ANSWER, "unclear", "noise"),
}  # fmt: skip


PASSED, FAILED, UNCLEAR = "passed", "failed", "cannot tell"


@dataclass(frozen=True)
class Check:
    name: str  # what, in a few words; the same from run to run
    verdict: str  # `PASSED`, `FAILED` or `UNCLEAR`
    text: str  # the figures and the limit, for people: the sentences of its facts
    # ratio, low, high: of the figures, where two were compared, by the sequential test where there are `rounds`; else None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None  # of the ratio
    rounds: int | None = None  # pairs of blocks it rests on; None for one that rests on stored medians
    doubt: str | None = None  # why nothing is told although the interval lies on one side of the limit, else None
    # metric, mode, point: of what it is, as ``--metric`` has them: ``latency.median``, ``cpu-tensors``, ``{"batch": 8}``
    metric: str | None = None
    mode: str | None = None
    point: Mapping[str, int | float | str] = field(default_factory=dict, hash=False)
    findings: Sequence[Finding] = field(default_factory=list, compare=False)  # the same as its text, as data

    def with_fact(self, fact: Fact, **changes: Any) -> Check:
        """The same check by another fact, and with what else is changed."""
        return replace(self, text=phrase(fact), findings=[record(fact)], **changes)

    def and_fact(self, fact: Fact, **changes: Any) -> Check:
        """The same check by one more fact, and with what else is changed."""
        return self.and_sentence(phrase(fact), [record(fact)], **changes)

    def and_sentence(self, sentence: str, findings: Sequence[Finding], **changes: Any) -> Check:
        """The same check with a further sentence in its line."""
        return replace(self, text=_line(self.text, sentence), findings=[*self.findings, *findings], **changes)


def check_by(name: str, verdict: str, *facts: Fact, **more: Any) -> Check:
    return Check(name, verdict, _line(*map(phrase, facts)), findings=[*map(record, facts)], **more)


def _line(*sentences: str) -> str:
    """The line of a check, which has the sentences of all its facts."""
    return "; ".join(sentences)
