"""The JSON schema of a type says what the door takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.model.result_file import load, result_json
from tests.conftest import ROOT, mostly_wide, ortbench_here
from tests.model.toys import Result, case, result, stats
from tests.result_schema import of_results, problems, schema, text

WRONG = [
    (result(cases=[case(metrics={"a": stats(n="x")})]), "$.cases[0].metrics.a"),
    (result(cases=[case(status="fine")]), "$.cases[0].status"),
    (result(device={}), "$.device"),
    (result(schema_version=None), "$.schema_version"),
]
COMMITTED = [*(ROOT / "reports").rglob("result.json"), *(ROOT / "reports").rglob("bandwidth.json")]


@pytest.mark.parametrize(("data", "place"), WRONG)
def test_a_file_that_is_not_as_the_schema_says(data: dict[str, Any], place: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(data))
    assert [problem.split(": ")[1] for problem in problems(file, schema(Result))] == [place]


def test_unknown_keys_are_as_the_schema_says(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(json.dumps(result(cases=[case(metrics={"a": stats(more=1), "b": {"value": 1}}, more=2)], more=3)))
    assert problems(file, schema(Result)) == []


def test_a_schema_has_the_docstrings_of_its_parts_and_nothing_else() -> None:
    found = schema(Result)
    assert {name: part["description"] for name, part in found["$defs"].items()} == {
        "Case": "What one mode gave.",
        "Device": "A device of a machine.",
        "Link": "A copy between stages.",
        "Result": "A result.",
        "Stats": "Statistics of samples.",
        "Value": "One number.",
    }
    assert [*found["$defs"]["Value"]["properties"]] == ["value", "derived"]
    assert found["$defs"]["Case"]["properties"]["metrics"]["additionalProperties"] == {
        "anyOf": [{"$ref": "#/$defs/Stats"}, {"$ref": "#/$defs/Value"}]
    }
    assert json.dumps(found).isascii()


def test_the_schema_in_the_documentation_is_that_of_the_types() -> None:
    assert (ROOT / "docs" / "result.schema.json").read_text() == text(of_results())


@pytest.mark.parametrize(
    "file", mostly_wide(sorted(COMMITTED), 4), ids=lambda it: str(it.relative_to(ROOT / "reports"))
)
def test_committed_results_are_as_the_schema_says_and_come_through_the_door_unchanged(
    file: Path, tmp_path: Path
) -> None:
    assert result_json(load(file, "bandwidth" if file.name == "bandwidth.json" else "")) == file.read_text(
        encoding="utf-8"
    )
    short = tmp_path / file.name
    short.write_text(json.dumps(shortened(json.loads(file.read_bytes()))))
    assert problems(short, of_results()) == []


def shortened(data: Any) -> Any:
    """The same with the ends of long lists: reading by the types has seen all of them, and jsonschema is slow."""
    if isinstance(data, dict):
        return {key: shortened(value) for key, value in data.items()}
    if isinstance(data, list):
        return [shortened(it) for it in (data if len(data) <= 20 else [*data[:10], *data[-10:]])]
    return data


def test_a_kind_needs_its_parts(tmp_path: Path) -> None:
    data = json.loads((ROOT / "reports" / "copy_bound-cpu" / "result.json").read_text())
    file = tmp_path / "result.json"
    changes: list[dict[str, Any]] = [{"kind": "loop"}, {"kind": "walk"}, {"cases": []}, {"schema_version": 3}]
    for changed in changes:
        file.write_text(json.dumps(data | changed))
        assert problems(file, of_results())


def test_a_result_with_parts_that_are_gone_is_read_and_keeps_them(tmp_path: Path) -> None:
    data = json.loads((ROOT / "reports" / "copy_bound-cpu" / "result.json").read_text())
    data["model"]["freed"] = {"dims": [{"input": "x", "axis": 0, "size": 1, "name": "batch"}], "nodes": []}
    data["target"]["free_dims"] = {"x:0": "batch"}
    data["warnings"].append({"code": "dims-freed", "message": "a copy of the model was measured"})
    file = tmp_path / "result.json"
    file.write_text(json.dumps(data))
    assert json.loads(result_json(load(file))) == data
    assert problems(file, of_results()) == []
    ran = ortbench_here("compare", file, ROOT / "reports" / "copy_bound-cpu", "--force")
    assert (ran.code, ran.err) == (0, "")


def test_a_load_of_a_decoder_is_refused_in_one_line(tmp_path: Path) -> None:
    data = json.loads((ROOT / "reports" / "load-resnet50-cuda-h100" / "result.json").read_text())
    loop = json.loads((ROOT / "reports" / "gpu-h200" / "generate-llama" / "result.json").read_text())["loop"]
    file = tmp_path / "result.json"
    file.write_text(json.dumps(data | {"loop": loop}))
    ran = ortbench_here("compare", file, file)
    said = "is a load of a decoder, which ortbench no longer measures: ortbench loop measures decoders"
    assert (ran.code, ran.error_line) == (2, f"{file} {said}")
