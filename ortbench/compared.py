"""What of results is compared: the options that say so. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ortbench.errors import BadInput
from ortbench.kinds import SHARE, TEXTS
from ortbench.modes import ALL_MODES, COSTS, LOOP_PHASES, PHASE_NAMES, WHOLE_CHAIN, stage_in, stage_phase
from ortbench.options import OTHERS, Given, Option
from ortbench.plan import SAME

_PHASES = "upload, inference, download, total; of loops step, loop; of chains stage.NAME, chain; submit, cpu_time."
_SAME = Option(
    "same",
    "P",
    "Up to which difference two are called the same.",
    OTHERS,
    SHARE,
    SAME,
    commands=("compare", "history"),
    suite=False,
    per={"history": {"help": "Up to which step two levels are called the same."}},
)
COMPARED = (
    Option(
        "phase",
        "NAME",
        _PHASES,
        OTHERS,
        TEXTS,
        shown="all",
        commands=("compare", "history"),
        suite=False,
        per={"history": {"shown": "total, of loops and chains the whole"}},
    ),
    _SAME,
)


class Compared(NamedTuple):
    """Which modes and phases, empty for all, and up to which share two are called the same."""

    modes: tuple[str, ...]
    phases: tuple[str, ...]
    same: float


def compared_of(given: Given) -> Compared:
    """What options say of it.

    Raises:
        BadInput: a mode or a phase that there is not, or no share.
    """
    modes, phases, known = (
        given.get("mode", ()),
        given.get("phase", ()),
        (*PHASE_NAMES, *LOOP_PHASES, WHOLE_CHAIN, *COSTS),
    )
    for name in modes:
        if name not in ALL_MODES:
            raise BadInput(f"--mode {name!r}: there is no such mode; choose from {', '.join(ALL_MODES)}", "--mode")
    for name in phases:
        if name not in known and stage_in(name) is None:
            reason = f"there is no such phase; choose from {', '.join(known)}, {stage_phase('NAME')}"
            raise BadInput(f"--phase {name!r}: {reason}", "--phase")
    return Compared(tuple(modes), tuple(phases), SHARE.parse(given.get(_SAME.flag, SAME), _SAME.name))
