"""The settings that results record, and what a difference in one is called. Their options are declared in `ortbench.plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Setting(NamedTuple):
    key: str  # in ``target`` or ``loop`` of the result
    title: str  # what a difference in it is called
    option: str  # the long name of the option that sets it, without dashes
    default: Any = None  # of a result that does not have it
    attribute: str = ""  # of ONNX Runtime's SessionOptions; "" for what is none


OF_SESSION = (
    Setting("ep_options", "EP options", "ep-option", {}),
    Setting("session_config", "session config", "session-config", {}),
    Setting("intra_op_threads", "intra-op threads", "intra-op-threads", None, "intra_op_num_threads"),
    Setting("inter_op_threads", "inter-op threads", "inter-op-threads", None, "inter_op_num_threads"),
    Setting("execution_mode", "execution mode", "execution-mode", "sequential", "execution_mode"),
    Setting("cpu_mem_arena", "CPU arena", "cpu-mem-arena", True, "enable_cpu_mem_arena"),
    Setting("mem_pattern", "memory pattern", "mem-pattern", True, "enable_mem_pattern"),
    Setting("optimized_model", "optimized model", "optimized-model", None, "optimized_model_filepath"),
    Setting("custom_ops", "custom operators", "custom-ops", []),
    Setting("opt_level", "optimisation", "opt-level", "all", "graph_optimization_level"),
    Setting("dynamic_outputs", "dynamic outputs", "dynamic-outputs", False),
    Setting("external", "memory of inputs", "input-memory"),
    Setting("cuda_graph", "graph capture", "cuda-graph", False),
    Setting("stream", "compute stream", "stream"),
    Setting("run_config", "run config", "run-config", {}),
    Setting("python", "interpreter", "python"),
)


def words_of(option: str, value: Any) -> list[str]:
    """What sets an option, by its long name, on a command line."""
    if isinstance(value, bool):
        return [f"--{'' if value else 'no-'}{option}"]
    return [f"--{option}", f"{value:g}" if isinstance(value, float) else str(value)]


def typed(settings: Iterable[Setting], recorded: Mapping[str, Any]) -> list[str]:
    """The words that set on a command line what a result recorded of settings, those that are not the default."""
    words: list[str] = []
    for it in settings:
        value = recorded.get(it.key, it.default)
        if isinstance(value, Mapping):
            words += [word for key, item in value.items() for word in words_of(it.option, f"{key}={item}")]
        elif isinstance(value, list):
            words += [word for item in value for word in words_of(it.option, item)]
        elif value != it.default:
            words += words_of(it.option, value)
    return words


def changed(
    settings: Iterable[Setting], one: Mapping[str, Any], other: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """The title of each setting, with what two results recorded of it."""
    return [(it.title, one.get(it.key, it.default), other.get(it.key, it.default)) for it in settings]
