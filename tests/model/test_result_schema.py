"""Committed results are as their JSON schema says, and come through the door unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.model.result_file import load, result_json
from tests.conftest import ROOT, ortbench_here
from tests.result_schema import of_results, problems, text

REPORTS = ROOT / "reports"
COMMITTED = sorted(file for name in ("result", "bandwidth") for file in REPORTS.rglob(f"{name}.json"))


def test_the_schema_in_the_documentation_is_that_of_the_types() -> None:
    assert (ROOT / "docs" / "result.schema.json").read_text() == text(of_results())


@pytest.mark.parametrize(
    "file",
    [pytest.param(file, marks=pytest.mark.wide if number % 4 else ()) for number, file in enumerate(COMMITTED)],
    ids=[str(file.relative_to(REPORTS)) for file in COMMITTED],
)
def test_committed_results_come_through_the_door_unchanged(file: Path) -> None:
    content = file.read_text(encoding="utf-8")
    assert result_json(load(file, "bandwidth" if file.name == "bandwidth.json" else "")) == content


def test_a_result_of_each_kind_is_as_the_schema_says(tmp_path: Path) -> None:
    small = [json.loads(file.read_bytes()) for file in COMMITTED if file.stat().st_size < 300_000]
    of_kind = {data.get("kind"): data for data in small}
    assert len(of_kind) >= 8
    file = tmp_path / "result.json"
    for data in of_kind.values():
        file.write_text(json.dumps(data))
        assert problems(file, of_results()) == []
    changes: list[dict[str, Any]] = [{"kind": "walk"}, {"kind": "loop"}, {"cases": []}, {"schema_version": 3}]
    for changed in changes:
        file.write_text(json.dumps(of_kind["run"] | changed))
        assert problems(file, of_results())


def stored(folder: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((REPORTS / folder / "result.json").read_text())
    return data


def test_a_load_of_a_decoder_is_refused_in_one_line(tmp_path: Path) -> None:
    data = stored("load-resnet50-cuda-h100") | {"loop": stored("gpu-h200/generate-llama")["loop"]}
    file = tmp_path / "result.json"
    file.write_text(json.dumps(data))
    ran = ortbench_here("compare", file, file)
    message = "is a load of a decoder, which ortbench no longer measures: ortbench loop measures decoders"
    assert (ran.code, ran.error_line) == (2, f"{file} {message}")
