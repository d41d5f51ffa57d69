"""Chains side by side: which may be compared, what differs between them, and their rows."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.comparing.comparable import changes, mismatches, sameness
from ortbench.analysis.comparing.rows import rows
from ortbench.analysis.comparing.series import Selection
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import Result
from ortbench.model.result_file import save
from ortbench.report import comparison
from tests.conftest import ortbench
from tests.expect import there
from tests.results import CROSSING, MS, STAYING, chain, link, measured, result_of, stage, steady


def changed(**stage_of_text: Any) -> Result:
    """The chain with another first stage, and so with another digest."""
    made = deepcopy(chain(STAYING))
    made.part["stages"][0].update(stage_of_text)
    made.model["sha256"] = "c" * 64
    return made


def test_what_makes_chains_incomparable() -> None:
    for other, said in [
        (chain(STAYING, stages=(stage("text"), stage("image", 5))), ["stages: text, image ×4 and text, image ×5"]),
        (chain(STAYING, stages=(stage("text"),)), ["stages: text, image ×4 and text"]),
        (changed(sha256="d" * 64, model="new.onnx"),
         [f"model of text: text.onnx ({'b' * 12}) and new.onnx ({'d' * 12})"]),
        (changed(feedback=[["a", "b"]]), ["stages: text, image ×4 and text ×1, image ×4"]),
        (chain(STAYING, CROSSING), ["links that the other has not: none and text.mask → image.mask"]),
        (chain(link("text.a", "image.b", 1)),
         ["links that the other has not: text.condition → image.condition and text.a → image.b"]),
        (changed(ep="CPUExecutionProvider"), ["EP of text: SomeExecutionProvider and CPUExecutionProvider"]),
        (changed(keep=["y"]), []),
    ]:  # fmt: skip
        assert mismatches(chain(STAYING), other) == said
    single = result_of(measured("cpu-tensors", latency=steady([1])))
    assert mismatches(chain(STAYING), single)[-1] == "kind: a chain of 2 stages and single inferences"


def test_what_else_differs_is_said_by_stage() -> None:
    other = changed(settings={"intra_op_threads": 2, "opt_level": "basic"}, keep=["y"], ep_version="1.1")
    assert changes(chain(STAYING), other) == [
        "text: EP version: 1.0 → 1.1", "text: intra-op threads: default → 2", "text: optimisation: all → basic",
        "text: kept on the device: none → y",
    ]  # fmt: skip
    assert sameness(chain(STAYING), other) is None
    slower = chain({**STAYING, "d2h_ns": 1}, resident_ms=(3, 3))
    assert sameness(chain(STAYING), slower) is not None  # times are no difference


def test_rows_of_chains_are_the_whole_and_its_stages() -> None:
    results = [chain(STAYING, rounds=24), chain(STAYING, resident_ms=(1, 10), rounds=24)]
    found = rows(results)
    assert [(row.key.mode, row.key.figure.metric) for row in found] == [
        (mode, phase) for mode in ("cpu-tensors", "device-resident") for phase in ("chain", "stage.text", "stage.image")
    ]  # fmt: skip
    assert [row.values for row in found[3:]] == [(6 * MS, 11 * MS), (1 * MS, 1 * MS), (5 * MS, 10 * MS)]
    spread = there(found[5].since_first[1])
    assert (spread.ratio, spread.paired) == (2.0, False)
    chosen = rows(results, Selection(("cpu-tensors",), (parse_metric("stage.image"),)))
    assert [(row.key.mode, row.key.figure.metric, row.values) for row in chosen] == [
        ("cpu-tensors", "stage.image", (8 * MS, 8 * MS))
    ]
    one, other = chain(STAYING, rounds=24, run_id="r"), chain(STAYING, resident_ms=(2, 5), rounds=24, run_id="r")
    row = next(
        it for it in rows([one, other]) if (it.key.mode, it.key.figure.metric) == ("device-resident", "stage.text")
    )
    spread = there(row.since_first[1])
    assert (spread.ratio, spread.low, spread.high, spread.paired) == (2.0, 2.0, 2.0, True)
    results = [chain(STAYING), chain(STAYING, stages=(stage("prompt"), stage("image", 4)))]
    (table,) = comparison.tables(results, ["a", "b"], 0.02, in_order=True, only=Selection(("cpu-tensors",)))
    assert [row[:5] for row in table.rows] == [
        ("cpu-tensors", "chain", "10.0", "10.0", "1.000"), ("cpu-tensors", "stage text", "2.00", "–", "–"),
        ("cpu-tensors", "stage image", "8.00", "8.00", "1.000"), ("cpu-tensors", "stage prompt", "–", "2.00", "–"),
    ]  # fmt: skip


@pytest.mark.process
def test_the_command_and_three_of_them(tmp_path: Path) -> None:
    paths = []
    for name, ms in (("a", 5), ("b", 5), ("c", 10)):
        paths.append(tmp_path / f"{name}.json")
        save(chain(STAYING, resident_ms=(1, ms), rounds=24), paths[-1])
    ran = ortbench("compare", *paths, "--mode", "device-resident")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("chain of 2 stages and 1 link: text, image ×4") == 1
    shown = [
        line.split(maxsplit=1)[1].partition(" a ")[0].strip()
        for line in ran.out.splitlines()
        if line.startswith("device-resident ")
    ]
    assert shown == ["chain", "stage text", "stage image"]
    only = ortbench("compare", *paths, "--metric", "stage.image", "--mode", "cpu-tensors", "--json", "-")
    assert [(it["metric"], it["value"]) for it in json.loads(only.out)["records"]] == [("stage.image", 8 * MS)] * 3
    wrong = ortbench("compare", *paths, "--metric", "stge")
    assert "did you mean stage" in wrong.error_line
    save(chain(STAYING, CROSSING), tmp_path / "d.json")
    ran = ortbench("compare", paths[0], tmp_path / "d.json")
    assert (ran.code, ran.error_line) == (
        5, "a and d are not comparable: links that the other has not: none and text.mask → image.mask (--force compares them "
        "anyway)",
    )  # fmt: skip
