"""Installed packages as a test makes them: their files, and what pip writes down of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.forks import MAIN
from tests.importing import FOLDERS


def install(site: Path, name: str, files: Mapping[str, str | Path], pips: Mapping[str, str] | None = None) -> None:
    """Install version 1.5 of a package into a folder of packages: files, each its text or a file that is copied, and what pip wrote
    down, by the names of files; by default the list of files."""
    put(site, files)
    info = f"{name.replace('-', '_')}-1.5.dist-info"
    pips = {"RECORD": "".join(f"{it},sha256=x,1\n" for it in files)} if pips is None else pips
    put(site / info, {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n", **pips})


def put(folder: Path, files: Mapping[str, str | Path]) -> None:
    """Write files into a folder, each its text or a copy of another file."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content.encode() if isinstance(content, str) else content.read_bytes())


def having(*sites: Path) -> dict[str, Any]:
    """The environment of a command that finds the packages of some folders before those of its own."""
    return {MAIN: "tests.importing:main", FOLDERS: os.pathsep.join(map(str, sites))}
