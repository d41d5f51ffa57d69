"""ortbench: what ONNX Runtime's copies cost, mode by mode.

From a shell ``ortbench --help``, from Python the functions below: ``ortbench.run("model.onnx", ep="cuda")`` gives the same
result as ``ortbench run model.onnx --ep cuda``, and prints and writes nothing. They are documented in docs/api.md.

Nothing is loaded until it is used: this module is on the way to ``ortbench --help`` and to every worker.
"""

from ortbench.core.version import __version__

TYPE_CHECKING = False  # what type checkers take for true; typing itself would have to be loaded
if TYPE_CHECKING:
    from ortbench.api.commands import bandwidth as bandwidth
    from ortbench.api.commands import chain as chain
    from ortbench.api.commands import compare as compare
    from ortbench.api.commands import devices as devices
    from ortbench.api.commands import gate as gate
    from ortbench.api.commands import inspect as inspect
    from ortbench.api.commands import load as load
    from ortbench.api.commands import loop as loop
    from ortbench.api.commands import run as run
    from ortbench.api.commands import soak as soak
    from ortbench.api.commands import start as start
    from ortbench.api.commands import sweep as sweep
    from ortbench.api.results import Bandwidth as Bandwidth
    from ortbench.api.results import Comparison as Comparison
    from ortbench.api.results import Result as Result
    from ortbench.api.results import Verdict as Verdict
    from ortbench.api.results import read as read
    from ortbench.api.running import Interrupted as Interrupted
    from ortbench.api.running import NotSaved as NotSaved
    from ortbench.api.running import Progress as Progress
    from ortbench.core.errors import BadInput as BadInput
    from ortbench.core.errors import BenchmarkFailed as BenchmarkFailed
    from ortbench.core.errors import NotComparable as NotComparable
    from ortbench.core.errors import OrtbenchError as OrtbenchError

# Where each name lives, the same once more for Python; a test holds the two against each other.
_HOMES = {
    "api.commands": (
        "run",
        "loop",
        "chain",
        "load",
        "sweep",
        "start",
        "soak",
        "gate",
        "compare",
        "bandwidth",
        "devices",
        "inspect",
    ),
    "api.results": ("Bandwidth", "Comparison", "Result", "Verdict", "read"),
    "api.running": ("Interrupted", "NotSaved", "Progress"),
    "core.errors": ("BadInput", "BenchmarkFailed", "NotComparable", "OrtbenchError"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"ortbench.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
