"""What to do about an EP's error that does not say it itself."""

from __future__ import annotations

from pathlib import Path

# QNN computes by a library of its own, which its plugin finds by itself only for an NPU that is there.
_NO_BACKEND = "Could not determine default backend path"
_BACKENDS = ("Htp", "Gpu", "Cpu")


def way_out(text: str, library: str | None) -> str:
    """What is to be added to an error's text; "" where that is all that is known.

    Args:
        text: what ONNX Runtime says.
        library: the path of the EP's library, or None.
    """
    if _NO_BACKEND not in text:
        return ""
    names = [name for stem in _BACKENDS for name in (f"libQnn{stem}.so", f"Qnn{stem}.dll")]
    beside = [] if library is None else [Path(library).with_name(name) for name in names]
    found = [str(path) for path in beside if path.is_file()]
    if not found:
        return "; name QNN's backend library with --ep-option backend_path=PATH"
    simulates = " (without Qualcomm's NPU it simulates one, far slower)" if "QnnHtp" in found[0] else ""
    return f"; name a backend with --ep-option backend_path={found[0]}{simulates}"
