"""Compiling the C libraries that tests bring along, and telling them what to do."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

_FLAGS = ("-std=c11", "-O3", "-Wall", "-Wextra", "-shared", "-fPIC")


class BuildError(RuntimeError):
    """A library could not be compiled."""


def compile_library(
    what: str, sources: Sequence[Path], directory: Path, flags: Sequence[str] = (), libraries: Sequence[str] = ()
) -> Path:
    """Compile the first of the sources, which includes the others, into a shared library, unless it is there already; `what` it is, for
    messages. Raises `BuildError` where there is no compiler, or it fails."""
    command = [*_compiler(what), *_FLAGS, *flags]
    digest = hashlib.sha256(" ".join([*command, *libraries]).encode())
    for source in sources:
        digest.update(source.read_bytes())
    library = directory / f"lib{sources[0].stem}-{digest.hexdigest()[:12]}.so"
    if library.exists():
        return library
    directory.mkdir(parents=True, exist_ok=True)
    unfinished = library.with_suffix(f".{os.getpid()}.tmp")
    command += ["-o", str(unfinished), str(sources[0]), *libraries]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"the C compiler could not be started: {error}") from error
    if done.returncode != 0:
        raise BuildError(f"{what} could not be compiled: {shlex.join(command)}\n{done.stderr}")
    unfinished.replace(library)  # at once, so that a second process never loads half a library
    return library


def variables(prefix: str, knobs: Any) -> dict[str, str]:
    """The knobs of a library, a dataclass, as environment variables; one that is None has none."""
    values = {field.name: getattr(knobs, field.name) for field in fields(knobs)}
    return {
        f"{prefix}_{name.upper()}": str(int(value) if isinstance(value, bool) else value)
        for name, value in values.items()
        if value is not None
    }


def command(module: str, build: Callable[[Path], Path]) -> int:
    """``python -m MODULE OUT_DIR`` compiles what the module brings into a folder and prints where; gives the exit code."""
    arguments = sys.argv[1:]
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(f"usage: python -m {module} OUT_DIR", file=sys.stderr)
        return 2
    try:
        print(build(Path(arguments[0])))
    except (BuildError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _compiler(what: str) -> list[str]:
    named = os.environ.get("CC")
    if named:
        return shlex.split(named)
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise BuildError(f"{what} needs a C compiler: install gcc or clang, or name one in the variable CC")
