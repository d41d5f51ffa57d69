"""The I/O modes: everything about one is in its record and its class, and nothing else has a list of them."""

from __future__ import annotations

import ast
import html
from collections.abc import Iterable
from pathlib import Path

import pytest

from ortbench.analysis.comparison import rows
from ortbench.analysis.copies import add_shares
from ortbench.core.stats import Value
from ortbench.facts.run import copy_share
from ortbench.features.gate.gates import own_ratio_tests, regression_tests
from ortbench.features.gate.plan import Limits
from ortbench.features.page.report.page import build_page
from ortbench.model import modes
from ortbench.model.metric_names import MetricName, parse_metric
from ortbench.model.modes import (
    ALL_MODES,
    CPU,
    LATENCY,
    MODES,
    PER_ITEM,
    PER_RUN,
    PHASE_NAMES,
    USUAL_MODES,
    Mode,
    is_rate,
    mode_of,
)
from ortbench.plan.plan import Plan, check
from ortbench.plan.plan_builder import modes_to_measure
from ortbench.plan.target import Inputs, Target
from ortbench.report.run import mode_table, splits
from ortbench.worker import first_run, providers, session
from ortbench.worker.modes import make_mode
from tests.conftest import MODELS
from tests.results import copying, measured, result_of, steady
from tests.sources import nodes

pytestmark = pytest.mark.usefixtures("undrawn")

MS = 1_000_000
TINY = str(MODELS / "tiny.onnx")


def test_a_record_is_whole() -> None:
    for mode in MODES.values():
        assert mode.sentence
        assert mode.figure in (LATENCY, PER_ITEM, PER_RUN)
        assert LATENCY in mode.phases
        assert set(mode.phases) <= set(PHASE_NAMES)
        assert mode.only in ("", *mode.phases)
        assert {mode.like, mode.without_copies} <= {"", *MODES}
        assert bool(mode.like) == mode.extra  # what is asked for is compared with what is usual
        assert mode.name not in (mode.like, mode.without_copies)
    assert tuple(MODES)[: len(USUAL_MODES)] == USUAL_MODES
    assert not any(is_rate(name, LATENCY) for name in USUAL_MODES)


@pytest.mark.parametrize("name", USUAL_MODES)
def test_a_class_times_what_its_record_says(name: str) -> None:
    target = Target(ep="cpu")
    model = session.open_model(TINY, target, providers.find(target))
    made = make_mode(name, model, first_run.make_data(TINY, model, Inputs()))
    mode = MODES[name]
    assert made.name == name
    assert set(made.phases()) == {mode.timed_as(phase) for phase in mode.phases}
    assert made.per_call == 1


# No other list


SPELLED = {name: value for name, value in vars(modes).items() if isinstance(value, str) and value in MODES}


def name_at(tree: Iterable[ast.AST | None]) -> set[str]:
    """Modes that nodes name: as texts, and by names and attributes that stand for them."""
    texts = {it.value for it in tree if isinstance(it, ast.Constant) and it.value in MODES}
    spelled = {it.name if isinstance(it, ast.alias) else getattr(it, "attr", "") for it in tree}
    return {str(it) for it in texts} | {SPELLED[it] for it in spelled & SPELLED.keys()}


# Texts that mean something else, by file: an EP, a processor, hardware, a kind of memory; never two of them in one literal.
ELSEWHERE = {CPU, "device-tensors", "host-accessible"}


def test_nothing_else_names_or_lists_modes() -> None:
    found = {}
    for place, tree in nodes().items():
        literals = [it.elts for it in tree if isinstance(it, ast.Tuple | ast.List | ast.Set)]
        literals += [[*filter(None, it.keys)] for it in tree if isinstance(it, ast.Dict)]
        if place != Path("model/modes.py") and place.name != "__init__.py":  # records are plain data
            lists = [listed for literal in literals if len(listed := name_at(constants(literal))) > 1]
            own = place.as_posix() in ("worker/modes.py", "worker/pipelined.py")
            own |= place.parts[0] == "features" and (
                place.name == "model.py" or "worker" in place.parts
            )  # a kind's own
            found[place] = (lists, set() if own else name_at(tree) - ELSEWHERE)
    assert {place: it for place, it in found.items() if it != ([], set())} == {}


def constants(items: Iterable[ast.expr]) -> list[ast.Constant]:
    return [it for it in items if isinstance(it, ast.Constant)]


def test_the_page_says_what_each_mode_does_that_was_asked_for() -> None:
    every = result_of(*(measured(name, latency=steady([MS] * 20)) for name in MODES))
    shown = html.unescape(build_page([every], ["m"]))
    for mode in MODES.values():
        assert f'<th scope="row">{mode.name}</th><td>{mode.sentence}</td>' in shown.replace("\xa0", " ")
    shown = html.unescape(build_page([result_of(measured(CPU, latency=steady([MS] * 20)))], ["m"]))
    assert [name for name in MODES if f'<th scope="row">{name}</th>' in shown.partition("<h2>Words</h2>")[2]] == [CPU]


def test_a_mode_that_is_only_a_record_is_known_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = Mode(
        "made-up",
        "as device, in a way that nobody has thought of",
        phases=("h2d", "inference", "d2h", LATENCY),
        extra=True,
        like="device-tensors",
        pinned=True,
        recorded=True,
        external_inputs=True,
        mark=("X", "accent"),
    )
    for known in (MODES, ALL_MODES):
        monkeypatch.setitem(known, made_up.name, made_up)
    assert modes_to_measure({"mode": ["all"]}) == (*MODES,)
    assert modes_to_measure({"mode": ["made-up", "default"]}) == ("made-up", *USUAL_MODES)
    check(Plan(TINY, modes=("made-up",), measure_copies=True, target=Target(input_memory="numpy")))
    assert parse_metric("made-up.h2d.min") == MetricName("made-up", "h2d", "min")
    limits = Limits(max_regression=0.05, metrics=(parse_metric("h2d"),))
    (ratio_test,) = regression_tests(limits, ["cpu-tensors", "made-up"])
    assert (ratio_test.over.mode, ratio_test.over.phase) == ("made-up", "h2d")

    parts = {phase: steady([MS] * 20) for phase in ("h2d", "inference", "d2h")}
    slower = {phase: steady([2 * MS] * 20) for phase in ("h2d", "inference", "d2h")}
    result = result_of(
        measured("device-tensors", latency=steady([6 * MS] * 20), **slower),
        measured("made-up", latency=steady([3 * MS] * 20), **parts),
    )
    assert [row[0] for row in mode_table(result).rows] == ["device-tensors", "made-up"]
    assert len(splits(result)[1]) == 3
    assert {row.key.mode for row in rows([result, result])} == {"device-tensors", "made-up"}


def test_a_made_up_mode_of_cpu_tensors_has_its_copies_derived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODES, CPU, Mode(CPU, without_copies="made-up"))
    monkeypatch.setitem(MODES, "made-up", Mode("made-up"))
    assert Limits(max_copy_share=0.5).needed_modes() == {CPU, "made-up"}
    (ratio_test,) = own_ratio_tests(Limits(max_copy_share=0.5))
    assert ratio_test.over.mode == "made-up"
    cpu, rest = measured(CPU, latency=steady([4 * MS] * 20)), measured("made-up", latency=steady([MS] * 20))
    copying(cpu, 3 * MS, MS)
    rest.speedup = Value(4.0, (4.0, 4.0))
    assert copy_share(result_of(cpu, rest)) == 0.75


def test_a_mode_that_a_stored_result_has_and_nobody_knows_has_nothing_special() -> None:
    unknown = mode_of("of tomorrow")
    assert (unknown.name, unknown.is_rate, unknown.of_cpu_tensors) == ("of tomorrow", False, False)
    result = result_of(measured("of tomorrow", latency=steady([MS] * 20)))
    assert [row[0] for row in mode_table(result).rows] == ["of tomorrow"]
    assert "of tomorrow" in build_page([result], ["m"])
    add_shares(result)
