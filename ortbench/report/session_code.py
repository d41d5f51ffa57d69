"""Settings of a session as lines of Python and of C++."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ortbench.model.settings import OF_SESSION
from ortbench.plan.option_types import is_library

LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
_CPP = {
    "intra_op_threads": "SetIntraOpNumThreads({})",
    "inter_op_threads": "SetInterOpNumThreads({})",
    "execution_mode": "SetExecutionMode({})",
    "cpu_mem_arena": "DisableCpuMemArena()",
    "mem_pattern": "DisableMemPattern()",
    "opt_level": "SetGraphOptimizationLevel({})",
}


def session_lines(target: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Statements of Python and of C++ that set what a result recorded of its session, where that is not the default; of session
    options that are called ``options``, EP options ``provider_options`` and run options ``run_options``."""
    python, cpp = [], []
    for it in OF_SESSION:
        value = target.get(it.key, it.default)
        if value == it.default:
            continue
        if it.key in _CPP:
            enum = {
                "execution_mode": ("ExecutionMode", "ORT_PARALLEL"),
                "opt_level": ("GraphOptimizationLevel", LEVELS.get(str(value))),
            }
            scope, member = enum.get(it.key, ("", None))
            python.append(f"options.{it.attribute} = {f'ort.{scope}.{member}' if member else value}")
            cpp.append(f"options.{_CPP[it.key].format(member or value)};")
        elif it.key in ("session_config", "run_config"):
            of = "options" if it.key == "session_config" else "run_options"
            pairs = [f"{json.dumps(key)}, {json.dumps(str(item))}" for key, item in value.items()]
            python += [f"{of}.add_{it.key}_entry({pair})" for pair in pairs]
            cpp += [f"{of}.AddConfigEntry({pair});" for pair in pairs]
        elif it.key == "custom_ops":
            for name in value:
                path = json.dumps(name) if is_library(name) else f"{name.replace('-', '_')}.get_library_path()"
                python.append(f"options.register_custom_ops_library({path})")
                cpp.append(f"options.RegisterCustomOpsLibrary({path.replace('.get_', '_').removesuffix('()')});")
        elif it.key == "ep_options":
            python.append(f"provider_options = {json.dumps(value)}")
            pairs = [f"{{{json.dumps(key)}, {json.dumps(str(item))}}}" for key, item in value.items()]
            cpp.append(f"std::unordered_map<std::string, std::string> provider_options{{{', '.join(pairs)}}};")
    return python, cpp
