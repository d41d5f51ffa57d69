"""What a shell completes the value of an option by."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ortbench.model.modes import ALL_MODES, CHAIN_MODES, LOAD_MODES, LOOP_MODES, MODES

Values = Callable[[str], list[str]]

_MODES = {
    "loop": LOOP_MODES,
    "chain": CHAIN_MODES,
    "load": LOAD_MODES,
    "code": ALL_MODES,
}  # of the commands that know others than most


def values_of(flag: str, command: str) -> Values | None:
    """The words that the value of an option can be; None where a shell is left to files, or nothing is known.

    Args:
        flag: of the option.
        command: that takes it.
    """
    plain = flag.removeprefix("baseline-")
    if plain == "mode":
        return _beginning(lambda: _MODES.get(command, MODES))
    words = {
        "ep": _eps,
        "opt-level": _opt_levels,
        "external": _libraries,
        "stream": _streams,
        "sessions": _sessions,
    }.get(plain)
    return None if words is None else _beginning(words)


def _beginning(words: Callable[[], Iterable[str]]) -> Values:
    def values(incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return values


def _eps() -> list[str]:
    """What ``--ep`` can be here: EPs whose libraries or packages are installed, and what ONNX Runtime can choose by."""
    from ortbench.core.installed_eps import installed_eps
    from ortbench.plan.target import POLICIES

    return ["auto", *installed_eps(), *POLICIES]


def _opt_levels() -> Iterable[str]:
    from ortbench.plan.target import OPT_LEVELS

    return OPT_LEVELS


def _libraries() -> Iterable[str]:
    from ortbench.plan.target import EXTERNAL_LIBRARIES

    return EXTERNAL_LIBRARIES


def _streams() -> Iterable[str]:
    from ortbench.plan.target import STREAMS

    return STREAMS


def _sessions() -> Iterable[str]:
    from ortbench.plan.load_plan import SESSIONS

    return SESSIONS
