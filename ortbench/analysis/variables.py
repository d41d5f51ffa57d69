"""Environment variables that plugins read: which are recorded where they are named. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from ortbench.model.schema import Environment

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
