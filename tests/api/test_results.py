"""What calls give back: frames, pictures and texts of scripted results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortbench
from ortbench.api.commands import compare
from ortbench.api.results import Result
from ortbench.facts import Fact
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.bandwidth.api import Bandwidth
from ortbench.features.gate.api import Verdict, gate
from ortbench.features.gate.gates.checks import Verdict as Stored
from ortbench.model.modes import D2H, H2D, ORDINARY
from ortbench.model.result import Case
from ortbench.model.result_file import save
from tests.analysis.test_sweep import USUAL, sweep_result
from tests.report.test_bandwidth import Copied, curve_of
from tests.results import MS, loop_case, loop_result, measured, published, result_of, steady


def two() -> list[Result]:
    """Two results of one mode, of which the second takes twice as long."""
    made = (measured("cpu-tensors", latency=steady([scale * MS] * 12)) for scale in (1, 2))
    return [Result.wrap(result_of(case, run_id="one")) for case in made]


def arrays(taken: dict[str, list[Any]]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: np.array(values) for name, values in taken.items()}


def test_the_samples_of_a_load_have_their_point_and_stretch() -> None:
    stored = result_of(measured("cpu-tensors", latency=steady([MS] * 9)))
    stored.kind = "load"
    stored.own["load"] = {"sessions": "shared"}
    points: list[dict[str, int | float | str]] = [{"concurrency": 2}, {"concurrency": 4}, {"rate": 20.0}]
    stored.cases += [Case("cpu-tensors", point=point, load_blocks=[]) for point in points]
    taken: dict[str, list[Any]] = {"0/latency_ns": [5, 6, 7], "0/block": [0, 0, 1], "0/caller": [0, 1, 0]}
    taken |= {"2/due_ns": [1, 2, 3], "2/start_ns": [2, 4], "2/end_ns": [3, 6], "2/requests": [[3, 2]]}
    frame = Result.wrap(stored, None, arrays(taken)).samples()
    columns = "mode concurrency rate block caller latency_ns due_ns start_ns end_ns"
    assert list(frame) == columns.split()
    assert frame["concurrency"].fillna(0).tolist() == [2, 2, 2, 0, 0, 0]
    assert frame["latency_ns"].fillna(0).tolist() == [5, 6, 7, 0, 0, 0]
    assert frame["end_ns"].fillna(0).tolist() == [0, 0, 0, 3, 6, 0]  # the last one was never served
    assert (str(frame["rate"].dtype), frame.attrs["units"]["due_ns"]) == ("Float64", "ns")
    taken["2/requests"] = [[2, 1], [1, 1]]  # two stretches, the first of which was cut off
    assert Result.wrap(stored, None, arrays(taken)).samples()["start_ns"].fillna(0).tolist() == [0, 0, 0, 2, 0, 4]
    with pytest.raises(ortbench.BadInput, match=r"they are in load-samples\.npz"):
        Result.wrap(stored).samples()


def test_the_samples_of_other_kinds_name_shape_block_or_step() -> None:
    frame = Result.wrap(sweep_result()).samples()
    assert list(frame)[:3] == ["shape", "mode", "phase"]
    found = frame.query("phase == 'latency'").groupby(["mode", "shape"])["time_ns"].median()
    assert found["cpu-tensors"].to_dict() == {f"batch={batch}": us * 1000 for batch, us in USUAL["cpu-tensors"].items()}
    case = measured("cpu-tensors", latency={3: [10, 11], 7: [12]})
    case.blocks["latency"] = [[3, 2, 500], [7, 1, 900]]
    frame = Result.wrap(result_of(case)).samples()
    assert frame.to_dict("list") == {
        "mode": ["cpu-tensors"] * 3, "phase": ["latency"] * 3, "round": [3, 3, 7], "block_start_ns": [500, 500, 900],
        "time_ns": [10, 11, 12],
    }  # fmt: skip
    assert frame.attrs["units"] == {"block_start_ns": "ns", "time_ns": "ns"}
    assert Result.wrap(result_of(Case("cpu-tensors"))).samples().empty
    frame = Result.wrap(loop_result(loop_case("cpu-tensors", [1, 2, 3, 4], rounds=1, loops=2))).samples()
    steps = frame.query("phase == 'step'")
    assert list(steps["step"]) == [0, 1, 2, 3] * (len(steps) // 4)
    assert len(steps) >= 8


def test_the_pictures_of_a_result_are_those_of_its_page() -> None:
    result = Result.wrap(published())
    first = result.plot()
    assert first.get_facecolor() == (1.0, 1.0, 1.0, 1.0)
    with pytest.raises(ortbench.BadInput, match="picture 'nothing': there is no such one; there are '"):
        result.plot("nothing")
    with pytest.raises(ortbench.BadInput, match="there is no picture of it: nothing was measured"):
        Result.wrap(result_of(Case("cpu-tensors"))).plot()


def test_a_notebook_shows_the_first_part_of_the_page_with_texts_from_outside_escaped() -> None:
    stored = published()
    stored.model["path"] = "<b>&x.onnx"
    shown = Result.wrap(stored)._repr_html_()
    assert shown.startswith('<div class="ortbench">')
    assert shown.count("<svg") == 1
    assert "<script" not in shown
    assert "of the latency of cpu-tensors" in shown
    assert "&lt;b&gt;&amp;x.onnx" in shown
    assert "<b>&x" not in shown
    rules = [line for line in shown.split("<style>")[1].split("</style>")[0].splitlines() if line.strip()]
    assert all(line.startswith(".ortbench ") for line in rules)  # the style is of the part alone


def test_a_comparison() -> None:
    found = compare(two(), equivalence_margin=None)
    assert found.names == ["#1", "#2"]
    expected = {"mode": "cpu-tensors", "metric": "latency", "result": "#2", "value": 2 * MS}
    assert expected.items() <= found.records[1].items()
    frame = found.frame()
    assert list(frame["vs_first_verdict"].dropna()) == ["slower"]
    assert "| cpu-tensors | latency | 1.00 | 2.00 | 2.00 | 2.00–2.00 | slower |" in found.markdown()
    assert found.plot().get_axes()
    with pytest.raises(ortbench.BadInput, match="compare needs at least two results, and 1 was given"):
        compare(two()[:1])


def test_stored_results_are_compared_and_gated_by_their_paths(tmp_path: Path) -> None:
    for number, result in enumerate(two()):
        (tmp_path / str(number)).mkdir()
        save(result, tmp_path / str(number) / "result.json")
    found = compare(tmp_path)
    assert found.names == ["0", "1"]
    assert [result.folder for result in found.results] == [tmp_path / "0", tmp_path / "1"]
    assert ortbench.read(tmp_path / "1").folder == tmp_path / "1"
    verdict = gate(tmp_path / "1", baseline=str(tmp_path / "0"))
    assert (verdict.word, verdict.code, verdict.passed) == ("failed", 3, False)
    same = gate(ortbench.read(tmp_path / "1"), baseline=found.results[1])
    assert same.checks[0].ratio == 1.0
    with pytest.raises(ortbench.BadInput, match=r"a result file and a live gate .* exclude each other"):
        gate(tmp_path / "1", model="m.onnx", max_cpu_nodes=0)
    with pytest.raises(ortbench.BadInput, match="cannot read"):
        ortbench.read(tmp_path / "2")
    with pytest.raises(ortbench.BadInput, match=r"has 2 results in folders of its own: name one, such as .*0$"):
        gate(tmp_path / "0", baseline=str(tmp_path))


def test_a_verdict() -> None:
    checks = [Check("a", PASSED, "a is well", 1.0, 0.9, 1.1, 1.05, 9), Check("b", UNCLEAR, "b is open")]
    fact = Fact("gate-change", "one", "", {"changes": ["EP: a → b"]})
    found = Verdict.wrap(Stored([*two()], checks, [fact], Path("there")))
    assert (found.word, found.code, found.passed) == ("cannot tell", 4, False)
    assert [result.folder for result in found.results] == [Path("there/candidate"), Path("there/baseline")]
    frame = found.frame()
    assert list(frame["verdict"]) == [PASSED, UNCLEAR]
    assert list(frame["rounds"].dropna()) == [9]
    assert "passed: a is well" in found._repr_html_()
    assert "✓ passed: a is well" in found.markdown()
    assert Verdict.wrap(Stored(two()[:1], [Check("a", PASSED, "well")])).passed
    assert Verdict.wrap(Stored(two()[:1], [Check("a", FAILED, "bad")])).code == 3


def test_a_sweep_of_copies() -> None:
    curve = curve_of(Copied(H2D, ORDINARY, 4000, 1000), Copied(D2H, ORDINARY, 4000, 2000))
    found = Bandwidth.wrap(curve, Path("there"))
    assert found.peak("d2h") is found.cases[0]
    frame = found.frame()
    figures = {"size": (4000, "B"), "h2d_rate_bytes_per_s": (4 * 10**9, "B/s"), "d2h_median_ns": (2000, "ns")}
    assert {name: (frame[name].tolist(), frame.attrs["units"][name]) for name in figures} == {
        name: ([value], unit) for name, (value, unit) in figures.items()
    }
    assert found.plot().get_axes()
