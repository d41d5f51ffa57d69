"""What a candidate is held against: an earlier result, or what a live gate measures in turns with it."""

from __future__ import annotations

from dataclasses import replace

from ortbench.asked import library_apart
from ortbench.kinds import FLAG, PATH
from ortbench.options import BASELINE, LIMIT, Given, Option, declared, options_of, twin
from ortbench.plan import Plan, Target

_EARLIER = PATH._replace(example='"folder of an earlier suite"')
_MODEL = Option("baseline-model", "MODEL", "Live: the model it is held against.", BASELINE, PATH, commands=("gate",))
_TWINS = tuple(twin(it) for it in options_of(Target) if it.twin is not None)
LIVE_BASELINE = (_MODEL, *_TWINS)
STORED_BASELINE = (
    Option("baseline", "BASE.json", "The stored result it is held against.", BASELINE, _EARLIER, commands=("gate",)),
    Option(
        "force", "", "Compare what is not comparable, and say what differs.", LIMIT, FLAG, commands=("gate", "compare")
    ),
)


def has_live_baseline(given: Given) -> bool:
    """Whether a live gate has a baseline."""
    return any(it.flag in given for it in LIVE_BASELINE)


def baseline_of(plan: Plan, given: Given) -> Plan:
    """The baseline's plan.

    Options that are given replace the candidate's; an empty one (``--baseline-ep-option ""``) leaves none. Another EP
    starts without the candidate's EP options, device, library and engine cache.

    Args:
        plan: of the candidate.
        given: options.

    Raises:
        BadInput: options that are not K=V, or an interpreter that is not there.
    """
    given = library_apart(given, "baseline-")
    own = declared(Target)
    changes = {}
    if "baseline-ep" in given or "baseline-ep-library" in given:
        changes = {name: getattr(Target(), name) for name, it in own.items() if it.of_ep or name == "ep"}
    for name, it in own.items():
        if it.twin is not None and (other := twin(it)).flag in given:
            value = given[other.flag]
            words = [word for word in value if word] if it.kind.repeatable else value
            changes[name] = getattr(Target(), name) if words in ("", []) else it.kind.parse(words, other.name)
            if it.check is not None and changes[name] not in (None, {}):
                it.check(changes[name], other.name)
    return replace(plan, model=given.get(_MODEL.flag) or plan.model, target=replace(plan.target, **changes))
