"""``--lock-clocks``: the clocks of NVIDIA's cards are locked while something is measured, and reset whatever ends it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ortbench.core import signals
from ortbench.core.errors import BadInput, Unsupported
from ortbench.core.processes import start_process
from ortbench.measure.gpus import card_of, opened_nvml
from ortbench.model.hardware_names import is_on_nvidia
from ortbench.model.result import Result

_OPTION = "--lock-clocks"
_TDP = 0xFFFFFF01  # NVML_CLOCK_LIMIT_ID_TDP: the base clock, which the card holds within its power
_RESET_S = 30.0


@contextmanager
def locked_clocks(results: Sequence[Result], clocks: str | int) -> Iterator[None]:
    """Inside the block the cards of all configurations, whose models are open, have their clocks locked; `BadInput` where there is no
    such card, the user may not, or the card does not take the clock."""
    with ExitStack() as stack:
        for card in _cards(results, clocks):
            guard = _Guard(card, clocks)
            stack.callback(_release, guard, results)
        for result in results:
            result.environment["locked_clocks"] = clocks
        yield


def _cards(results: Sequence[Result], wish: str | int) -> list[int]:
    """The cards that configurations run on; those that run on none are left alone."""
    try:
        with opened_nvml() as nvml:
            on_cards = [result.target for result in results if is_on_nvidia(result.target)]
            return sorted({card_of(target, nvml) for target in on_cards or [results[0].target]})
    except Unsupported as error:
        raise BadInput(f"{_OPTION} {wish}: {error}", _OPTION) from None


def _release(guard: _Guard, results: Sequence[Result]) -> None:
    problem = guard.release()
    for result in results if problem is not None else ():
        cure = f"sudo nvidia-smi -i {guard.card} -rgc resets them"
        result.warn("clocks-not-reset", f"the clocks of GPU {guard.card} stay locked: {problem}; {cure}")


class _Guard:
    """The process that locks a card's clocks and resets them; `BadInput` where they cannot be locked."""

    def __init__(self, card: int, wish: str | int) -> None:
        self.card = card
        low = high = _TDP if isinstance(wish, str) else wish
        line = [sys.executable, "-P", "-m", __name__, str(card), str(low), str(high)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = start_process("the process that locks clocks", line, **pipes)
        answer = self._answer()
        if answer is None or "error" in answer:
            self.release()
            raise BadInput(
                f"{_OPTION} {wish}: {_why_not(card, wish, answer or {'error': 'its process ended'})}", _OPTION
            )

    def _answer(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def release(self) -> str | None:
        """Have the clocks reset, and wait for it; returns what went wrong."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            code = self._process.wait(_RESET_S)
        except subprocess.TimeoutExpired:
            return f"no answer for {_RESET_S:g} s"
        answer = self._answer()
        return None if code == 0 else str((answer or {}).get("error", "the process that was to reset them was killed"))


def _why_not(card: int, wish: str | int, answer: dict[str, Any]) -> str:
    if answer.get("may", True):
        return f"GPU {card} does not take it: {answer['error']}"
    clocks = "tdp,tdp" if isinstance(wish, str) else f"{wish},{wish}"
    before, after = (f"sudo nvidia-smi -i {card} {it}" for it in (f"-lgc {clocks}", "-rgc"))
    return f"you may not lock the clocks of GPU {card}: run '{before}' before and '{after}' afterwards, without this option"


def main() -> int:
    import pynvml as nvml

    for number in signals.SIGNALS:  # it ends with its input, and never before the clocks are reset
        signal.signal(number, signal.SIG_IGN)
    card, least, most = map(int, sys.argv[1:])
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(card)
        nvml.nvmlDeviceSetGpuLockedClocks(handle, least, most)
    except nvml.NVMLError as error:
        _say(error=str(error), may=error.value != nvml.NVML_ERROR_NO_PERMISSION)
        return 1
    _say()
    sys.stdin.buffer.read()
    try:
        nvml.nvmlDeviceResetGpuLockedClocks(handle)
    except nvml.NVMLError as error:
        _say(error=str(error))
        return 1
    return 0


def _say(**what: object) -> None:
    with contextlib.suppress(OSError):  # nobody is there any more
        os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
