"""Whether results may be compared, and what differs between them besides their figures. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortbench.analysis import same_chain, variables
from ortbench.analysis.load import asked_of, has_rates
from ortbench.analysis.load_advice import slo_text
from ortbench.errors import NotComparable
from ortbench.modes import WHOLE_CHAIN
from ortbench.options import changed
from ortbench.plan import Target
from ortbench.result import OK, Result, work_of
from ortbench.schema import Environment, Provider
from ortbench.steps import Steps


def mismatches(one: Result, other: Result) -> list[str]:
    """What makes two results incomparable, in words; empty when they were measured on the same thing."""
    if one.setup.get("run_id") is not None and one.setup.get("run_id") == other.setup.get("run_id"):
        return []  # two sides of one run, taken to be compared
    return [apart(it) for it in differences(one, other)]


Difference = tuple[str, object, object]  # what differs, and what it is in one and in the other

MODEL = "model"
MACHINE = ("device", "CPU", "cores", "GPUs")  # the differences that are of the machine


def apart(difference: Difference) -> str:
    """What differs, as a sentence says why two results are not comparable."""
    name, mine, theirs = difference
    return f"{name}: {short(mine)} and {short(theirs)}"


def differences(one: Result, other: Result) -> list[Difference]:
    """In what two results were not measured on the same thing, two sides of one run too."""
    kinds = work_of(one).whole, work_of(other).whole
    found: list[Difference] = []
    if one.model["sha256"] != other.model["sha256"] and kinds != (WHOLE_CHAIN, WHOLE_CHAIN):
        found = [(MODEL, _model(one), _model(other))]
    if kinds[0] != kinds[1] or (one.load is None, one.points is None) != (other.load is None, other.points is None):
        return [*found, ("kind", _kind(one), _kind(other))]  # their inputs are not the same kind of thing either
    if one.chain is not None and other.chain is not None and (chains := same_chain.different(one.chain, other.chain)):
        return list(chains)
    mine, theirs = ({**_identity(it), **of_load} for it, of_load in zip((one, other), _loads(one, other), strict=True))
    return found + [(name, mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]]


def _kind(result: Result) -> str:
    if result.chain is not None:
        return f"a chain of {len(result.chain['stages'])} stages"
    if result.load is not None:
        return "a load"
    if result.points is not None:
        return f"a sweep of {len(result.points)} shapes"
    return "single inferences" if result.loop is None else f"a loop of {result.loop['steps']} steps"


def _model(result: Result) -> str:
    return f"{result.model['path']} ({result.model['sha256'][:12]})"


def _identity(result: Result) -> dict[str, object]:
    """What a result was measured on, besides the model."""
    shapes: dict[str, object] = {it["name"]: it.get("tensors", it["shape"]) for it in result.model["inputs"]}
    if result.points is not None:  # of two sweeps the shapes are compared that both have
        shapes = {tensor["name"]: tensor["model_shape"] for tensor in result.model["inputs"]}
    where = machine(result.target, result.environment)
    if result.chain is not None:  # whose stages may each be on another EP
        of_stages = same_chain.places(result.chain)
        where = {**of_stages, **{key: value for key, value in where.items() if key not in ("EP", "device")}}
    return {**_loop(result), "shapes": shapes, **where}


def _loads(one: Result, other: Result) -> tuple[dict[str, object], dict[str, object]]:
    """What makes two loads the same one: how callers share sessions and, where both have rates, how requests come and who
    serves them."""
    if one.load is None or other.load is None:
        return {}, {}
    keys = ["sessions", *(("arrivals", "file", "callers") if has_rates(one) and has_rates(other) else ())]
    mine, theirs = ({key: dict(load.items())[key] for key in keys} for load in (one.load, other.load))
    return mine, theirs


def _loop(result: Result) -> dict[str, object]:
    """What makes two loops the same one."""
    if result.loop is None:
        return {}
    fed = [f"{out}={into}" for out, into in result.loop["feedback"]]
    return {"steps": result.loop["steps"], "feedback": fed, "first step": result.loop["first"]}


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

    Raises:
        NotComparable: they were not measured on the same thing, and it was not forced.
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
        *([] if one.loop is None or other.loop is None else changed(Steps, one.loop, other.loop)),
        *([] if one.load is None or other.load is None else _load_changes(one, other)),
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
    assert one.load is not None
    assert other.load is not None
    return [
        ("SLO", slo_text(asked_of(one) or {}) or None, slo_text(asked_of(other) or {}) or None),
        ("time of a level", f"{one.load['duration_s']:g} s", f"{other.load['duration_s']:g} s"),
    ]


def settings_of(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """The session's settings; of chains what each stage has."""
    if one.chain is not None and other.chain is not None:
        return same_chain.changes(one.chain, other.chain)
    return changed(Target, one.target, other.target)


def _versions(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """The EP's version, which chains have by stage."""
    if one.chain is not None and other.chain is not None:
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


_OF_THE_RUN = ("ep_requested", "policy", "fence")  # of a target: how it was asked for, and what was measured of it
_OF_THE_MOMENT = ("load_average", "gpus", "gpu_readings")  # of an environment: what it was like when it was measured


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
            None if result.chain is None else same_chain.essence(result.chain),
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
    return "nothing that was recorded differs between the two: same model, EP, options, versions, machine"


def depths_of(result: Result) -> dict[str, int]:
    """How deep the pipelines were, by mode."""
    return {
        case.mode: case.pipeline["depth"] for case in result.cases if case.status == OK and case.pipeline is not None
    }
