"""What a sweep is asked to do: lists and ranges of sizes, real inputs, a limit to keep, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.errors import BadInput
from ortbench.features.sweep.analysis import meets_slo
from ortbench.features.sweep.plan import MAX_SHAPES, SWEPT, Shape, SweepOptions, parse_slo, shapes_of
from ortbench.model.metric_names import Slo
from ortbench.model.settings import split_lists
from ortbench.plan.options import declared_options, options_of
from ortbench.plan.plan import PLAN
from tests.expect import refusal
from tests.results import MS, measured
from tests.typed import typed


def names(**given: Any) -> list[str]:
    return [shape.name for shape in shapes(given)]


def shapes(given: Mapping[str, Any], command: tuple[str, ...] = ()) -> list[Shape]:
    return shapes_of("m.onnx", typed(given, SWEPT), command)


def test_a_range_doubles_from_one_end_to_the_other() -> None:
    for text, sizes in [
        ("1..8", [1, 2, 4, 8]),
        ("1,2,4..64", [1, 2, 4, 8, 16, 32, 64]),
        ("3..20", [3, 6, 12, 20]),
        (" 1 .. 2 , 7", [1, 2, 7]),
        ("5", [5]),
    ]:
        assert [it["batch"] for it in split_lists(typed({"dim": [f"batch={text}"]}, SWEPT)["dim"])] == sizes
    for text, words in [
        ("8..1", "--dim batch=8..1: 8..1 is no range: write the smaller size first, above 0"),
        ("0..4", "0..4 is no range"),
        ("4..4", "4..4 is no range"),
        ("1..4,2", "'2' is in the list twice"),
    ]:
        with pytest.raises(BadInput, match="batch") as raised:
            typed({"dim": [f"batch={text}"]}, SWEPT)
        assert words in str(raised.value)


def test_several_dimensions_make_a_grid() -> None:
    assert names(dim=["batch=1,8", "sequence=16..64"]) == [
        "batch=1 sequence=16", "batch=1 sequence=32", "batch=1 sequence=64",
        "batch=8 sequence=16", "batch=8 sequence=32", "batch=8 sequence=64",
    ]  # fmt: skip
    assert names(dim=["batch=1,8", "sequence=16"]) == ["batch=1", "batch=8"]
    assert names(shape=["x:1x3,8x3"]) == ["x=1x3", "x=8x3"]
    assert [it.plan.loop.duration_s for it in shapes({"dim": ["n=1,2"]})] == [2.0, 2.0]
    (first, _) = shapes({"dim": ["n=1,2"], "duration": "7"}, ("ortbench",))
    assert (first.plan.loop.duration_s, first.plan.command) == (7.0, ("ortbench",))
    for given, words in [
        ({}, "a sweep needs several shapes: such as --dim batch=1,2,4..64"),
        ({"dim": ["batch=8"]}, "a sweep needs several shapes"),
        ({"dim": [f"a={','.join(map(str, range(1, 10)))}", f"b={','.join(map(str, range(1, 9)))}"]},
         f"one run takes at most {MAX_SHAPES} shapes, and 72 were asked for"),
        ({"data": ["nowhere"]}, "--data: no such file or folder: nowhere"),
        ({"data": ["nowhere"], "dim": ["batch=1,2"]}, "--dim: --data says how inputs look, leave it out"),
    ]:  # fmt: skip
        assert words in refusal(BadInput, shapes, given)


def test_real_inputs_are_files_and_folders_of_test_sets(tmp_path: Path) -> None:
    for name in ("set_b", "set_a", "other"):
        (tmp_path / "all" / name).mkdir(parents=True)
    for name in ("set_b/input_0.pb", "set_a/input_0.pb", "set_a/output_0.pb", "c.inputs.npz", "c.expected.npz"):
        (tmp_path / "all" / name).touch()
    (tmp_path / "d.npz").touch()
    found = shapes({"data": [str(tmp_path / "all"), str(tmp_path / "d.npz")]})
    paths = [(it.name, it.data, it.plan.inputs.path, it.plan.inputs.expect) for it in found]
    inside = tmp_path / "all"
    assert paths == [
        ("c", "c", str(inside / "c.inputs.npz"), str(inside / "c.expected.npz")),
        ("set_a", "set_a", str(inside / "set_a"), str(inside / "set_a")),
        ("set_b", "set_b", str(inside / "set_b"), None),
        ("d", "d", str(tmp_path / "d.npz"), None),
    ]


def test_sets_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.npz").touch()
    assert names(data=[str(tmp_path / "one" / "x.npz"), str(tmp_path / "two" / "x.npz")]) == ["one/x", "two/x"]
    with pytest.raises(BadInput, match="a set was given twice"):
        names(data=[str(tmp_path / "one" / "x.npz")] * 2)
    with pytest.raises(BadInput, match="a sweep needs several sets"):
        names(data=[str(tmp_path / "one")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"has neither input_0\.pb nor test sets nor \.npz files in it"):
        names(data=[str(tmp_path / "empty")])


def test_what_a_sweep_has_of_its_own() -> None:
    lists = {it.flag for it in options_of(*PLAN) if it.is_taken_by(SWEPT) and it.for_command(SWEPT).lists}
    assert lists == {"dim", "shape", "sequence-tensors"}
    assert {it.flag for it in declared_options(SweepOptions).values()} == {"data", "slo"}
    assert replace(SweepOptions(), slo=Slo("p99", 1)).slo == Slo("p99", 1)


# Limits


def test_a_limit_is_one_statistic_and_a_time() -> None:
    assert parse_slo("latency=1.5s", "--slo") == Slo("latency", 1_500_000_000)
    for text in ["20ms", "p98=20ms", "p99=0ms", "p99=1ms,max=2ms"]:
        with pytest.raises(BadInput, match="--slo"):
            parse_slo(text, "--slo")


@pytest.mark.parametrize(
    ("slo", "samples", "verdict"),
    [
        ({"p99": 12}, [10] * 299, True),
        ({"p99": 12}, [10] * 298, None),
        ({"p99": 12}, [*[10] * 290, 13, *[10] * 9], None),  # too close to tell of so few
        ({"p99": 12}, [13] * 20 + [10] * 80, False),
        ({"p90": 12}, [10] * 32, True),
        ({"latency": 12}, [10] * 20, True),
        ({"p50": 12}, [10] * 3, None),
        ({"max": 12}, [10], True),
        ({"max": 12}, [10, 13], False),
    ],
)
def test_a_limit_is_met_where_the_samples_show_it(
    slo: dict[str, int], samples: list[int], verdict: bool | None
) -> None:
    """Independent samples, in any order: none that follow each other are alike."""
    random.Random(1).shuffle(samples)
    case = measured("cpu-tensors", latency={0: [it * MS for it in samples]})
    ((statistic, limit),) = slo.items()
    assert meets_slo(case, Slo(statistic, limit * MS)) is verdict
