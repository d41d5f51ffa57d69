"""Files written whole or not at all, and what identifies them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from ortbench.characters import encoded


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file, text by `ortbench.characters.encoded`, by renaming a finished one into place.

    Raises:
        OSError: the folder cannot be written.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(encoded(content) if isinstance(content, str) else content)
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would hide a CI artefact from the step that uploads it
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def sha256(path: Path) -> str:
    """A file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
