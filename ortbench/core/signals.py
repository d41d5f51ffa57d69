"""What ends a command from outside: Ctrl-C, SIGTERM (how CI systems cancel) and SIGHUP (the terminal closes).

One handler for all of them. What it does depends on what is at stake:

- Before anything is measured the process ends there and then, and its workers with it: no exception, which an import
  or a library could swallow or turn into something else.
- In `hold_signals` and after `defer_signals` (something is measured, or a file is half written) the signal is noted. `Stopped` is raised
  once, and only where the program waits for a worker (`stoppable_wait`) or says that it can be stopped (`stop_if_asked`); so nothing but
  a wait is ever cut short. What comes later is noted only: the program is ending, and saves what there is.

Whatever was noted decides the exit code: 128 + the signal's number, as a shell reports it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Windows has no SIGHUP, and there SIGTERM comes from the process itself alone.
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
NOTHING_MEASURED = "ortbench: interrupted before anything was measured"


class Stopped(KeyboardInterrupt):
    """A signal that asks for the end was heeded."""


class _State:
    """Of this process: there is one handler of a signal, whatever wants to know of it."""

    signal: int | None = None  # the first that came
    raised = False  # `Stopped` was raised for it
    holding = 0  # how many reasons there are not to end at once
    awaiting = False  # the program waits for a worker
    to_end: set[Callable[[], None]] = set()  # noqa: RUF012 - what ends with the process, of which there is one state


_state = _State()


def install() -> None:
    """Take the signals over, but for those that whoever started the program has it ignore (nohup, a shell's ``&``)."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)


def _handle(number: int, _: FrameType | None) -> None:
    if _state.signal is None:
        _state.signal = number
    if not _state.holding:
        _leave()
    if _state.awaiting:
        stop_if_asked()


def _leave() -> None:
    """End the process at once: nothing is lost by it."""
    for end in list(_state.to_end):
        end()
    try:
        os.write(2, f"{NOTHING_MEASURED}\n".encode())
    finally:
        os._exit(exit_code() or 0)


def defer_signals() -> None:
    """From now on something would be lost: signals are noted, and heeded where that loses nothing."""
    _state.holding += 1


@contextmanager
def hold_signals() -> Iterator[None]:
    """Inside the block a signal is noted only; at its end it has the effect that it would have had."""
    defer_signals()
    try:
        yield
    finally:
        _state.holding -= 1
        if _state.signal is not None and not _state.holding:
            _leave()


@contextmanager
def stoppable_wait() -> Iterator[None]:
    """A wait, which a signal ends: raises `Stopped` if one came, now or before."""
    _state.awaiting = True
    try:
        stop_if_asked()
        yield
    finally:
        _state.awaiting = False


def stop_if_asked() -> None:
    """Stop here (raises `Stopped`, once) if a signal came that was noted only."""
    if _state.signal is not None and not _state.raised:
        _state.raised = True
        raise Stopped


def exit_code() -> int | None:
    """What the program is to end with because of a signal; None if none came."""
    return None if _state.signal is None else 128 + _state.signal


def end_with_process(end: Callable[[], None]) -> None:
    """Have something called when the process ends at once. `unregister_end` takes it back."""
    _state.to_end.add(end)


def unregister_end(end: Callable[[], None]) -> None:
    _state.to_end.discard(end)


def finish(code: int) -> int:
    """The exit code of a program that is done: `code`, or that of a signal. What comes now changes nothing any more."""
    for number in SIGNALS:
        if signal.getsignal(number) is _handle:
            signal.signal(number, signal.SIG_IGN)
    return exit_code() or code
