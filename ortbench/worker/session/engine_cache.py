"""The folder in which an EP keeps the engines of one model with one set of options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import onnxruntime as ort

from ortbench.analysis.engines import File, cache_options, is_warm
from ortbench.core.errors import BadInput
from ortbench.core.files import digest
from ortbench.plan.target import Target

if TYPE_CHECKING:
    from ortbench.model.schema import EngineCache


def options(model: str, target: Target, ep_name: str) -> dict[str, str]:
    """The EP options of a session: the user's, and those of the engine cache if there is to be one; makes its folder.
    Raises `BadInput`: the EP builds no engine, or the folder cannot be made."""
    if target.engine_cache is None:
        return dict(target.options)
    folder = _folder(model, target)
    found = cache_options(ep_name, str(folder.absolute()), target.options)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--engine-cache {target.engine_cache}: cannot be used: {error.strerror}") from None
    return {**found, **target.options}


def folder(model: str, target: Target) -> str | None:
    """Where the engines of a session are kept; None without a cache."""
    return None if target.engine_cache is None else str(_folder(model, target).absolute())


class Watch:
    """What becomes of the cache while a session opens and runs once."""

    def __init__(self, model: str, target: Target) -> None:
        self._folder = None if target.engine_cache is None else _folder(model, target)
        self._before = self._files()

    def found(self) -> EngineCache | None:
        """``path`` and ``warm``: whether the engine was there; None without a cache."""
        if self._folder is None:
            return None
        return {"path": str(self._folder), "warm": is_warm(self._before, self._files())}

    def _files(self) -> frozenset[File]:
        if self._folder is None or not self._folder.is_dir():
            return frozenset()
        states = ((path, path.stat()) for path in self._folder.iterdir())
        return frozenset((path.name, state.st_size, state.st_mtime_ns) for path, state in states)


def _folder(model: str, target: Target) -> Path:
    """Its own for each model and all that engines follow from: EPs tell them apart by a part of that alone.

    So neither another model's engine is taken, nor, in a gate of EP options, the other side's.
    """
    path = Path(model)
    found = digest(path)
    follows_from: list[object] = [ort.__version__, target.ep, target.options, target.session_config, target.opt_level]
    if target.library is not None:  # another build of an EP may build other engines
        follows_from.append(target.library)
    found.update(json.dumps(follows_from, sort_keys=True).encode())
    return Path(target.engine_cache or "") / f"{path.stem}-{found.hexdigest()[:12]}"
