"""What results must show, each as a check with its figures and its limit. From files and numbers alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ortbench.core.units import duration, energy, size
from ortbench.model.modes import (
    BYTES_D2H,
    BYTES_H2D,
    COPY_TIME,
    CPU,
    DEVICE,
    HOST_ACCESSIBLE,
    LATENCY,
    MODES,
    PHASE_NAMES,
    RESIDENT,
    SHARED,
)

PASS, FAIL, NOT_RUN = "PASS", "FAIL", "NOT RUN"

NSIGHT_APART, NSIGHT_APART_NS = 0.05, 20_000
CUPTI_APART, DERIVED_APART, FENCE_APART, LAUNCH_APART = 0.05, 0.10, 0.03, 0.02
OF_NO_NODE, KERNELS_APART = 0.05, 0.10
MEMCPY_LEAST, MEMCPY_FROM = 0.95, 1_000_000
MEMCPY_COST_NS = 10_000  # of a copy by ONNX Runtime, whatever its size: behind pageable memory it waits for its stream

Result = Mapping[str, Any]  # as in result.json


@dataclass(frozen=True)
class Check:
    """One thing that was to be shown: its verdict, and what was found and the limit, or why it was not run."""

    name: str
    verdict: str
    figures: str

    @property
    def line(self) -> str:
        """For the terminal."""
        return f"{self.verdict:7}  {self.name}: {self.figures}"


def without_result(name: str, code: int | None, said: str, refusals: Sequence[str]) -> Check:
    """A step that left nothing: its exit code, None where it was not run to its end, and its last line, which has one of `refusals`
    where the machine or the EP cannot do it."""
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


def outputs(name: str, result: Result, evidence: Evidence = lambda _: "") -> Check:
    """Every mode that the EP has, at every point, gives the outputs that it must, and shows that it did what it was asked for."""
    ok: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    failed = []
    for case in result["cases"]:
        status, reason = case["status"], case["reason"]
        where = " ".join([case["mode"], *(f"{axis}={value}" for axis, value in case["point"].items())])
        if status == "unsupported":
            others.setdefault(reason, []).append(where)
        elif status == "failed" and _interrupted(result) and proved(case, "outputs") is not False:
            others.setdefault("its time was over", []).append(where)  # and nothing of it is wrong as far as is known
        elif status == "failed" or not proved(case, "outputs"):
            failed.append(f"{where}: {reason or 'its outputs were not compared'}")
        elif (shown := evidence(case)) is None:
            failed.append(f"{where}: nothing shows that it did what it was asked for")
        else:
            ok.setdefault(shown, []).append(where)
    if failed:
        return Check(name, FAIL, "; ".join(failed))
    left_out = [f"{', '.join(modes)}: {reason}" for reason, modes in others.items()]
    if not ok:
        return Check(name, NOT_RUN, "; ".join(left_out) or "no mode was measured")
    against = "expected outputs" if result["setup"]["expected_outputs"] else "a plain run's outputs"
    modes = ", ".join(mode for named in ok.values() for mode in named)
    return Check(name, PASS, "; ".join([f"{modes} equal to {against}", *filter(None, ok), *left_out]))


def graph(name: str, result: Result) -> Check:
    """Runs were captured as graphs and replayed."""

    def replayed(case: Mapping[str, Any]) -> str | None:
        if not MODES[case["mode"]].captured:
            return ""
        return f"replayed: {case['checks']['graph']['how']}" if proved(case, "graph") else None

    return outputs(name, result, replayed)


def stream(name: str, result: Result, kind: str) -> Check:
    """The session has run on a stream that was made by `kind`."""
    return outputs(name, result, lambda _: "" if result["target"]["stream"] == kind else None)


def external(name: str, result: Result) -> Check:
    """Inputs were read in the memory of another library."""

    def read(case: Mapping[str, Any]) -> str | None:
        if proved(case, "external"):
            return f"in {case['checks']['external']['place']}: {case['checks']['external']['how']}"
        return None if MODES[case["mode"]].external_inputs else ""

    return outputs(name, result, read)


def loop(name: str, result: Result) -> Check:
    """Every output of every step is right, and no mode that keeps the state on the device copies any of it."""
    stays = (it for it in result["cases"] if it["status"] == "ok" and it["mode"] in (RESIDENT, SHARED.name))
    copied = {it["mode"]: (it["step_bytes"]["state_h2d"], it["step_bytes"]["state_d2h"]) for it in stays}
    wrong = [f"{mode}: a step copies {both} bytes of the state" for mode, both in copied.items() if any(both)]
    return Check(name, FAIL, "; ".join(wrong)) if wrong else outputs(name, result)


def gpu_state(name: str, result: Result) -> Check:
    """NVML's readings before, during and after are in the result."""
    if not any("name" in gpu for gpu in result["environment"]["gpus"]):
        return Check(name, NOT_RUN, "NVML shows no NVIDIA GPU")
    readings = result["environment"].get("gpu_readings", [])
    keys = ("sm_mhz", "memory_mhz", "temperature_c", "power_w", "reasons")
    units = dict(zip(keys, ("MHz SM", "MHz memory", "°C", "W", "reasons"), strict=True))
    values = {unit: [it[key] for it in readings if key in it] for key, unit in units.items()}
    missing = [unit for unit, found in values.items() if not found]
    if len(readings) < 2 or missing:
        return Check(name, FAIL, f"{len(readings)} readings, without {', '.join(missing) or 'one after'}")
    spans = [f"{min(found):.0f} to {max(found):.0f} {unit}" for unit, found in values.items()]
    return Check(name, PASS, f"{len(readings)} readings over {readings[-1]['at_s']:.0f} s: {', '.join(spans)}")


def zero_copy(name: str, result: Result) -> Check:
    """`host-accessible` is proved to be zero-copy, or says why it is not."""
    case = _case(result, HOST_ACCESSIBLE)
    found = None if case is None else case["checks"].get("zero_copy")
    if case is None or found is None:
        return Check(name, NOT_RUN, _why_not(result, HOST_ACCESSIBLE))
    word, how = "proved" if proved(case, "zero_copy") else "not proved", found["how"]
    return Check(name, PASS if how else FAIL, f"{word}: {how or 'no reason is given'}")


def cupti_phases(name: str, result: Result, mode: str) -> Check:
    """The h2d and d2h of a mode against CUPTI's copies in its runs, in time and bytes.

    CUPTI has what the card's copy engine does. From and to pinned memory that is all of a copy but its launch and its
    fence. Ordinary memory the driver moves through buffers of its own, with the processor: there it is a part of a copy.
    """
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


def kernels(name: str, result: Result) -> Check:
    """Nearly all kernels have the node that launched them, and in profiled runs they take what they take in those of `cpu-tensors`."""
    case, rows = _case(result, CPU), (result.get("nodes") or {}).get("kernels")
    if not case or not case.get("recorded") or not rows:
        return Check(name, NOT_RUN, _why_not_recorded(result, CPU))
    lost, ours = sum(it["share"] for it in rows if it["name"] is None), sum(it["ns"] for it in rows)
    theirs = value(case, "gpu_kernels")
    within = lost <= OF_NO_NODE and abs(ours - theirs) <= theirs * KERNELS_APART
    figures = (
        f"{len(rows)} rows, {lost:.1%} of the time of no node (limit {OF_NO_NODE:.0%}); {duration(ours)} in profiled runs, "
        f"{duration(theirs)} in others ({_apart(ours, theirs)}, limit {KERNELS_APART:.0%})"
    )
    return Check(name, PASS if within else FAIL, figures)


def derived_copies(name: str, result: Result) -> Check:
    """`cpu-tensors` less `device-resident` agrees with copies of ordinary memory as `device-tensors` times them, and is no less than what
    CUPTI saw inside the runs of `cpu-tensors`: its records lack what the driver does on the host for such a copy."""
    case, device = _case(result, CPU), _case(result, DEVICE)
    ours = None if case is None else value(case, COPY_TIME)
    parts = [median(device, phase) for phase in ("h2d", "d2h")] if device else [None]
    if case is None or ours is None or None in parts:
        return Check(name, NOT_RUN, _why_not(result, RESIDENT if ours is None else DEVICE))
    timed, recorded = sum(filter(None, parts)), bool(case.get("recorded"))
    theirs = value(case, "gpu_h2d") + value(case, "gpu_d2h") if recorded else 0
    within = abs(ours - timed) <= timed * DERIVED_APART and ours >= theirs * (1 - DERIVED_APART)
    by_cupti = f"{duration(theirs)} by CUPTI" if recorded else _why_not_recorded(result, CPU)
    figures = f"≈{duration(ours)} derived, {duration(timed)} in {DEVICE} ({_apart(ours, timed)}), {by_cupti}; limit {DERIVED_APART:.0%}"
    return Check(name, PASS if within else FAIL, figures)


def fence(name: str, found: Mapping[str, Any]) -> Check:
    """The runs that were timed one by one take together what as many take that are waited for only at their end."""
    figures = (
        f"{found['runs']} runs in {duration(found['latency_ns'])}, median {duration(found['median_ns'])} "
        f"(fence: {found['kind']}), ratio {found['ratio']:.3f}; limit 1 ± {FENCE_APART:g}"
    )
    return Check(name, PASS if abs(found["ratio"] - 1) <= FENCE_APART else FAIL, figures)


def engine(name: str, result: Result, warm: bool) -> Check:
    """An engine is built, or comes from the cache."""
    found, cache = outputs(name, result), result["setup"]["engine_cache"]
    if found.verdict != PASS:
        return found
    state = "no cache" if cache is None else "from a warm cache" if cache["warm"] else "with a cold cache"
    verdict = PASS if cache is not None and cache["warm"] == warm else FAIL
    return Check(name, verdict, f"{state}: session {duration(result['setup']['session_ns'])}; {found.figures}")


def profile(name: str, found: Result) -> Check:
    """Nsight Systems recorded every phase, and its ranges take in sum what ortbench's samples take, or is still to be imported."""
    nsight = found["nsight"]
    if nsight is None and found.get("streamed"):
        later = "report.qdstrm came back, to be imported elsewhere: python -m tests.gpu.direct nsight"
        return Check(name, NOT_RUN, later)
    if nsight is None or not nsight["ranges"]:
        return Check(name, FAIL, "Nsight Systems recorded nothing that can be read")
    wrong = []
    for case, phase in product(found["session"]["cases"], (*PHASE_NAMES, LATENCY)):
        of = f"{case['mode']}/{phase}"
        ours = sum(case["samples"].get(phase, ()))
        theirs = sum(nsight["ranges"].get(of, {"durations_ns": []})["durations_ns"])
        if phase in case["samples"] and abs(theirs - ours) > max(NSIGHT_APART * ours, NSIGHT_APART_NS):
            wrong.append(f"{of} {duration(ours)} by ortbench, {duration(theirs)} by Nsight")
    copied = sum(it["size"] for it in nsight["copies"])
    work = f"{nsight['kernels']} kernels, {size(copied)} copied" if nsight["gpu"] else "no CUDA work"
    limit = f"limit of sums {NSIGHT_APART:.0%} or {duration(NSIGHT_APART_NS)}"
    figures = f"Nsight Systems {nsight['version']}: {len(nsight['ranges'])} kinds of ranges, {work}; {limit}"
    return Check(name, FAIL if wrong else PASS, "; ".join([*wrong, figures]))


def memory(name: str, result: Result) -> Check:
    """Every mode was weighed, its device memory with how it was found."""
    ok = [case for case in result["cases"] if case["status"] == "ok"]
    if not ok or not all(case.get("memory") and not case["memory"]["failed"] for case in ok):
        return Check(name, FAIL, "a mode has none")
    sizes = ((case, value(case, "device_memory")) for case in ok)
    parts = (f"{it['mode']} {'none' if held is None else size(held)} ({it['memory']['device']})" for it, held in sizes)
    return Check(name, PASS, "; ".join(parts))


def drawn(name: str, result: Result) -> Check:
    """Each mode's energy a run, by what was read; `unsupported` in ortbench's words is `NOT_RUN`."""
    ok = [case for case in result["cases"] if case["status"] == "ok"]
    if not ok or not all(case.get("energy") for case in ok):
        return Check(name, FAIL, "a mode has none")
    if reasons := dict.fromkeys(case["energy"]["unsupported"] for case in ok if "unsupported" in case["energy"]):
        return Check(name, NOT_RUN, "; ".join(reasons))
    figures = [(it["mode"], value(it, "energy"), value(it, "power"), value(it, "idle_power")) for it in ok]
    wrong = any(each <= 0 or power <= idle for _, each, power, idle in figures)
    parts = (f"{mode} {energy(each)} a run at {power:.0f} W, idle {idle:.0f} W" for mode, each, power, idle in figures)
    return Check(name, FAIL if wrong else PASS, "; ".join(parts))


def plain_copies(name: str, found: Mapping[str, Any]) -> Check:
    """Copies are at least 95 % as fast as cudaMemcpy's, or take 10 µs more; below a megabyte it is a figure without a limit."""
    parts, slow = [], False
    for it in found["copies"]:
        share = it["theirs_ns"] / max(it["ours_ns"], 1)
        more = it["ours_ns"] - it["theirs_ns"] > MEMCPY_COST_NS
        slow |= share < MEMCPY_LEAST and more and it["bytes"] >= MEMCPY_FROM
        where = f"{it['way']} {size(it['bytes'])} {it['memory']}"
        parts.append(f"{where} {it['bytes'] / it['ours_ns']:.3g} GB/s, {share:.0%} of cudaMemcpy's")
    limit = f"limit {MEMCPY_LEAST:.0%}, or {duration(MEMCPY_COST_NS)} more, from {size(MEMCPY_FROM)} on"
    return Check(name, PASS if parts and not slow else FAIL, f"{'; '.join(parts) or 'nothing was copied'}; {limit}")


def launch(name: str, found: Mapping[str, Any]) -> Check:
    """A resident inference takes at least what its kernels take by CUPTI, and at most what their launch takes besides, within 2 %.

    The launch is timed while CUPTI records, which adds to it: 26 µs in place of 5 on an H200."""
    ours, span, around = found["latency_ns"], found["span_ns"], found["launch_ns"]
    apart = max(span / ours, ours / (span + around), 1) - 1
    figures = (
        f"{duration(ours)} by ortbench, {duration(span)} from first to last kernel and {duration(around)} around them by CUPTI "
        f"({apart:.1%} apart); limit {LAUNCH_APART:.0%}"
    )
    return Check(name, PASS if apart <= LAUNCH_APART else FAIL, figures)


_CUT_SHORT = "the time was over before every phase was timed"


def _apart(ours: float, theirs: float) -> str:
    return f"{abs(ours / max(theirs, 1) - 1):.1%} apart"


def _case(result: Result, mode: str) -> Mapping[str, Any] | None:
    """The case of a mode if it is ok and was measured."""
    cases = (it for it in result["cases"] if it["mode"] == mode and it["status"] == "ok")
    return next((it for it in cases if median(it, LATENCY) is not None), None)


def _interrupted(result: Result) -> bool:
    return result["stopped"] is not None and result["stopped"]["reason"] == "interrupted"


def _why_not(result: Result, mode: str) -> str:
    reasons = [case["reason"] for case in result["cases"] if case["mode"] == mode and case["reason"]]
    return reasons[0] if reasons else f"{mode} was not measured"


def _why_not_recorded(result: Result, mode: str) -> str:
    if _case(result, mode) is None:
        return _why_not(result, mode)
    warned = (it["message"] for it in result["warnings"] if it["code"] == "copies-not-measured")
    return next(warned, "CUPTI was not asked: it sees NVIDIA's EPs only")
