"""What must be shown of costs, loads, sweeps, chains, printed programs, starts, causes, settings and decoders,
and of figures beside those of plain programs. From files and numbers alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from ortbench.core.stats import sign_test_interval
from ortbench.core.units import duration, energy, rate, size
from ortbench.features.soak.analysis import verdicts
from tests.gpu import checks
from tests.gpu.checks import FAIL, NOT_RUN, PASS, Check, Result


def memory(name: str, result: Result) -> Check:
    """Every mode was weighed, its device memory with how it was found."""
    weighed = {case["mode"]: case.get("memory") for case in result["cases"] if case["status"] == "ok"}
    wrong = [
        f"{mode}: {'nothing' if it is None else it['failed']}" for mode, it in weighed.items() if not it or it["failed"]
    ]
    if wrong or not weighed:
        return Check(name, FAIL, "; ".join(wrong) or "no mode was measured")
    return Check(name, PASS, "; ".join(_device_memory(case) for case in result["cases"] if case["status"] == "ok"))


def _device_memory(case: Mapping[str, Any]) -> str:
    keys = ("device_memory", "device_memory_bound", "device_memory_process")
    total, bound, card = (checks.value(case, key) for key in keys)
    if total is None:
        return f"{case['mode']} on the host alone"
    shown = "not known" if card is None else size(card)
    return f"{case['mode']} {size(total)} ({case['memory']['device']}; {size(bound)} bound, card {shown})"


def drawn(name: str, result: Result) -> Check:
    """Each mode's energy a run, by what was read; `unsupported` in ortbench's words is `NOT_RUN`."""
    found = {case["mode"]: case.get("energy") for case in result["cases"] if case["status"] == "ok"}
    lacking = [mode for mode, it in found.items() if it is None]
    if lacking or not found:
        return Check(name, FAIL, f"nothing of {', '.join(lacking)}" if lacking else "no mode was measured")
    reasons = dict.fromkeys(it["unsupported"] for it in found.values() if "unsupported" in it)
    if reasons:
        return Check(name, NOT_RUN, "; ".join(reasons))
    figures = {
        case["mode"]: [checks.value(case, key) for key in ("energy", "power", "idle_power")]
        for case in result["cases"]
        if case["status"] == "ok"
    }
    parts = [f"{mode} {energy(each)} a run at {power:.0f} W" for mode, (each, power, _) in figures.items()]
    wrong = any(each <= 0 or power <= idle for each, power, idle in figures.values())
    of = next(iter(found))
    idle_w, how = figures[of][2], found[of]["how"]
    return Check(name, FAIL if wrong else PASS, f"{'; '.join(parts)}; idle {idle_w:.0f} W by {how}")


def without_spin(name: str, result: Result) -> Check:
    """Each mode was measured once more with threads that do not spin."""
    found = {case["mode"]: checks.value(case, "latency_spin_off") for case in result["cases"] if case["status"] == "ok"}
    parts = [f"{mode} {duration(it)} without" for mode, it in found.items() if it is not None]
    complete = bool(found) and len(parts) == len(found)
    return Check(name, PASS if complete else FAIL, "; ".join(parts) or "nothing was measured without them")


def shapes(name: str, result: Result) -> Check:
    """Every shape of a sweep was measured in every mode that the EP has, and one of them is the best."""
    wrong = [
        f"{case['point']}, {case['mode']}: {case['reason'] or case['status']}"
        for case in result["cases"]
        if case["status"] != "unsupported" and (case["status"] != "ok" or not checks.proved(case, "outputs"))
    ]
    best = result.get("best")
    if wrong or best is None:
        return Check(name, FAIL, "; ".join(wrong) or "no shape is the best")
    parts = [f"{mode} {rate(it['items_per_s'])} items/s with {it['shape']}" for mode, it in best["modes"].items()]
    return Check(name, PASS, "; ".join(parts))


def by_batch(name: str, result: Result) -> Check:
    """The latency of each mode at each batch: figures alone, of which outputs decide whether they count."""
    found: dict[str, list[str]] = {}
    for case in result["cases"]:
        if case["status"] == "ok" and (ns := checks.median(case, "latency")) is not None:
            found.setdefault(case["mode"], []).append(f"{case['point'].get('batch')}: {duration(ns)}")
    parts = [f"{mode} {', '.join(times)}" for mode, times in found.items()]
    return Check(f"{name}: latency by batch", PASS if parts else FAIL, "; ".join(parts) or "no mode was measured")


def starts(name: str, result: Result, plain: Result | None = None) -> Check:
    """The parts of a start add up to it, within 1 %, and the outputs of a fresh process are those of the worker."""
    (case,) = result["cases"]
    if case["status"] != "ok" or not checks.proved(case, "outputs"):
        return Check(name, FAIL, case["reason"] or "outputs differ")
    means = {key: it["mean"] for key, it in case["metrics"].items() if key.startswith("start.")}
    ready = means.pop("start.ready")
    parts = {key: ns for key, ns in means.items() if key not in ("start.second_inference", "start.memory")}
    shown = ", ".join(f"{key.removeprefix('start.')} {duration(ns)}" for key, ns in parts.items())
    verdict = PASS if abs(sum(parts.values()) / ready - 1) <= 0.01 else FAIL
    before = (
        "" if plain in (None, result) else f" (else {duration(plain['cases'][0]['metrics']['start.ready']['mean'])})"
    )
    return Check(name, verdict, f"ready after {duration(ready)}{before}: {shown}")


def why(name: str, found: Result) -> Check:
    """A gate of a model with useless nodes fails and names them; where they cost the device nothing it passes."""
    if found["verdict"] == "passed":
        return Check(name, NOT_RUN, "the nodes make it no slower here")
    told = found.get("why")
    if told is None and found["verdict"] == "cannot tell":
        return Check(name, NOT_RUN, "the gate cannot tell whether it is slower")
    if told is None:
        return Check(name, FAIL, f"{found['verdict']}, and no cause is named")
    if "Clip" not in told["sentence"] and "compiled graph" in told["sentence"]:
        return Check(name, NOT_RUN, f"the EP compiles its nodes as one: {told['sentence']}")
    return Check(name, PASS if "Clip" in told["sentence"] else FAIL, told["sentence"])


def again(name: str, result: Result, once: Result | None) -> Check:
    """Of two runs the intervals of medians, rates and speedups have a value in common; of the first, figures alone."""
    found, apart = [], []
    before = {} if once is None else {_place(case): _lying(case) for case in once["cases"] if case["status"] == "ok"}
    for case in (it for it in result["cases"] if it["status"] == "ok"):
        place = _place(case)
        found.append(
            f"{place} {duration(case['metrics']['latency']['median'])}, processes: {len(case.get('processes') or [0])}"
        )
        for what, (low, high) in _lying(case).items():
            other = before.get(place, {}).get(what)
            if other is not None and (low > other[1] or high < other[0]):
                apart.append(f"{what} of {place}: {low:.4g} to {high:.4g}, before {other[0]:.4g} to {other[1]:.4g}")
    verdict = FAIL if apart else PASS if found else NOT_RUN
    return Check(name, verdict, "; ".join([*found, *(f"apart: {it}" for it in apart)]))


def _place(case: Mapping[str, Any]) -> str:
    return " ".join([case["mode"], *(f"{axis}={value:g}" for axis, value in case["point"].items())])


def _lying(case: Mapping[str, Any]) -> dict[str, Sequence[float]]:
    """The intervals of a case."""
    known = {
        "speedup": case.get("speedup") or {},
        **{it: case["metrics"].get(it, {}) for it in ("latency", "throughput")},
    }
    return {what: it["ci95"] for what, it in known.items() if it.get("ci95")}


def switching(name: str, result: Result) -> Check:
    """How many times as long calls take that change shapes; figures alone."""
    found = [f"{it['mode']} {it['ratio']:.2f}× ({duration(it['cost_ns'])} a call)" for it in result["switching"]]
    return Check(name, PASS if found else FAIL, "; ".join(found) or "not measured")


def tuned(name: str, found: Result) -> Check:
    """A search that ended says what is best, or that nothing is."""
    best = [it["text"] if isinstance(it, dict) else str(it) for it in found["best"]]
    return Check(name, PASS if best else FAIL, "; ".join(best) or "it says of nothing whether it is best")


MEMCPY_LEAST, MEMCPY_FROM, LAUNCH_APART = 0.95, 1_000_000, 0.02
MEMCPY_COST_NS = (
    10_000  # that a copy by ONNX Runtime may cost whatever its size: behind pageable memory it waits for its stream
)
THREADS_APART = 0.05
BUG = "dst_data != src_data"


def reported(name: str, found: Mapping[str, Any]) -> Check:
    """The program of a bug report fails as the report says, or ONNX Runtime is mended, which the line then tells."""
    said = "; ".join(found["said"])
    if found["code"] == 0:
        return Check(name, PASS, f"mended, so that docs and ortbench can do without: {said}")
    return Check(name, PASS if BUG in said else FAIL, said)


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


def plain_threads(name: str, found: Mapping[str, Any], limited: bool = True) -> Check:
    """As many inferences a second as plain threads make, within 5 %; a figure without a limit where the script itself is tried."""
    ratios = [ours / theirs for ours, theirs in zip(found["ours"], found["theirs"], strict=True)]
    low, high = sign_test_interval(ratios) or (0.0, math.inf)
    figures = (
        f"{rate(median(found['ours']))} inferences/s by ortbench, {rate(median(found['theirs']))} by {found['threads']} threads; ratio in "
        f"{len(ratios)} turns {median(ratios):.3f} (95% CI {low:.3f} to {high:.3f})"
    )
    if not limited:
        return Check(name, PASS, f"{figures}; no limit with --quick")
    least, most = 1 - THREADS_APART, 1 + THREADS_APART
    verdict = PASS if least <= low and high <= most else FAIL if high < least or low > most else NOT_RUN
    noisy = "too noisy to tell; " if verdict == NOT_RUN else ""
    return Check(name, verdict, f"{noisy}{figures}; limit 1 ± {THREADS_APART:g}")


def generated(name: str, result: Result) -> Check:
    """Time to first token, tokens a second, and bytes of the state that each token copies, by mode; figures alone."""
    parts = []
    for case in result["cases"]:
        metrics = case["metrics"]
        if case["status"] != "ok" or "decode_tokens_per_s" not in metrics:
            continue
        copied = sum(checks.median(case, f"state_bytes_{way}") or 0 for way in ("h2d", "d2h"))
        parts.append(
            f"{case['mode']} TTFT {duration(metrics['time_to_first_token']['median'])}, "
            f"{rate(metrics['decode_tokens_per_s']['value'])} tokens/s, {size(copied)} of state a token"
        )
    return Check(name, PASS if parts else FAIL, "; ".join(parts) or "no mode generated")


def genai(name: str, found: Mapping[str, Any], ours: Result | None) -> Check:
    """onnxruntime-genai's figures, beside those of ortbench's fastest mode; figures alone."""
    theirs = f"onnxruntime-genai {found['version']}: TTFT {duration(found['first_ns'])}, {rate(1e9 / found['token_ns'])} tokens/s"
    best = max(
        (case for case in (ours or {"cases": []})["cases"] if "decode_tokens_per_s" in case["metrics"]),
        key=lambda case: case["metrics"]["decode_tokens_per_s"]["value"],
        default=None,
    )
    if best is None:
        return Check(name, PASS, theirs)
    speed = rate(best["metrics"]["decode_tokens_per_s"]["value"])
    first = duration(best["metrics"]["time_to_first_token"]["median"])
    return Check(name, PASS, f"{theirs}; ortbench's {best['mode']}: TTFT {first}, {speed} tokens/s")


def soaked(name: str, result: Result, wanted: int) -> Check:
    """All inferences were made, and neither the host's memory nor the device's grows."""
    (case,) = result["cases"]
    if case["status"] != "ok":
        return Check(name, FAIL, case["reason"] or case["status"])
    readings = result["soak"]["readings"]
    done = readings[-1]["inferences"]
    parts = [f"{done:,} inferences of {max(1, len(result['soak']['shapes']))} shapes"]
    for key, what in (("private", "host"), ("device", "device")):
        first, last = readings[0][key], readings[-1][key]
        if first is not None and last is not None:
            parts.append(f"{what} memory {size(first)} to {size(last)}")
    told = verdicts(result["soak"])
    parts += [f"{title}: {text}" for title, text in told]
    grows = [title for title, text in told if text.startswith("grows")]
    return Check(name, FAIL if grows or done < wanted else PASS, "; ".join(parts))
