"""The errors a user sees as one line, and the exit codes they end with."""

import os
import re
from typing import Any

DONE = 0
BENCHMARK_FAILED = 1
BAD_INPUT = 2
REGRESSION = 3
CANNOT_TELL = 4
NOT_COMPARABLE = 5
CANNOT_ANSWER = 74  # of a worker whose answer could not be written; EX_IOERR of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, what a shell reports for a program ended by Ctrl-C; others: `ortbench.core.signals`


class OrtbenchError(Exception):
    """An error with a message for the user: what is wrong and what to do, in one line."""

    exit_code = BENCHMARK_FAILED


class BadInput(OrtbenchError):
    """The command, the model or the inputs are wrong: nothing can be measured until the user changes them.

    Args:
        message: the line.
        option: what it is about, such as ``--intra-op-threads``, which the message then begins with.
    """

    exit_code = BAD_INPUT

    def __init__(self, message: str, option: str | None = None) -> None:
        super().__init__(message)
        self.option = option

    @property
    def bare(self) -> str:
        """What is wrong, without the option's name: for whoever says in another way where it stands."""
        return str(self).removeprefix(self.option or "").removeprefix(":").strip()


class BenchmarkFailed(OrtbenchError):
    """The command is right and the benchmark could not do it, for example an EP that does not load."""


class WrongOutputs(BenchmarkFailed):
    """A mode that computed something else than it should."""


class NotWritten(WrongOutputs):
    """Outputs that are as they were before the run."""


class NotComparable(OrtbenchError):
    """Two results were not measured on the same thing."""

    exit_code = NOT_COMPARABLE


class Unsupported(OrtbenchError):
    """A mode cannot do this model or EP. It ends the mode, never the program."""


_ORT_CODE = r"\[ONNXRuntimeError\] : \d+ : \w+ : "
_ORT_SOURCE = r"\S+\.(?:cc|h):\d+ .*?\)(?:::<lambda\(.*?\)>)?(?: const)? "

_ORT_NODE = r"(?:Error in execution: )?Non-zero status code returned while running (\S+) node\. Name:'([^']*)' Status Message: (.+)"


def ort_text(error: BaseException) -> str:
    """What an error of ONNX Runtime says, on one line, without its codes and the places in its source; the node comes last, as a
    fused one has a name that leaves no room for the reason."""
    if isinstance(error, OSError):
        return one_line(error)
    text = re.sub(_ORT_SOURCE, "", re.sub(_ORT_CODE, "", " ".join(str(error).split())))
    return one_line(re.sub(_ORT_NODE, r"\3 (\1 node '\2')", text) or error)


def one_line(error: BaseException | str, limit: int = 300) -> str:
    """The text of an error, folded to one line of at most `limit` characters; what the system says without its number."""
    if isinstance(error, OSError) and error.strerror:
        error = system_text(error)
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"


def system_text(error: OSError) -> str:
    """What the system says, after the path that it is about."""
    reason = one_line(error.strerror or error)
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"


_ACROSS = {kind.__name__: kind for kind in (BadInput, BenchmarkFailed, WrongOutputs, Unsupported)}


def to_data(error: Exception) -> dict[str, Any]:
    """An error as it goes from one process to another: ``error``, what it says, and ``kind``."""
    if not isinstance(error, OrtbenchError):
        return {"error": ort_text(error), "kind": BenchmarkFailed.__name__}
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _ACROSS]
    return {"error": str(error), "kind": kinds[0] if kinds else BenchmarkFailed.__name__}


def from_data(data: dict[str, Any]) -> OrtbenchError:
    """The error that `to_data` was given, or the nearest kind of which it is."""
    return _ACROSS[data["kind"]](data["error"])
