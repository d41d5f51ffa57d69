"""Whether results may be compared, and what differs between them besides their figures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ortbench.analysis.comparing import same_chain, variables
from ortbench.analysis.findings.load_advice import slo_text
from ortbench.analysis.loads.load import asked_of, has_rates
from ortbench.core.errors import NotComparable
from ortbench.model.kinds import KINDS
from ortbench.model.result import CHAIN, LOAD, LOOP, OK, SWEEP, Result
from ortbench.model.schema import Environment, Loop, Provider
from ortbench.model.settings import OF_LOOP, OF_SESSION, changed


def mismatches(one: Result, other: Result) -> list[str]:
    """What makes two results incomparable, in words; empty when they were measured on the same thing."""
    return [apart(it) for it in unlike(one, other)]


def unlike(one: Result, other: Result) -> list[Difference]:
    """The same as data."""
    if one.setup.get("run_id") is not None and one.setup.get("run_id") == other.setup.get("run_id"):
        return []  # two sides of one run, taken to be compared
    return differences(one, other)


Traits = dict[str, object]  # what something was measured on
Difference = tuple[str, object, object]  # what differs, and what it is in one and in the other

MODEL = "model"
MACHINE = ("device", "CPU", "cores", "GPUs")  # the differences that are of the machine


def apart(difference: Difference) -> str:
    """What differs, as a sentence says why two results are not comparable."""
    name, mine, theirs = difference
    return f"{name}: {short(mine)} and {short(theirs)}"


def differences(one: Result, other: Result) -> list[Difference]:
    """In what two results were not measured on the same thing, two sides of one run too."""
    found: list[Difference] = []
    if one.model["sha256"] != other.model["sha256"] and not _are_of_stages(one, other):
        found = [(MODEL, _model(one), _model(other))]
    if one.kind != other.kind:
        return [*found, ("kind", _kind(one), _kind(other))]  # their inputs are not the same kind of thing either
    if _are_of_stages(one, other) and (chains := same_chain.different(one.part, other.part)):
        return list(chains)
    mine, theirs = _identity(one), _identity(other)
    shared = [name for name in mine if name in theirs]  # of loads one may have no rates
    return found + [(name, mine[name], theirs[name]) for name in shared if mine[name] != theirs[name]]


def _are_of_stages(*results: Result) -> bool:
    return all(KINDS[it.kind].of_stages for it in results)


def _kind(result: Result) -> str:
    counted = _COUNTED.get(result.kind)
    return KINDS[result.kind].noun + (counted(result) if counted else "")


_COUNTED: dict[str, Callable[[Result], str]] = {
    LOOP: lambda result: f" of {result.part['steps']} steps",
    CHAIN: lambda result: f" of {len(result.part['stages'])} stages",
    SWEEP: lambda result: f" of {len(result.shapes)} shapes",
}


def _model(result: Result) -> str:
    return f"{result.model['path']} ({result.model['sha256'][:12]})"


def _identity(result: Result) -> dict[str, object]:
    """What a result was measured on, besides the model."""
    own = {
        "shapes": {it["name"]: it.get("tensors", it["shape"]) for it in result.model["inputs"]},
        **machine(result.target, result.environment),
    }
    of_kind = _IDENTITY.get(result.kind)
    return of_kind(result, own) if of_kind else own


def _loop(result: Result, own: Traits) -> Traits:
    loop: Loop = result.part
    fed = [f"{out}={into}" for out, into in loop["feedback"]]
    return {"steps": loop["steps"], "feedback": fed, "first step": loop["first"], **own}


def _chain(result: Result, own: Traits) -> Traits:
    """Stages may each be on another EP."""
    rest = {key: value for key, value in own.items() if key not in ("shapes", "EP", "device")}
    return {"shapes": own["shapes"], **same_chain.places(result.part), **rest}


def _load(result: Result, own: Traits) -> Traits:
    """How callers share sessions and, where there are rates, how requests come and who serves them."""
    keys = ("sessions", *(("arrivals", "file", "workers") if has_rates(result) else ()))
    return {**own, **{key: result.part[key] for key in keys}}


def _sweep(result: Result, own: Traits) -> Traits:
    """Of two sweeps the shapes are compared that both have."""
    return {**own, "shapes": {tensor["name"]: tensor["model_shape"] for tensor in result.model["inputs"]}}


_IDENTITY: dict[str, Callable[[Result, Traits], Traits]] = {LOOP: _loop, CHAIN: _chain, LOAD: _load, SWEEP: _sweep}


def machine(target: Provider, environment: Environment) -> dict[str, object]:
    """Which EP, device and machine something was measured on, as results and bandwidth sweeps describe them."""
    device, cpu = target["device"], environment["cpu"]
    return {
        "EP": target["ep"],
        "device": {key: device.get(key) for key in ("type", "vendor_id", "device_id")},
        "CPU": cpu["model"],
        "cores": cpu.get("usable_cores"),
        "GPUs": [gpu.get("name") for gpu in environment["gpus"]],
    }


def short(value: Any) -> str:
    """A value that identifies something, for a message."""
    if value is None:
        return "default"
    if isinstance(value, dict):
        return ", ".join(f"{key} {short(item)}" for key, item in value.items() if item is not None) or "none"
    if isinstance(value, (list, tuple)):
        separator = "x" if value and isinstance(value[0], int) else ", "
        return separator.join(map(str, value)) or "none"
    return str(value)


def comparability(results: Sequence[Result], names: Sequence[str], force: bool) -> list[str]:
    """What differs between the first result and each other one, in sentences.

    Raises `NotComparable` where they were not measured on the same thing, and it was not forced.
    """
    remarks = []
    for name, result in zip(names[1:], results[1:], strict=True):
        differences = mismatches(results[0], result)
        if differences and not force:
            found = "; ".join(differences)
            raise NotComparable(
                f"{names[0]} and {name} are not comparable: {found} (--force compares them all the same)"
            )
        remarks += [f"not comparable, forced: {names[0]} and {name}: {difference}" for difference in differences]
        remarks += [f"{names[0]} → {name}: {change}" for change in changes(results[0], result)]
        if not differences and (same := sameness(results[0], result)) is not None:
            remarks.append(f"{names[0]} and {name}: {same}")
    return remarks


def changes(one: Result, other: Result) -> list[str]:
    """What differs between two results that may be compared all the same: versions and settings, in words."""
    found = []
    for name, a, b in (
        ("ONNX Runtime", one.environment["onnxruntime"], other.environment["onnxruntime"]),
        *_libraries(one, other),
        *_versions(one, other),
        *_packages(one, other),
        ("GPU driver", _drivers(one), _drivers(other)),
        *_governors(one, other),
        *settings_of(one, other),
        ("Python", one.environment.get("python"), other.environment.get("python")),
        ("locked clocks", one.environment.get("locked_clocks"), other.environment.get("locked_clocks")),
        ("OS", one.environment.get("os"), other.environment.get("os")),
        *_CHANGES.get((one.kind, other.kind), _none)(one, other),
        *variables.differences(one.environment, other.environment),
    ):
        if a != b:
            found.append(f"{name}: {short(a)} → {short(b)}")
    depths, others = depths_of(one), depths_of(other)
    for mode, depth in depths.items():
        if others.get(mode, depth) != depth:
            found.append(f"depth of {mode}: {depth} → {others[mode]}")
    return found


def _load_changes(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """How loads were put on that may be compared all the same."""
    return [
        ("SLO", slo_text(asked_of(one) or {}) or None, slo_text(asked_of(other) or {}) or None),
        ("time of a level", f"{one.part['duration_s']:g} s", f"{other.part['duration_s']:g} s"),
    ]


def _none(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    return []


_CHANGES: dict[tuple[str, str], Callable[[Result, Result], list[tuple[str, Any, Any]]]] = {
    (LOOP, LOOP): lambda one, other: changed(OF_LOOP, one.part, other.part),
    (LOAD, LOAD): _load_changes,
}


def settings_of(one: Result, other: Result, versions: bool = True) -> list[tuple[str, Any, Any]]:
    """The session's settings; of chains what each stage has, with or without the versions of the EPs."""
    if _are_of_stages(one, other):
        return same_chain.changes(one.part, other.part, versions)
    return changed(OF_SESSION, one.target, other.target)


def _versions(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """The EP's version, which chains have by stage."""
    if _are_of_stages(one, other):
        return []
    return [("EP version", one.target.get("ep_version"), other.target.get("ep_version"))]


def _libraries(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """The libraries of the EPs, where both results say which that is."""
    if not ("ep_library" in one.target and "ep_library" in other.target):
        return []
    mine, theirs = (result.target["ep_library"] or "ONNX Runtime's own" for result in (one, other))
    return [("EP library", mine, theirs)]


def _packages(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """The packages of ONNX Runtime and of EPs, where both results have them."""
    found = [result.environment.get("packages") for result in (one, other)]
    return [] if None in found else [("packages", found[0], found[1])]


def _governors(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """Which frequency governors the cores have, where both results have them."""
    found = [result.environment.get("governors") for result in (one, other)]
    mine, theirs = (", ".join(it or ()) or "none" for it in found)
    return [] if None in found else [("frequency governor", mine, theirs)]


def _drivers(result: Result) -> list[str]:
    """The drivers of the GPUs, each once."""
    return sorted({gpu["driver"] for gpu in result.environment["gpus"] if "driver" in gpu})


_OF_THE_RUN = ("ep_requested", "policy", "sync")  # of a target: how it was asked for, and what was measured of it
_OF_THE_MOMENT = ("load_average", "gpus", "gpu_readings")  # of an environment: what it was like when it was measured


_SAME = "nothing that was recorded differs between the two: same model, EP, options, versions, machine"


def sameness(one: Result, other: Result) -> str | None:
    """That two results, or two sides of a run, differ in nothing that was recorded, as a sentence; None where something does.

    What differs then is chance, which is what one may want to see; or one side is not what it was meant to be.
    """
    sides = [
        (
            result.model["sha256"],
            result.model["inputs"],
            result.loop,
            result.load,
            same_chain.essence(result.part) if _are_of_stages(result) else None,
            result.setup.get("seed"),
            {key: value for key, value in result.target.items() if key not in _OF_THE_RUN},
            {key: value for key, value in result.environment.items() if key not in _OF_THE_MOMENT},
            [{key: gpu.get(key) for key in ("name", "driver", "memory_bytes")} for gpu in result.environment["gpus"]],
            result.tool,
        )
        for result in (one, other)
    ]
    if sides[0] != sides[1] or changes(one, other):
        return None
    return _SAME


def depths_of(result: Result) -> dict[str, int]:
    """How deep the pipelines were, by mode."""
    return {
        case.mode: case.pipeline["depth"] for case in result.cases if case.status == OK and case.pipeline is not None
    }
