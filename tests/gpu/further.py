"""What must be shown of costs, loads, sweeps, chains and printed programs. From files and numbers alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortbench.core.units import duration, energy, rate, size
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
    parts = []
    for mode, it in weighed.items():
        device = it["device"]
        if device is None or device["bytes"] is None:
            parts.append(f"{mode} on the host alone")
        else:
            card = "not known" if device["card"] is None else size(device["card"])
            parts.append(
                f"{mode} {size(device['bytes'])} ({device['how']}; {size(device['bound'])} bound, card {card})"
            )
    return Check(name, PASS, "; ".join(parts))


def drawn(name: str, result: Result) -> Check:
    """Each mode's energy a run, by what was read; `unsupported` in ortbench's words is `NOT_RUN`."""
    found = {case["mode"]: case.get("energy") for case in result["cases"] if case["status"] == "ok"}
    lacking = [mode for mode, it in found.items() if it is None]
    if lacking or not found:
        return Check(name, FAIL, f"nothing of {', '.join(lacking)}" if lacking else "no mode was measured")
    reasons = dict.fromkeys(it["unsupported"] for it in found.values() if "unsupported" in it)
    if reasons:
        return Check(name, NOT_RUN, "; ".join(reasons))
    parts = [f"{mode} {energy(it['joules'])} a run at {it['watts']:.0f} W" for mode, it in found.items()]
    wrong = any(it["joules"] <= 0 or it["watts"] <= it["idle_watts"] for it in found.values())
    of = next(iter(found.values()))
    return Check(name, FAIL if wrong else PASS, f"{'; '.join(parts)}; idle {of['idle_watts']:.0f} W by {of['how']}")


def without_spin(name: str, result: Result) -> Check:
    """Each mode was measured once more with threads that do not spin."""
    found = {case["mode"]: case.get("spin") for case in result["cases"] if case["status"] == "ok"}
    parts = [f"{mode} {duration(it['latency_ns'])} without" for mode, it in found.items() if it]
    complete = bool(found) and len(parts) == len(found)
    return Check(name, PASS if complete else FAIL, "; ".join(parts) or "nothing was measured without them")


def levels(name: str, result: Result) -> Check:
    """Every level of a load was measured, and every caller's outputs were right."""
    found = result["levels"]
    wrong = [f"{_of(it)}: {it['reason'] or it['status']}" for it in found if it["status"] != "ok"]
    wrong += [f"{_of(it)}: outputs differ" for it in found if it["status"] == "ok" and not it["outputs_match"]]
    if wrong or not found:
        return Check(name, FAIL, "; ".join(wrong) or "there is no level")
    parts = [
        f"{_of(it)} {rate(it['runs_per_s'])} runs/s, p50 {duration(it['latency_ns']['p50'])}"
        + ("" if "sm" not in (it.get("clock_mhz") or {}) else f" at {it['clock_mhz']['sm']} MHz")
        for it in found
    ]
    return Check(name, PASS, "; ".join(parts))


def _of(level: Mapping[str, Any]) -> str:
    return f"{level['rate']:g}/s" if "rate" in level else f"{level['concurrency']} in {level['sessions']}"


def shapes(name: str, result: Result) -> Check:
    """Every shape of a sweep was measured in every mode, and one of them is the best."""
    wrong = [
        f"{case['point']}, {case['mode']}: {case['reason'] or case['status']}"
        for case in result["cases"]
        if case["status"] != "ok" or not checks.proved(case, "outputs")
    ]
    best = result["best"]
    if wrong or best is None:
        return Check(name, FAIL, "; ".join(wrong) or "no shape is the best")
    parts = [f"{mode} {rate(it['items_per_s'])} items/s with {it['shape']}" for mode, it in best["modes"].items()]
    return Check(name, PASS, "; ".join(parts))


def chain(name: str, result: Result) -> Check:
    """Outputs of all stages are right, and on a device the links stay there."""
    wrong = [
        f"{it['mode']}: {it['reason'] or 'outputs differ'}"
        for it in result["cases"]
        if not checks.proved(it, "outputs")
    ]
    if wrong:
        return Check(name, FAIL, "; ".join(wrong))
    links = result["chain"]["links"]
    stay = sum(it["stays"] for it in links)
    times = [f"{it['mode']} {duration(it['metrics']['chain']['median'])}" for it in result["cases"]]
    on_host = result["target"]["memory"]["kind"] == "host"
    verdict = PASS if on_host or stay == len(links) else FAIL
    return Check(name, verdict, f"{stay} of {len(links)} links stay; {'; '.join(times)}")


def programs(name: str, found: Mapping[str, Any]) -> Check:
    """What ``ortbench code`` prints runs as it is and gives the outputs of a plain run."""
    wrong = [f"{mode}: {it['said']}" for mode, it in found.items() if it["code"] != 0]
    said = [it["said"] for it in found.values() if it["code"] == 0]
    return Check(name, FAIL if wrong else PASS, "; ".join(wrong or said))
