"""The settings that results record, and what a difference in one is called. Their options are declared in `ortbench.plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Setting(NamedTuple):
    """A setting of a session or of a loop."""

    key: str  # in ``target`` or ``loop`` of the result
    title: str  # what a difference in it is called
    option: str  # the long name of the option that sets it, without dashes
    default: Any = None  # of a result that does not have it


OF_SESSION = (
    Setting("ep_options", "EP options", "ep-option", {}),
    Setting("session_config", "session config", "session-config", {}),
    Setting("threads", "threads", "threads"),
    Setting("opt_level", "optimisation", "opt-level", "all"),
    Setting("dynamic_outputs", "dynamic outputs", "dynamic-outputs", False),
    Setting("external", "memory of inputs", "external"),
    Setting("cuda_graph", "graph capture", "cuda-graph", False),
    Setting("stream", "compute stream", "stream"),
    Setting("run_config", "run config", "run-config", {}),
    Setting("free_dims", "freed dimensions", "free-dim", {}),
    Setting("python", "interpreter", "python"),
)
OF_LOOP = (
    Setting("fill", "values", "fill", {}),
    Setting("keep", "kept on the device", "keep", ()),
    Setting("resident", "copied once", "resident", ()),
)


def changed(
    settings: Iterable[Setting], one: Mapping[str, Any], other: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """The title of each setting, with what two results recorded of it."""
    return [(it.title, one.get(it.key, it.default), other.get(it.key, it.default)) for it in settings]
