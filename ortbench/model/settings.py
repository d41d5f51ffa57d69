"""The settings that results record, what a difference in one is called, and lists of values, as ``--dim batch=1,8,32`` or ``--dim batch=1..32``: each is
measured on its own. The options of settings are declared in `ortbench.plan`. Which environment variables are recorded. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.core.errors import BadInput

if TYPE_CHECKING:
    from ortbench.model.schema import Environment


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


def setting_words(settings: Iterable[Setting], recorded: Mapping[str, Any]) -> list[str]:
    """The words that set on a command line what a result recorded of settings, those that are not the default."""
    words: list[str] = []
    for setting in settings:
        value = recorded.get(setting.key, setting.default)
        if isinstance(value, Mapping):
            words += [word for key, item in value.items() for word in words_of(setting.option, f"{key}={item}")]
        elif isinstance(value, list):
            words += [word for item in value for word in words_of(setting.option, item)]
        elif value != setting.default:
            words += words_of(setting.option, value)
    return words


def setting_pairs(
    settings: Iterable[Setting], one: Mapping[str, Any], other: Mapping[str, Any]
) -> list[tuple[str, Any, Any]]:
    """The title of each setting, with what two results recorded of it."""
    return [(it.title, one.get(it.key, it.default), other.get(it.key, it.default)) for it in settings]


class Several(tuple[Any, ...]):
    """What was given as a list: values of an option or of an entry, each for a measurement of its own."""


def split_lists(value: Any) -> list[Any]:
    """An option's value for each measurement: those of a list, or every combination of the lists in a table's entries."""
    if isinstance(value, Several):
        return list(value)
    if not isinstance(value, Mapping):
        return [value]
    lists = [it if isinstance(it, Several) else (it,) for it in value.values()]
    return [dict(zip(value, one, strict=True)) for one in product(*lists)]


class Listed(NamedTuple):
    """How several values of an option are written."""

    example: str  # a list, for the help; "" where the option is repeated instead
    # gives the parts, from what a command line gives or, of a table, the text of an entry; takes what messages call it and the
    # option's name too, and raises `BadInput` for what is no list
    each: Callable[[Any, str, str], Sequence[Any]]
    python: str = ""  # of a table, the type of an entry's value in Python, and how several are written there
    in_python: str = ""


def _each_word(given: Sequence[str], _: str, option: str) -> Sequence[str]:
    for number, word in enumerate(given):
        if word in given[:number]:
            raise BadInput(f"{option} {word}: was given twice; give it once", option)
    return given


def _each_whole(given: str, said: str, option: str) -> list[int]:
    found = []
    for part in _parts(given, said, option):
        try:
            found.append(int(part))
        except ValueError:
            raise BadInput(f"{option} {part!r}: is not a whole number; several are written as 1,2", option) from None
    return found


_RANGE = re.compile(r"\s*(\d{1,18})\s*\.\.\s*(\d{1,18})\s*")


def _each_size(text: str, said: str, option: str) -> list[str]:
    """The sizes of a list, also of ranges in it, such as ``4..64``, which stands for 4,8,16,32,64."""
    parts: list[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part)
        parts += [part] if found is None else _double(int(found[1]), int(found[2]), said, option)
    return _parts(",".join(parts), said, option)


def _double(low: int, high: int, said: str, option: str) -> list[str]:
    """Both ends of a range, and between them what doubling the lower one gives; `BadInput`: it is empty, or begins with 0."""
    if not 0 < low < high:
        raise BadInput(f"{option} {said}: {low}..{high} is no range: write the smaller size first, above 0", option)
    found = [low]
    while found[-1] * 2 < high:
        found.append(found[-1] * 2)
    return [*map(str, found), str(high)]


def _each_shape(text: str, said: str, option: str) -> list[str]:
    parts = text.split(",")
    # A comma may also stand for an x: 1,3,224,224 is one shape, and 1x3,8x3 cannot be.
    is_list = len(parts) > 1 and all("x" in part for part in parts)
    return _parts(text, said, option) if is_list else [text]


def _parts(text: str, said: str, option: str) -> list[str]:
    """The parts of a list, each once; `BadInput`: one is there twice, and would be measured against itself."""
    parts = [part.strip() for part in text.split(",")]
    for number, part in enumerate(parts):
        if part in parts[:number]:
            raise BadInput(f"{option} {said}: {part!r} is in the list twice", option)
    return parts


REPEATED = Listed("", _each_word)
CHOICES = Listed("basic,all", _parts)
WHOLES = Listed("1,2", _each_whole)
SIZES = Listed(
    "NAME=1,8 or 1..8", _each_size, "int | str | Sequence[int | str]", '{"name": [1, 8]} or {"name": "1..8"}'
)
SHAPES = Listed(
    "NAME:1x3,8x3",
    _each_shape,
    "str | Sequence[int] | Sequence[Sequence[int] | str]",
    '{"name": [[1, 3], [8, 3]]} or {"name": "1x3,8x3"}',
)


# Environment variables that plugins read


# Names and values that look like secrets: the short words stand by themselves, or a name ends with them (PGPASS).
_SECRET = re.compile(
    "TOKEN|PASSW|PASSPHRASE|SECRET|CREDENTIAL|KEY|AUTH|COOKIE|JWT|CONNECTION_?STRING"
    "|(?:PASS|PWD|DSN|SAS|SIG|CREDS?)(?![A-Z])|(?<![A-Z])PAT(?![A-Z])"
)
_SECRET_VALUE = re.compile(
    r"://[^/\s]*@|PRIVATE KEY-|\beyJ|\b(?:gh[a-z]|github|sk|xox[a-z])[-_]\w|\bAKIA|^(?:bearer|basic) "
    r"|(?:sig|token|pass|password|pwd|secret|key)=",
    re.IGNORECASE,
)
_NOT_SET, _NOT_RECORDED = "not set", "not recorded"


def recorded_variables(patterns: Sequence[str], environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The variables that patterns (of `fnmatch`, upper and lower case apart) match, and what to say of others.

    A pattern that looks like a secret is matched by its very name only.
    """
    found = {name: environ[name] for name in sorted(environ) if _means(patterns, name, environ[name])}
    kept_out = [name for name in sorted(environ) if _matches(patterns, name) and name not in found]
    remarks = []
    if kept_out:
        remarks.append(
            f"--record-env: not recorded, because the name or the value looks like a secret: {', '.join(kept_out)}; "
            "one that is named without a wildcard is"
        )
    missing = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in environ)]
    if missing:
        remarks.append(f"--record-env: no variable is set that is called {' or '.join(missing)}")
    return found, remarks


def needed_variables(environment: Environment) -> dict[str, str]:
    """The recorded variables that a command is to be given again: those that the user meant, without what looks like a secret."""
    patterns = [it for it in environment.get("record_env", ()) if it != "*"]
    found = environment.get("variables", {}).items()
    return {
        name: text
        for name, text in found
        if name.isidentifier() and _matches(patterns, name) and not _is_secret(name, text)
    }


def _is_secret(name: str, value: str) -> bool:
    return bool(_SECRET.search(name.upper()) or _SECRET_VALUE.search(value))


def _matches(patterns: Sequence[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _means(patterns: Sequence[str], name: str, value: str = "") -> bool:
    """Whether patterns mean a variable: by its name, or by a wildcard where name and value look like no secret."""
    return name in patterns or (not _is_secret(name, value) and _matches(patterns, name))


def differing_variables(one: Environment, other: Environment) -> list[tuple[str, str, str]]:
    """The variables in which two results differ: in words which, and its values or why there is none."""
    names = sorted({**one.get("variables", {}), **other.get("variables", {})})
    return [(f"environment variable {name}", _variable(one, name), _variable(other, name)) for name in names]


def _variable(environment: Environment, name: str) -> str:
    value = environment.get("variables", {}).get(name)
    if value is not None:
        return value or "empty"
    return _NOT_SET if _means(environment.get("record_env", ()), name) else _NOT_RECORDED


def variables_line(environment: Environment) -> str | None:
    """The variables that were recorded, in a line; None without any."""
    variables = environment.get("variables")
    return ", ".join(f"{name}={value}" for name, value in variables.items()) if variables else None
