"""What options and commands were called, and what to type now: a line for whoever types an old name. Data, and pure.

What modes were called, and which options added some, is in `ortbench.model.modes`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

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
    return _now(
        flag, known, lambda modes: " ".join(f"--mode {it}" for it in modes), f"--{BASELINE_SET} {{}}=VALUE", "--{}"
    )


def key_now(key: str, known: Mapping[str, Option]) -> str | None:
    """What to write in place of a key, of those that a table of a suite has; None where it has no other name."""
    return _now(key, known, lambda modes: f"mode = {json.dumps(modes)}", f"{BASELINE_SET}.{{}}", "{}")


def parameter_now(name: str, known: Mapping[str, Option]) -> str | None:
    """What to write in Python in place of a parameter, of those that a function has; None where it has no other name."""
    flag, flags = name.replace("_", "-"), {it.flag: it for it in known.values()}
    return _now(flag, flags, "modes={}".format, 'baseline_set={{"{}": …}}', "{}", lambda it: it.replace("-", "_"))


def _now(
    flag: str,
    known: Mapping[str, Option],
    modes: Callable[[list[str]], str],
    baseline: str,
    option: str,
    spelt: Callable[[str], str] = str,
) -> str | None:
    """What stands for modes that an option added, the usual ones too where several can be, an option of a baseline, or any other."""
    if flag in WERE_ADDED_BY and "mode" in known:
        return modes([*([USUAL] if known["mode"].kind.repeatable else []), *WERE_ADDED_BY[flag]])
    if BASELINE_SET in known and flag.startswith(_BASELINE):
        own = flag.removeprefix(_BASELINE)
        return baseline.format(spelt(OPTIONS.get(own, own)))
    new = OPTIONS.get(flag, "")
    return option.format(spelt(new)) if new in known else None
