"""What options and commands were called, and what to type now: a line for whoever types an old name. Data, and pure.

What modes were called, and which options added some, is in `ortbench.model.modes`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ortbench.model.modes import USUAL, WERE_ADDED_BY
from ortbench.plan.options import BASELINE_SET, Option

OPTIONS = {
    "length": "sequence-tensors",
    "spin": "measure-spin",
    "memory": "measure-memory",
    "energy": "measure-energy",
    "nodes": "measure-nodes",
    "require-placement": "no-cpu-fallback",
    "callers": "workers",
    "external": "input-memory",
    "same": "equivalence-margin",
    "threads": "intra-op-threads",
}
COMMANDS = {"merge": "suite merge"}

_BASELINE = "baseline-"


def option_now(flag: str, known: Mapping[str, Option]) -> str | None:
    """What to type in place of an option, of those that a command has; None where it has no other name."""
    if flag in WERE_ADDED_BY and "mode" in known:
        return " ".join(f"--mode {name}" for name in _modes(flag, known))
    if (key := _of_baseline(flag, known)) is not None:
        return f"--{BASELINE_SET} {key}=VALUE"
    new = OPTIONS.get(flag)
    return f"--{new}" if new in known else None


def key_now(key: str, known: Mapping[str, Option]) -> str | None:
    """What to write in place of a key, of those that a table of a suite has; None where it has no other name."""
    if key in WERE_ADDED_BY and "mode" in known:
        return f"mode = {json.dumps(_modes(key, known))}"
    if (own := _of_baseline(key, known)) is not None:
        return f"{BASELINE_SET}.{own}"
    new = OPTIONS.get(key)
    return new if new in known else None


def parameter_now(name: str, known: Mapping[str, Option]) -> str | None:
    """What to write in Python in place of a parameter, of those that a function has; None where it has no other name."""
    flag, flags = name.replace("_", "-"), {it.flag: it for it in known.values()}
    if flag in WERE_ADDED_BY and "mode" in flags:
        return f"modes={_modes(flag, flags)}"
    if (own := _of_baseline(flag, flags)) is not None:
        return f'baseline_set={{"{own.replace("-", "_")}": …}}'
    new = OPTIONS.get(flag)
    return new.replace("-", "_") if new in flags else None


def _modes(flag: str, known: Mapping[str, Option]) -> list[str]:
    """The modes that an option added: the usual ones are named too where several can be."""
    return [*([USUAL] if known["mode"].kind.repeatable else []), *WERE_ADDED_BY[flag]]


def _of_baseline(flag: str, known: Mapping[str, Option]) -> str | None:
    if BASELINE_SET not in known or not flag.startswith(_BASELINE):
        return None
    own = flag.removeprefix(_BASELINE)
    return OPTIONS.get(own, own)
