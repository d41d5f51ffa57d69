"""Whether results may be compared, and what differs between them besides their figures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.model.kinds import kind_of
from ortbench.model.result import OK, Result
from ortbench.model.schema import Environment, Provider
from ortbench.model.settings import OF_SESSION, differing_variables, setting_pairs


def mismatches(one: Result, other: Result) -> list[str]:
    """What makes two results incomparable, in words; empty when they were measured on the same thing."""
    return [apart(it) for it in unlike(one, other)]


def unlike(one: Result, other: Result) -> list[Difference]:
    """The same as data."""
    if one.setup.get("run_id") is not None and one.setup.get("run_id") == other.setup.get("run_id"):
        return []  # two configurations of one run, taken to be compared
    return differences(one, other)


Traits = dict[str, object]  # what something was measured on
Difference = tuple[str, object, object]  # what differs, and what it is in one and in the other

MODEL = "model"
OF_EP = ("EP", "device")  # those of the EP, which can be compared with another one on the same machine


def apart(difference: Difference) -> str:
    """What differs, as a sentence says why two results are not comparable."""
    name, mine, theirs = difference
    return f"{name}: {short(mine)} and {short(theirs)}"


def differences(one: Result, other: Result) -> list[Difference]:
    """In what two results were not measured on the same thing, two configurations of one run too."""
    found: list[Difference] = []
    if one.model["sha256"] != other.model["sha256"] and not _are_of_stages(one, other):
        found = [(MODEL, _model(one), _model(other))]
    if one.kind != other.kind:
        return [*found, ("kind", _kind(one), _kind(other))]  # their inputs are not the same kind of thing either
    if differing := different_stages(one, other):
        return differing
    mine, theirs = _identity(one), _identity(other)
    shared = [name for name in mine if name in theirs]  # of loads one may have no rates
    return found + [(name, mine[name], theirs[name]) for name in shared if mine[name] != theirs[name]]


def alike_but_for_ep(results: Sequence[Result]) -> list[list[int]]:
    """The numbers of results that a ratio is fair between: those of one model, work and machine, whatever EP each is on."""
    return group_alike(results, lambda one, other: all(name in OF_EP for name, *_ in unlike(one, other)))


def group_alike(results: Sequence[Result], are_alike: Callable[[Result, Result], bool]) -> list[list[int]]:
    """The numbers of results in groups of those that are like the first one."""
    groups: list[list[int]] = []
    for number, result in enumerate(results):
        fitting = (it for it in groups if are_alike(results[it[0]], result))
        if (group := next(fitting, None)) is None:
            groups.append([number])
        else:
            group.append(number)
    return groups


def _are_of_stages(*results: Result) -> bool:
    return all(kind_of(it.kind).of_stages for it in results)


def different_stages(one: Result, other: Result) -> list[Difference]:
    """What makes the stages of two results of a kind that has some different ones: what it is, and that of each."""
    if not _are_of_stages(one, other):
        return []
    found: list[Difference] = part_of(one.kind, "analysis", "different_stages")(one.part, other.part)
    return found


def _kind(result: Result) -> str:
    counted: str = part_of(result.kind, "analysis", "count_text", lambda _: "")(result)
    return kind_of(result.kind).noun + counted


def _model(result: Result) -> str:
    return f"{result.model['path']} ({result.model['sha256'][:12]})"


def _identity(result: Result) -> dict[str, object]:
    """What a result was measured on, besides the model."""
    own = {
        "shapes": {it["name"]: it.get("tensors", it["shape"]) for it in result.model["inputs"]},
        **machine(result.target, result.environment),
    }
    traits: Traits = part_of(result.kind, "analysis", "identity", lambda _, own: own)(result, own)
    return traits


def machine(target: Provider, environment: Environment) -> dict[str, object]:
    """Which EP, device and machine something was measured on, as results and bandwidth sweeps describe them."""
    cpu = environment["cpu"]
    return {
        "EP": target["ep"],
        "device": device_identity(target["device"]),
        "CPU": cpu["model"],
        "cores": cpu.get("usable_cores"),
        "GPUs": [gpu.get("name") for gpu in environment["gpus"]],
    }


def device_identity(device: Mapping[str, object]) -> dict[str, object]:
    return {key: device.get(key) for key in ("type", "vendor_id", "device_id")}


_IDS = ("vendor_id", "device_id")


def short(value: Any) -> str:
    """A value that identifies something, for a message."""
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        told = ((key, f"0x{it:04x}" if key in _IDS and isinstance(it, int) else short(it)) for key, it in value.items())
        return ", ".join(f"{key} {it}" for key, it in told if value[key] is not None) or "none"
    if isinstance(value, (list, tuple)):
        separator = "x" if value and isinstance(value[0], int) else ", "
        return separator.join(map(str, value)) or "none"
    return str(value)


def changes(one: Result, other: Result) -> list[str]:
    """What differs between two results that may be compared all the same: versions and settings, in words."""
    mine, theirs = (_recorded_versions(it, _are_of_stages(one, other)) for it in (one, other))
    ours, other_one = one.environment, other.environment
    every = [
        *((name, mine[name], theirs[name]) for name in mine if name in theirs),
        *settings_of(one, other),
        ("Python", ours.get("python"), other_one.get("python")),
        (
            "time between starts",
            *(pace and units.duration(pace) for pace in (one.setup.get("every_ns"), other.setup.get("every_ns"))),
        ),
        ("locked clocks", ours.get("locked_clocks"), other_one.get("locked_clocks")),
        ("OS", ours.get("os"), other_one.get("os")),
        *_kind_changes(one, other),
        *differing_variables(ours, other_one),
    ]
    found = [f"{name}: {short(a)} → {short(b)}" for name, a, b in every if a != b]
    depths, others = depths_of(one), depths_of(other)
    return found + [
        f"depth of {mode}: {depth} → {others[mode]}"
        for mode, depth in depths.items()
        if others.get(mode, depth) != depth
    ]


def _recorded_versions(result: Result, of_stages: bool) -> dict[str, Any]:
    """Versions and the machine's state, those that it says; chains have the EP's version by stage."""
    target, environment = result.target, result.environment
    found: dict[str, Any] = {"ONNX Runtime": environment["onnxruntime"]}
    if "ep_library" in target:
        found["EP library"] = target["ep_library"] or "ONNX Runtime's own"
    if not of_stages:
        found["EP version"] = target.get("ep_version")
    if (packages := environment.get("packages")) is not None:
        found["packages"] = packages
    found["GPU driver"] = sorted({gpu["driver"] for gpu in environment["gpus"] if "driver" in gpu})
    if (governors := environment.get("governors")) is not None:
        found["frequency governor"] = ", ".join(governors) or "none"
    return found


def _kind_changes(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """What only results of their kind can differ in."""
    changes = part_of(one.kind, "analysis", "changes")
    return changes(one, other) if changes and one.kind == other.kind else []


def settings_of(one: Result, other: Result, versions: bool = True) -> list[tuple[str, Any, Any]]:
    """The session's settings; of chains what each stage has, with or without the versions of the EPs."""
    if _are_of_stages(one, other):
        found: list[tuple[str, Any, Any]] = part_of(one.kind, "analysis", "settings_of")(one.part, other.part, versions)
        return found
    return setting_pairs(OF_SESSION, one.target, other.target)


_OF_THE_RUN = ("ep_requested", "policy", "sync")  # of a target: how it was asked for, and what was measured of it
_OF_THE_MOMENT = ("load_average", "gpus", "gpu_readings")  # of an environment: what it was like when it was measured


def are_alike(one: Result, other: Result) -> bool:
    """Whether two results, or two configurations of a run, differ in nothing that was recorded.

    What differs then is chance, which is what one may want to see; or one of them is not what it was meant to be.
    """
    recorded = [
        (
            result.model["sha256"],
            result.model["inputs"],
            part_of(result.kind, "analysis", "essence", lambda _: None)(result.part),
            result.setup.get("seed"),
            {key: value for key, value in result.target.items() if key not in _OF_THE_RUN},
            {key: value for key, value in result.environment.items() if key not in _OF_THE_MOMENT},
            [{key: gpu.get(key) for key in ("name", "driver", "memory_bytes")} for gpu in result.environment["gpus"]],
            result.tool,
        )
        for result in (one, other)
    ]
    return recorded[0] == recorded[1] and not changes(one, other)


def depths_of(result: Result) -> dict[str, int]:
    """How deep the pipelines were, by mode."""
    return {
        case.mode: case.pipeline["depth"] for case in result.cases if case.status == OK and case.pipeline is not None
    }
