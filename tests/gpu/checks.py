"""What results must show, each as a check with its figures and its limit. From files and numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ortbench.core.units import duration, size
from ortbench.measure.gpus import moves_to_warn_of
from ortbench.model.modes import (
    ASYNC,
    BYTES_D2H,
    BYTES_H2D,
    COPY_TIME,
    CPU,
    CPU_PINNED,
    DEVICE,
    DEVICE_PINNED,
    HOST_ACCESSIBLE,
    LATENCY,
    MODES,
    PHASE_NAMES,
    PIPELINED,
    RESIDENT,
    SHARED,
)

PASS, FAIL, NOT_RUN = "PASS", "FAIL", "NOT RUN"

RUNS = 100  # of the published device tensor sample
NSIGHT_APART, NSIGHT_APART_NS = 0.05, 20_000
CUPTI_APART, DERIVED_APART, FENCE_APART, LOOP_COST = 0.05, 0.10, 0.03, 1.05
SAMPLE_RATIO = (RUNS / 2, RUNS * 2)  # copies in every run against copies once

Result = Mapping[str, Any]  # as in result.json


@dataclass(frozen=True)
class Check:
    """One thing that was to be shown.

    Attributes:
        name: what.
        verdict: `PASS`, `FAIL` or `NOT_RUN`.
        figures: what was found and the limit, or why it was not run.
    """

    name: str
    verdict: str
    figures: str

    @property
    def line(self) -> str:
        """For the terminal."""
        return f"{self.verdict:7}  {self.name}: {self.figures}"


def without_result(name: str, code: int | None, said: str, refusals: Sequence[str]) -> Check:
    """A step that left nothing.

    Args:
        name: of what it was to show.
        code: exit code; None where it was not run to its end.
        said: why, in the last line that it printed.
        refusals: what is said where the machine or the EP cannot do it, which is no failure; see `tests.gpu.steps.Step`.
    """
    refused = any(words in said for words in refusals)
    return Check(name, NOT_RUN if code is None or refused else FAIL, said)


Evidence = Callable[[Mapping[str, Any]], str | None]  # of a case: "" where none is due, None where it is lacking


def proved(case: Mapping[str, Any], check: str) -> bool | None:
    """Whether a check of a case passed; None where it was not made."""
    found = case["checks"].get(check)
    return None if found is None else found["verdict"] == "passed"


def median(case: Mapping[str, Any], metric: str) -> int | None:
    """The median of a metric's samples, or None."""
    found: int | None = case["metrics"].get(metric, {}).get("median")
    return found


def value(case: Mapping[str, Any], metric: str) -> Any:
    """A metric that is one number, or None."""
    return case["metrics"].get(metric, {}).get("value")


def _none_due(_: Mapping[str, Any]) -> str | None:
    return ""


def outputs(name: str, result: Result, evidence: Evidence = _none_due, plain: Result | None = None) -> Check:
    """Every mode that the EP has gives the outputs that it must, and shows what it was asked to show.

    Args:
        name: of the check.
        result: what was measured.
        evidence: that a mode did what it was asked for.
        plain: the model's result without that, whose medians are named beside.
    """
    ok: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    failed, times = [], []
    for case in result["cases"]:
        mode, status, reason = case["mode"], case["status"], case["reason"]
        if status == "unsupported":
            others.setdefault(reason, []).append(mode)
        elif status == "failed" and _interrupted(result) and proved(case, "outputs") is not False:
            others.setdefault("its time was over", []).append(mode)  # and nothing of it is wrong as far as is known
        elif status == "failed" or not proved(case, "outputs"):
            failed.append(f"{mode}: {reason or 'its outputs were not compared'}")
        elif (shown := evidence(case)) is None:
            failed.append(f"{mode}: nothing shows that it did what it was asked for")
        else:
            ok.setdefault(shown, []).append(mode)
            times += _beside(case, plain)
    if failed:
        return Check(name, FAIL, "; ".join(failed))
    left_out = [f"{', '.join(modes)}: {reason}" for reason, modes in others.items()]
    if not ok:
        return Check(name, NOT_RUN, "; ".join(left_out) or "no mode was measured")
    against = "expected outputs" if result["setup"]["expected_outputs"] else "a plain run's outputs"
    modes = ", ".join(mode for named in ok.values() for mode in named)
    parts = [f"{modes} equal to {against}", *(shown for shown in ok if shown), *times, *left_out]
    return Check(name, PASS, "; ".join(parts))


def _beside(case: Mapping[str, Any], plain: Result | None) -> list[str]:
    """The median of a mode, beside that of a plain run of it."""
    before = None if plain is None else _case(plain, case["mode"])
    new, old = (None if it is None else median(it, LATENCY) for it in (case, before))
    return [] if new is None or old is None else [f"{case['mode']} {duration(new)} (else {duration(old)})"]


def graph(name: str, result: Result, plain: Result | None = None) -> Check:
    """Runs were captured as graphs and replayed."""

    def replayed(case: Mapping[str, Any]) -> str | None:
        if not MODES[case["mode"]].captured:
            return ""
        return f"replayed: {case['checks']['graph']['how']}" if proved(case, "graph") else None

    return outputs(name, result, replayed, plain)


def loop(name: str, result: Result) -> Check:
    """Every output of every step is right, each step was timed, and no mode that keeps the state there copies any of it,
    unless nodes on the CPU leave it elsewhere."""
    count = result["loop"]["steps"]
    wrong, shown = [], []
    for case in result["cases"]:
        if case["status"] != "ok":
            continue
        mode, times = case["mode"], case.get("steps_ns")
        copied = [case["step_bytes"][way] for way in ("state_h2d", "state_d2h")]
        elsewhere = _state_elsewhere(result, case)
        if mode in _STATE_STAYS and copied != [0, 0] and not elsewhere:
            wrong.append(f"{mode}: a step copies {copied[0]} and {copied[1]} bytes of the state")
        if elsewhere:
            shown.append(f"{mode}: {', '.join(elsewhere)}")
        if times is None or len(times) != count or min(times) <= 0:
            wrong.append(f"{mode}: its {count} steps took {times}")
            continue
        ends = f"{duration(times[0])} to {duration(times[-1])} a step"
        shown.append(f"{mode} {duration(case['metrics']['loop']['median'])}, {ends}")
    found = outputs(name, result)
    if found.verdict != PASS or not wrong:
        return Check(
            name, found.verdict, "; ".join([found.figures, *shown] if found.verdict == PASS else [found.figures])
        )
    return Check(name, FAIL, "; ".join(wrong))


def _state_elsewhere(result: Result, case: Mapping[str, Any]) -> list[str]:
    """Parts of the state that are not in the mode's own memory, and why."""
    state = {name for pair in result["loop"]["feedback"] for name in pair}
    places = [*case["places"]["inputs"], *case["places"]["outputs"]]
    return [f"{it['name']} in {it['memory']} ({it['why']})" for it in places if it["name"] in state and not it["usual"]]


def stream(name: str, result: Result, kind: str, plain: Result | None = None) -> Check:
    """The session has run on a stream that was made by `kind`."""
    return outputs(name, result, lambda _: "" if result["target"]["stream"] == kind else None, plain)


def external(name: str, result: Result) -> Check:
    """Inputs were read in the memory of another library."""

    def read(case: Mapping[str, Any]) -> str | None:
        if not MODES[case["mode"]].external_inputs:
            return ""
        found = case["checks"].get("external")
        return f"in {found['place']}: {found['how']}" if proved(case, "external") else None

    return outputs(name, result, read)


def chosen(name: str, result: Result) -> Check:
    """What ONNX Runtime chose by the policy, with the vendor id that the session tells."""
    found = outputs(name, result)
    target, device = result["target"], result["target"]["device"]
    if found.verdict != PASS:
        return found
    has_gpu = bool(result["environment"]["gpus"])
    if target["policy"] != "PREFER_GPU" or (has_gpu and device["type"] != "GPU"):
        return Check(name, FAIL, f"by {target['policy']} it chose {target['ep']} on {device['type']}")
    if device["type"] != "GPU":
        return Check(name, NOT_RUN, f"it chose {target['ep']}: no EP that loads here has a GPU")
    if not device.get("vendor_id"):
        return Check(name, FAIL, f"it chose {target['ep']}, of whose device the session tells no vendor")
    vendor = f"{device['vendor'] or 'vendor'} {device['vendor_id']:04x}"
    return Check(name, PASS, f"{target['ep']} on GPU {device['device_id']:04x} of {vendor}; {found.figures}")


def pipelined(model: str, result: Result) -> Check:
    """How much of the copies a pipeline hides; whatever that is, items with inputs of their own must come out right."""
    name = f"{model}: pipelined: copies hidden, outputs of every item"
    case = _case(result, PIPELINED)
    if case is None:
        return Check(name, NOT_RUN, _why_not(result, PIPELINED))
    found = case["pipeline"]
    if any(median(case, phase) is None for phase in PHASE_NAMES):
        return Check(name, NOT_RUN, _CUT_SHORT)
    hidden, copies, against = (case["metrics"].get(key) for key in ("hidden_share", COPY_TIME, "pipeline_speedup"))
    if hidden is None or copies is None or found["distinct"] < 2 or not proved(case, "outputs"):
        return Check(name, FAIL, f"hidden: {hidden and hidden['value']}, {found['distinct']} items of their own")
    low, high = hidden["ci95"]
    figures = (
        f"≈{hidden['value']:.0%} of {duration(copies['value'])} hidden (95% CI {low:.0%} to {high:.0%}), "
        f"{found['depth']} in flight"
    )
    if against:
        figures += f", {against['value']:.2f} times as fast as device-tensors"
    return Check(name, PASS, f"{figures}; {found['distinct']} of {found['items']} items have inputs of their own")


def pinned(model: str, result: Result) -> Check:
    """What pinned memory brings; a figure without a limit."""
    name = f"{model}: pinned against ordinary host memory"
    parts = []
    for mode, with_pinned, phases in (
        (DEVICE, DEVICE_PINNED, ("h2d", "d2h", "latency")),
        (CPU, CPU_PINNED, ("latency",)),
    ):
        ordinary, other = _case(result, mode), _case(result, with_pinned)
        if ordinary is None or other is None:
            return Check(name, NOT_RUN, _why_not(result, mode if ordinary is None else with_pinned))
        for phase in phases:
            before, after = (median(it, phase) for it in (ordinary, other))
            if before is None or after is None:
                return Check(name, NOT_RUN, _CUT_SHORT)
            parts.append(f"{mode} {phase} {duration(before)}, pinned {duration(after)} ({before / max(after, 1):.2f}×)")
    return Check(name, PASS, "; ".join(parts))


def asynchronous(model: str, result: Result) -> Check:
    """What runs that are not waited for bring; a figure without a limit."""
    name = f"{model}: asynchronous runs"
    case, resident = _case(result, ASYNC), _case(result, RESIDENT)
    if case is None or resident is None:
        return Check(name, NOT_RUN, _why_not(result, ASYNC if case is None else RESIDENT))
    each, alone = (it["metrics"]["latency"]["median"] for it in (case, resident))
    figures = (
        f"{duration(each)} a run in bursts of {case['inferences_per_sample']}, {duration(alone)} waited for one by one"
    )
    return Check(name, PASS, f"{figures} ({alone / max(each, 1):.2f}×)")


_READINGS = ("sm_mhz", "memory_mhz", "temperature_c", "power_w", "reasons")


_STATE = "NVML before, during and after: clocks, temperature, power, throttle reasons"


def gpu_state(result: Result, name: str = _STATE) -> Check:
    """NVML's readings before, during and after are in the result, and what moved in them is among its warnings."""
    if not any("name" in gpu for gpu in result["environment"]["gpus"]):
        return Check(name, NOT_RUN, "NVML shows no NVIDIA GPU")
    readings = result["environment"].get("gpu_readings", [])
    missing = [key for key in _READINGS if not any(key in reading for reading in readings)]
    if len(readings) < 2 or missing:
        return Check(name, FAIL, f"{len(readings)} readings, without {', '.join(missing) or 'one after'}")
    said = [warning["message"] for warning in result["warnings"] if warning["code"] == "gpu-state"]
    moved = moves_to_warn_of(readings, result.get("throttled"))
    if said != moved:
        return Check(name, FAIL, f"{moved} moved, and the warnings are {said}")
    spans, inside = [], [reading for reading in readings if reading.get("in_block")]
    for key, unit in (("sm_mhz", "MHz SM"), ("memory_mhz", "MHz memory"), ("temperature_c", "°C"), ("power_w", "W")):
        values = [reading[key] for reading in inside or readings if key in reading]
        spans.append(f"{min(values):.0f} to {max(values):.0f} {unit}")
    figures = f"{len(readings)} readings over {readings[-1]['at_s']:.0f} s, {len(inside)} in blocks: {', '.join(spans)}"
    return Check(name, PASS, f"{figures}; {'; '.join(said) or 'nothing to warn of'}")


def first_process(result: Result) -> Check:
    """What the first process on the GPU took, with a cold driver and a cold disk; figures without a limit."""
    setup = result["setup"]
    figures = f"session {duration(setup['session_ns'])}, first inference {duration(setup['first_inference_ns'])}"
    return Check("the first process on the GPU", PASS, figures)


def ep_device(result: Result) -> Check:
    """The EP was used by its EP device, which is what tells its memory; the classic way has a reason."""
    name = "the EP's device and its memory"
    target = result["target"]
    memory, found = (
        target["memory"],
        f"{target['ep']} {target['ep_version']} from {target['ep_library'] or 'ONNX Runtime'}",
    )
    if memory["kind"] == "host":
        return Check(name, NOT_RUN, _ON_HOST)
    if memory["kind"] != "ep-device":
        return Check(name, FAIL, f"{found}: {_warned(result, 'named-device') or 'it has no EP device'}")
    figures = f"{found}: {memory['default']}, {memory['host_accessible'] or 'no HOST_ACCESSIBLE memory'}"
    return Check(name, PASS, figures)


def zero_copy(result: Result) -> Check:
    """`host-accessible` is proved to be zero-copy, or says why it is not."""
    name = "host-accessible: zero-copy proved, or the reason"
    case = _case(result, HOST_ACCESSIBLE)
    found = None if case is None else case["checks"].get("zero_copy")
    if case is None or found is None:
        return Check(name, NOT_RUN, _why_not(result, HOST_ACCESSIBLE))
    word, how = "proved" if proved(case, "zero_copy") else "not proved", found["how"]
    return Check(name, PASS if how else FAIL, f"{word}: {how or 'no reason is given'}")


def cupti_phases(result: Result, mode: str) -> Check:
    """The upload and download of a mode against CUPTI's copies in its runs, in time and bytes.

    CUPTI has what the card's copy engine does. From and to pinned memory that is all of a copy but its launch and its
    fence. Ordinary memory the driver moves through buffers of its own, with the processor: there it is a part of a copy.
    """
    name = f"CUPTI's copies against h2d and d2h of {mode}"
    case = _case(result, mode)
    if not case or not case.get("recorded"):
        return Check(name, NOT_RUN, _why_not_recorded(result, mode))
    pinned, verdict, parts = MODES[mode].pinned, PASS, []
    for phase, key in (("h2d", BYTES_H2D), ("d2h", BYTES_D2H)):
        ours, theirs = median(case, phase), value(case, f"gpu_{phase}")
        size_of, their_size = value(case, key), value(case, f"gpu_{key}")
        if ours is None:
            return Check(name, NOT_RUN, _CUT_SHORT)
        least, most = theirs * (1 - CUPTI_APART), theirs * (1 + CUPTI_APART)
        if ours < least or (pinned and ours > most) or their_size != size_of:
            verdict = FAIL
        parts.append(
            f"{phase} {duration(ours)} by ortbench, {duration(theirs)} by CUPTI ({_apart(ours, theirs)}), "
            f"{size_of} and {their_size} bytes"
        )
    limit = f"limit {CUPTI_APART:.0%}" if pinned else f"ours may be no more than {CUPTI_APART:.0%} shorter"
    return Check(name, verdict, f"{'; '.join(parts)}; {limit} and equal bytes")


def derived_copies(result: Result) -> Check:
    """`cpu-tensors` less `device-resident` agrees with copies of ordinary memory as `device-tensors` times them, and is no less than what
    CUPTI saw inside the runs of `cpu-tensors`: its records lack what the driver does on the host for such a copy."""
    name = "cpu-tensors less device-resident agrees with copies in device-tensors, and CUPTI's are no longer"
    case, device = _case(result, CPU), _case(result, DEVICE)
    if not case or not case.get("recorded"):
        return Check(name, NOT_RUN, _why_not_recorded(result, CPU))
    ours, theirs = value(case, COPY_TIME), value(case, "gpu_h2d") + value(case, "gpu_d2h")
    parts = [median(device, phase) for phase in ("h2d", "d2h")] if device else []
    timed = None if None in parts or not parts else sum(filter(None, parts))
    if ours is None or timed is None:
        return Check(name, NOT_RUN, _why_not(result, RESIDENT if ours is None else DEVICE))
    within = abs(ours - timed) <= timed * DERIVED_APART and ours >= theirs * (1 - DERIVED_APART)
    figures = (
        f"≈{duration(ours)} derived, {duration(timed)} in {DEVICE} ({_apart(ours, timed)}), {duration(theirs)} by CUPTI; "
        f"limit {DERIVED_APART:.0%}"
    )
    return Check(name, PASS if within else FAIL, figures)


def published_sample(result: Result) -> Check:
    """What copies in every run take over the 100 runs of the published device tensor sample, in single copies that were timed in
    turn with these runs; the one copy before `device-resident`, which is one sample, is a figure."""
    name = f"the published sample's shape: copies in each of {RUNS} runs against once"
    cpu, resident, single = (_case(result, mode) for mode in (CPU, RESIDENT, DEVICE))
    copies = None if cpu is None else value(cpu, COPY_TIME)
    once = [] if resident is None else [value(resident, key) for key in ("once_h2d", "once_d2h")]
    timed = [None] if single is None else [median(single, way) for way in ("h2d", "d2h")]
    if copies is None or not once or None in once or None in timed:
        on_host = result["target"]["memory"]["kind"] == "host"
        return Check(name, NOT_RUN, _ON_HOST if on_host else _why_not(result, RESIDENT))
    one, low, high = max(sum(filter(None, timed)), 1), *SAMPLE_RATIO
    least, most = (
        cpu_ns - resident_ns for cpu_ns, resident_ns in zip(_interval(cpu), reversed(_interval(resident)), strict=True)
    )
    ratio, noisy = copies * RUNS / one, ""
    verdict = PASS if low <= ratio <= high else FAIL
    if verdict == FAIL and least * RUNS / one <= high and most * RUNS / one >= low:
        verdict, noisy = NOT_RUN, f"too noisy to tell, copies take {duration(least)} to {duration(most)}; "
    figures = (
        f"{noisy}≈{duration(copies * RUNS)} of copies with CPU tensors, {duration(one)} a copy in {DEVICE}, {ratio:.0f} times; "
        f"limits {low:.0f} and {high:.0f}; {duration(sum(once))} when copied once"
    )
    return Check(name, verdict, figures)


def _interval(case: Mapping[str, Any] | None) -> tuple[int, int]:
    """The 95 % interval of a mode's latency, ns."""
    found = {} if case is None else case["metrics"][LATENCY]
    low, high = found.get("ci95") or [found.get("median", 0)] * 2
    return low, high


def fence(found: Mapping[str, Any] | None) -> Check:
    """The runs that were timed one by one take together what as many take that are waited for only at their end."""
    name = "the fence holds: N runs with one readback take N times the median"
    if found is None:
        return Check(name, NOT_RUN, _ON_HOST)
    apart = abs(found["ratio"] - 1)
    figures = (
        f"{found['runs']} runs in {duration(found['latency_ns'])}, median {duration(found['median_ns'])} "
        f"(fence: {found['kind']}), ratio {found['ratio']:.3f}; limit 1 ± {FENCE_APART:g}"
    )
    return Check(name, PASS if apart <= FENCE_APART else FAIL, figures)


def loop_cost(found: Mapping[str, Any]) -> Check:
    """The loop that takes the samples costs next to nothing."""
    ratio = found["ours_ns"] / found["bare_ns"]
    figures = (
        f"{duration(found['ours_ns'])} a sample, {duration(found['bare_ns'])} in a bare loop, ratio {ratio:.3f}; "
        f"limit {LOOP_COST:g}"
    )
    return Check("loop cost against a bare loop", PASS if ratio <= LOOP_COST else FAIL, figures)


def bandwidth(name: str, result: Result) -> Check:
    """Every copy of the bandwidth curve gave its data back."""
    cases = result["cases"]
    failed = [f"copies of {size(it['point']['size'])}: {it['reason']}" for it in cases if it["status"] != "ok"]
    if failed or not cases:
        return Check(name, FAIL, "; ".join(failed) or "it has no case")
    peaks = []
    for way in ("h2d", "d2h"):
        best = max(cases, key=lambda it: it["metrics"][f"{way}_rate"]["value"])
        rate, of = best["metrics"][f"{way}_rate"]["value"], best["point"]
        peaks.append(f"{way} {rate / 1e9:.3g} GB/s with {size(of['size'])} from {of['memory']} memory")
    return Check(name, PASS, f"peak: {', '.join(peaks)}; {2 * len(cases)} copies with their data held")


def devices(name: str, listed: Mapping[str, Any], result: Result | None) -> Check:
    """The EP is listed with its device, and with the modes that were then measured."""
    if result is None:
        return Check(name, NOT_RUN, "no run says which EP it is")
    ep = result["target"]["ep"]
    entry = next((entry for entry in listed["eps"] if entry["name"] == ep), None)
    if entry is None or entry["problem"] or not entry["devices"]:
        return Check(name, FAIL, f"{ep}: {'it is not listed' if entry is None else entry['problem'] or 'no device'}")
    device = entry["devices"][0]
    said = {mode for mode, reason in device["modes"].items() if reason is not None}
    seen = {case["mode"] for case in result["cases"] if case["status"] == "unsupported"}
    if said & {case["mode"] for case in result["cases"]} != seen:
        return Check(name, FAIL, f"unsupported by the list: {sorted(said)}, in the run: {sorted(seen)}")
    hardware, memory = device["hardware"], device["memory"]
    streams = "streams" if device["streams"]["offered"] else "no streams"
    where = f"{hardware['type']} {hardware['vendor_id']:04x}:{hardware['device_id']:04x}"
    figures = f"{ep} on {where}, memory {memory['default']} and {memory['host_accessible']}, {streams}"
    return Check(name, PASS, f"{figures}; unsupported: {', '.join(sorted(said)) or 'no mode'}")


def named_device(name: str, found: Mapping[str, Any]) -> Check:
    """The EP by its name alone, as ONNX Runtime used it before there were EP devices."""
    if found["reason"] is not None:
        return Check(name, NOT_RUN, found["reason"])
    wrong = [f"{mode}: {it['wrong']}" for mode, it in found["modes"].items() if it["wrong"]]
    if wrong:
        return Check(name, FAIL, "; ".join(wrong))
    times = [
        f"{mode} {duration(it['median_ns'])} (fence: {it['sync']})"
        if it["reason"] is None
        else f"{mode}: {it['reason']}"
        for mode, it in found["modes"].items()
    ]
    return Check(name, PASS, f"memory {found['memory']}; {'; '.join(times)}; equal to expected outputs")


def engine(name: str, result: Result, warm: bool, before: Result | None = None) -> Check:
    """An engine is built, or comes from the cache."""
    found = outputs(name, result)
    cache = result["setup"]["engine_cache"]
    if found.verdict != PASS:
        return found
    took = f"session {duration(result['setup']['session_ns'])}, first run {duration(result['setup']['first_inference_ns'])}"
    if before is not None:
        took += f"; built in {duration(before['setup']['session_ns'])}"
    state = "no cache" if cache is None else "from a warm cache" if cache["warm"] else "with a cold cache"
    return Check(
        name, PASS if cache is not None and cache["warm"] == warm else FAIL, f"{state}: {took}; {found.figures}"
    )


def profile(name: str, found: Mapping[str, Any], streamed: bool = False) -> Check:
    """Nsight Systems recorded every phase, and its ranges take in sum what ortbench's samples take; `streamed`: what it recorded
    is still to be imported."""
    nsight = found["nsight"]
    if nsight is None and streamed:
        return Check(
            name, NOT_RUN, "report.qdstrm came back, to be imported elsewhere: python -m tests.gpu.direct nsight"
        )
    if nsight is None or not nsight["ranges"]:
        return Check(name, FAIL, "Nsight Systems recorded nothing that can be read")
    samples = {
        f"{case['mode']}/{phase}": sum(case["samples"][phase])
        for case in found["session"]["cases"]
        for phase in (*PHASE_NAMES, LATENCY)
        if phase in case["samples"]
    }
    sums = {of: (ns, sum(nsight["ranges"].get(of, {"durations_ns": []})["durations_ns"])) for of, ns in samples.items()}
    apart = {of: abs(theirs - ours) / max(ours, 1) for of, (ours, theirs) in sums.items()}
    wrong = [
        f"{of} {duration(ours)} by ortbench, {duration(theirs)} by Nsight"
        for of, (ours, theirs) in sums.items()
        if abs(theirs - ours) > max(NSIGHT_APART * ours, NSIGHT_APART_NS)
    ]
    copied = sum(it["size"] for it in nsight["copies"])
    work = f"{nsight['kernels']} kernels, {size(copied)} copied" if nsight["gpu"] else "no CUDA work"
    most = f"sums at most {max(apart.values(), default=0):.1%} apart, limit {NSIGHT_APART:.0%} or {duration(NSIGHT_APART_NS)}"
    figures = f"Nsight Systems {nsight['version']}: {len(nsight['ranges'])} kinds of ranges, {work}; {most}"
    return Check(name, FAIL if wrong else PASS, "; ".join([*wrong, figures]))


def exit_code(checks: Sequence[Check]) -> int:
    """0 only if no check failed."""
    return 1 if any(check.verdict == FAIL for check in checks) else 0


_STATE_STAYS = (RESIDENT, SHARED.name)
_CUT_SHORT = "the time was over before every phase was timed"
_ON_HOST = "this EP computes in host memory: nothing is copied to a device"


def _apart(ours: float, theirs: float) -> str:
    return f"{abs(ours / max(theirs, 1) - 1):.1%} apart"


def _case(result: Result, mode: str) -> Mapping[str, Any] | None:
    """The case of a mode if it is ok and was measured."""
    for case in result["cases"]:
        if case["mode"] == mode and case["status"] == "ok" and median(case, LATENCY) is not None:
            found: Mapping[str, Any] = case
            return found
    return None


def _warned(result: Result, code: str) -> str | None:
    return next((warning["message"] for warning in result["warnings"] if warning["code"] == code), None)


def _interrupted(result: Result) -> bool:
    return result["stopped"] is not None and result["stopped"]["reason"] == "interrupted"


def _why_not(result: Result, mode: str) -> str:
    reasons = [case["reason"] for case in result["cases"] if case["mode"] == mode and case["reason"]]
    return reasons[0] if reasons else f"{mode} was not measured"


def _why_not_recorded(result: Result, mode: str) -> str:
    if _case(result, mode) is None:
        return _why_not(result, mode)
    return _warned(result, "copies-not-measured") or "CUPTI was not asked: it sees NVIDIA's EPs only"
