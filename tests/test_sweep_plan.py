"""What a sweep is asked to do: lists and ranges of sizes, real inputs, a limit to keep, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.features.sweep.analysis import meets_slo
from ortbench.features.sweep.plan import MAX_SHAPES, SWEPT, Shape, parse_slo, shapes_of
from ortbench.model.metric_names import Slo
from ortbench.model.settings import split_lists
from tests.expect import refusal
from tests.results import MS, measured
from tests.typed import typed


def shapes(**given: Any) -> list[Shape]:
    return shapes_of("m.onnx", typed(given, SWEPT), ("ortbench",))


def names(**given: Any) -> list[str]:
    return [shape.name for shape in shapes(**given)]


def sizes(text: str) -> list[int]:
    return [it["batch"] for it in split_lists(typed({"dim": [f"batch={text}"]}, SWEPT)["dim"])]


def test_a_range_doubles_from_one_end_to_the_other() -> None:
    for text, found in (
        ("1..8", [1, 2, 4, 8]), ("1,2,4..64", [1, 2, 4, 8, 16, 32, 64]), ("3..20", [3, 6, 12, 20]), (" 1 .. 2 , 7", [1, 2, 7]), ("5", [5]),
    ):  # fmt: skip
        assert sizes(text) == found
    for text in ("8..1", "0..4", "4..4"):
        said = refusal(BadInput, sizes, text)
        assert said == f"--dim batch={text}: {text} is no range: write the smaller size first, above 0"
    assert "'2' is in the list twice" in refusal(BadInput, sizes, "1..4,2")


def test_several_dimensions_make_a_grid() -> None:
    grid = [f"batch={batch} sequence={sequence}" for batch in (1, 8) for sequence in (16, 32, 64)]
    assert names(dim=["batch=1,8", "sequence=16..64"]) == grid
    assert names(dim=["batch=1,8", "sequence=16"]) == ["batch=1", "batch=8"]
    assert names(shape=["x:1x3,8x3"]) == ["x=1x3", "x=8x3"]
    (first, _), (given, _) = shapes(dim=["n=1,2"]), shapes(dim=["n=1,2"], duration="7")
    assert [it.plan.loop.duration_s for it in (first, given)] == [2.0, 7.0]
    assert first.plan.command == ("ortbench",)
    many = [f"{name}={','.join(map(str, range(1, count)))}" for name, count in (("a", 10), ("b", 9))]
    assert f"one run takes at most {MAX_SHAPES} shapes, and 72 were asked for" in refusal(BadInput, shapes, dim=many)


def test_real_inputs_are_files_and_folders_of_test_sets(tmp_path: Path) -> None:
    inside, single = tmp_path / "all", tmp_path / "d.npz"
    files = "set_b/input_0.pb set_a/input_0.pb set_a/output_0.pb c.inputs.npz c.expected.npz other/x"
    for name in files.split():
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).touch()
    single.touch()
    found = shapes(data=[str(inside), str(single)])
    assert [(it.name, it.data, it.plan.inputs.path, it.plan.inputs.expect) for it in found] == [
        ("c", "c", str(inside / "c.inputs.npz"), str(inside / "c.expected.npz")),
        ("set_a", "set_a", str(inside / "set_a"), str(inside / "set_a")),
        ("set_b", "set_b", str(inside / "set_b"), None),
        ("d", "d", str(single), None),
    ]


def test_sets_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("one", "two", "empty"):
        (tmp_path / name).mkdir()
    one, two = (tmp_path / name / "x.npz" for name in ("one", "two"))
    for path in (one, two):
        path.touch()
    assert names(data=[str(one), str(two)]) == ["one/x", "two/x"]
    for data, reason in (
        ([str(one), str(one)], "a set was given twice"),
        ([str(one.parent)], "a sweep needs several sets"),
        ([str(tmp_path / "empty")], "has neither input_0.pb nor test sets nor .npz files in it"),
        (["nowhere"], "--data: no such file or folder: nowhere"),
    ):
        assert reason in refusal(BadInput, names, data=data)
    assert "--data says how inputs look, leave it out" in refusal(BadInput, names, data=["x"], dim=["batch=1,2"])


# Limits


def test_a_limit_is_one_statistic_and_a_time() -> None:
    assert parse_slo("latency=1.5s", "--slo") == Slo("latency", 1_500_000_000)
    for text in ["20ms", "p98=20ms", "p99=0ms", "p99=1ms,max=2ms"]:
        assert refusal(BadInput, parse_slo, text, "--slo").startswith("--slo")


def test_a_limit_is_met_where_the_samples_show_it() -> None:
    """Independent samples, in any order: none that follow each other are alike. The limit is 12 ms."""
    for statistic, samples, verdict in (
        ("p99", [10] * 299, True),
        ("p99", [10] * 298, None),
        ("p99", [*[10] * 290, 13, *[10] * 9], None),  # too close to tell of so few
        ("p99", [13] * 20 + [10] * 80, False),
        ("p90", [10] * 32, True),
        ("latency", [10] * 20, True),
        ("p50", [10] * 3, None),
        ("max", [10], True),
        ("max", [10, 13], False),
    ):
        random.Random(1).shuffle(samples)
        case = measured("cpu-tensors", latency={0: [it * MS for it in samples]})
        assert meets_slo(case, Slo(statistic, 12 * MS)) is verdict, (statistic, len(samples))
