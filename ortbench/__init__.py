"""ortbench: what ONNX Runtime's copies cost, mode by mode.

From a shell ``ortbench --help``, from Python the functions below: ``ortbench.run("model.onnx", ep="cuda")`` gives the same
result as ``ortbench run model.onnx --ep cuda``, and prints and writes nothing. They are documented in docs/api.md.

Nothing is loaded until it is used: this module is on the way to ``ortbench --help`` and to every worker.
"""

from ortbench.core import __version__ as __version__

# Where each name of the core lives; types are in ``__init__.pyi``, and a test holds the two against each other.
_HOMES = {
    "api.commands": (
        "run",
        "compare",
    ),
    "api.results": ("Comparison", "Result", "read"),
    "api.calls": ("Interrupted", "NotSaved", "Progress"),
    "core.errors": ("BadInput", "BenchmarkFailed", "NotComparable", "OrtbenchError"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    from importlib import import_module

    from ortbench.core.features import api as features_api

    if name == "__all__":
        return [*_HOME, *features_api(), "__version__"]
    home = f"ortbench.{_HOME[name]}" if name in _HOME else features_api().get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
