"""What the worker answers: which of the newer entries that say how threads spin this ONNX Runtime knows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress

import onnxruntime as ort


def known_entries(_: object, entries: Sequence[str]) -> list[str]:
    """Those entries of a session's configuration, each of which takes numbers, that ONNX Runtime knows.

    It takes any entry in silence, but of one that it knows it warns where the value is no number, before it looks at the model.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 2
    options.intra_op_num_threads = 2
    for entry in entries:
        options.add_session_config_entry(entry, "none")
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            with suppress(Exception):  # that there is no model
                ort.InferenceSession(b"", options, providers=["CPUExecutionProvider"])
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        said = file.read().decode(errors="replace")
    return [entry for entry in entries if entry in said]
