"""The JSON schema of a type of files, and whether a file is what it says.

`python -m tests.result_schema > docs/result.schema.json` writes that of result files.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec

from ortbench.core.features import part_of, passes
from ortbench.model.kinds import kinds
from ortbench.model.result import SCHEMA_VERSION, Result
from ortbench.model.result_file import ALWAYS


def of_results() -> dict[str, Any]:
    """The JSON schema of result files: that of `Result`, with the keys that each kind needs."""
    found = schema(Result)
    own = {name: schema(parts) for name in kinds() if (parts := part_of(name, "model", "Parts")) is not None}
    for parts in own.values():
        found["$defs"] |= {name: it for name, it in parts["$defs"].items() if name != "Parts"}
        found["$defs"]["Result"]["properties"] |= parts["$defs"]["Parts"]["properties"]
    for feature, it in passes().values():
        of_cases = schema(part_of(feature, "model", "CasePart"))
        found["$defs"] |= of_cases.pop("$defs")
        found["$defs"]["Case"]["properties"][it.key] = {"$ref": of_cases["$ref"]}
    for part in ("Result", "Case"):
        found["$defs"][part]["properties"].pop("own")
    found["$defs"] = dict(sorted(found["$defs"].items()))
    top = found["$defs"]["Result"]
    top["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    top["properties"]["kind"] = {"enum": [*kinds()]}
    top["properties"]["cases"]["minItems"] = 1
    top["required"] = sorted({*top["required"], *ALWAYS, "schema_version"})
    top["allOf"] = [
        {"if": {"properties": {"kind": {"const": kind}}}, "then": {"required": list(it.needed)}}
        for kind, it in kinds().items()
        if it.needed
    ]
    return found


def text(found: dict[str, Any]) -> str:
    """A schema as its file has it."""
    return json.dumps(found, indent=1) + "\n"


def schema(of: type[Any]) -> dict[str, Any]:
    """The JSON schema of a type, with the docstrings of its parts as descriptions. Unknown keys are allowed everywhere."""
    parts: list[Any] = []

    def one_of(it: Any) -> dict[str, Any]:
        parts.extend(it.__subclasses__())
        return _one_of(it)

    msgspec.json.schema_components([of], schema_hook=one_of)
    (top, *_), found = msgspec.json.schema_components([of, *parts], schema_hook=_one_of)
    wanted = {"$schema": "https://json-schema.org/draft/2020-12/schema", **top}
    return {**wanted, "$defs": {name: found[name] for name in sorted(_reached(top, found))}}


def _one_of(of: type[Any]) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/$defs/{part.__name__}"} for part in of.__subclasses__()]}


def _reached(within: Any, definitions: dict[str, Any], seen: set[str] | None = None) -> set[str]:
    """The names of the definitions that a schema refers to, also by others."""
    seen = set() if seen is None else seen
    if isinstance(within, dict):
        name = str(within.get("$ref", "")).removeprefix("#/$defs/")
        if name and name not in seen:
            seen.add(name)
            _reached(definitions[name], definitions, seen)
        within = [*within.values()]
    if isinstance(within, list):
        for item in within:
            _reached(item, definitions, seen)
    return seen


def problems(file: Path, wanted: dict[str, Any]) -> list[str]:
    """What in a file is not as a schema says, each with its path."""
    data = json.loads(file.read_bytes())
    errors = _validator(json.dumps(wanted)).iter_errors(data)
    return [f"{file}: {error.json_path}: {error.message[:200]}" for error in errors]


@cache
def _validator(wanted: str) -> Any:
    """Checks data by a schema, which was checked itself."""
    checker, found = jsonschema.Draft202012Validator, json.loads(wanted)
    checker.check_schema(found)
    return checker(found)


if __name__ == "__main__":
    print(text(of_results()), end="")
