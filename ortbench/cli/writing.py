"""What commands write besides what they print."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from ortbench.errors import BadInput


def summarise_job(markdown: str) -> None:
    """GitHub's job summary, where there is one to write to."""
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        from ortbench.exports import step_summary

        step_summary(markdown, os.environ)


def write(path: str, text: str, option: str) -> None:
    """Write a text for other programs to a file or, with ``-``, to standard output: in UTF-8 in either case."""
    from ortbench.result import write_atomically

    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        return
    try:
        write_atomically(Path(path), text)
    except OSError as error:
        raise BadInput(f"{option} {path}: {error.strerror}") from None


def write_json(data: Any, json_out: str | None) -> bool:
    """Write data as JSON where that was asked for; True if it went to standard output, where nothing else may go."""
    import json

    if json_out is None:
        return False
    write(json_out, json.dumps(data, indent=2, ensure_ascii=False) + "\n", "--json")
    return json_out == "-"
