"""Result files: written whole, and read through the door that checks them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.core.features import part_of, passes, unread_result
from ortbench.core.files import write_atomically
from ortbench.core.parts import keys_of, text
from ortbench.model.kinds import find_kind, kind_of
from ortbench.model.metrics import in_order
from ortbench.model.result import SCHEMA_VERSION, Case, Result

_PARTS = {"model", "placement"}  # that not all results have


def result_json(result: Result) -> str:
    """The result file's text; parts that are not there are left out."""
    parts = _PARTS | result.own.keys()
    found = {key: value for key, value in keys_of(result).items() if key not in parts or value not in (None, [], {})}
    found["cases"] = [_case_keys(case) for case in result.cases]
    return text({"schema_version": result.schema_version, **found})


def _case_keys(case: Case) -> dict[str, object]:
    parts = {**keys_of(case), "metrics": {key: case.metrics[key] for key in in_order(case.metrics)}}
    return {key: value for key, value in parts.items() if value is not None or key in ("reason", "speedup")}


def save(result: Result, path: Path) -> None:
    """Write the result file so that a reader never sees half of it; `OSError`: the folder cannot be written."""
    write_atomically(path, result_json(result))


def load(path: Path, kind: str = "") -> Result:
    """Read a result file: one of a `kind` that has files of its own where that is wanted, else any other; `BadInput`: it cannot be read,
    or is not a result of a version that is known."""
    from ortbench.model import door  # here and below: who only writes a result would wait for its msgspec

    return parse(door.content_of(path), str(path), kind)


def parse(content: bytes, name: str, kind: str = "") -> Result:
    """A result from the content of its file, see `load`; `name` is what messages call it."""
    from ortbench.model import door

    data = door.parse(content, name)
    if not isinstance(data, dict) or "schema_version" not in data:
        raise BadInput(f"{name} is not a result file of ortbench: it has no schema_version")
    version, found = data["schema_version"], data.get("kind")
    if what := unread_result(found):
        raise BadInput(f"{name} is {what}")
    if version != SCHEMA_VERSION:
        newer = isinstance(version, (int, float)) and version > SCHEMA_VERSION
        advice = "a newer ortbench wrote it" if newer else "measure again"
        reads = f"this ortbench reads schema_version {SCHEMA_VERSION}"
        raise BadInput(f"{name} has schema_version {door.shown(version)}, {reads}: {advice}")
    if {"load", "loop"} <= data.keys():
        raise BadInput(
            f"{name} is a load of a decoder, which ortbench no longer measures: ortbench loop measures decoders"
        )
    if kind and found != kind:
        raise BadInput(f"{name} is not {kind_of(kind).noun}")
    if not kind and isinstance(found, str) and (it := find_kind(found)) is not None and it.apart:
        raise BadInput(f"{name} is {it.noun}: {it.apart}")
    return from_data(data, name)


def from_data(data: Any, name: str) -> Result:
    """A result from what `ortbench.model.door.parse` gave of its file; raises `BadInput`."""
    from ortbench.model import door, sound

    kind = data.get("kind") if isinstance(data, dict) else None
    own = part_of(kind, "model", "Parts") if isinstance(kind, str) and find_kind(kind) is not None else None
    return door.shape(data, name, Result, sound.check, own, _case_parts(data))


def _case_parts(data: Any) -> dict[str, Any]:
    """The types of what features measured of the cases, by key."""
    cases = data.get("cases") if isinstance(data, dict) else None
    keys = {key for case in cases or () if isinstance(case, dict) for key in case} if isinstance(cases, list) else ()
    return {it.key: part_of(feature, "model", "CasePart") for feature, it in passes().values() if it.key in keys}
