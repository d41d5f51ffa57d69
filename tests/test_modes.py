"""The I/O modes: everything about one is in its record and its class."""

from __future__ import annotations

import pytest

from ortbench.analysis.copies import add_shares
from ortbench.features.page.report.page import build_page
from ortbench.model.modes import LATENCY, MODES, PER_ITEM, PER_RUN, PHASE_NAMES, USUAL_MODES, is_rate, mode_of
from ortbench.plan.target import Inputs, Target
from ortbench.report.run import mode_table
from ortbench.worker import first_run, providers, session
from ortbench.worker.modes import make_mode
from tests.conftest import MODELS
from tests.results import MS, measured, result_of, steady

TINY = str(MODELS / "tiny.onnx")


def test_a_record_is_whole() -> None:
    for mode in MODES.values():
        assert mode.sentence
        assert mode.figure in (LATENCY, PER_ITEM, PER_RUN)
        assert LATENCY in mode.phases
        assert set(mode.phases) <= set(PHASE_NAMES)
        assert mode.only in ("", *mode.phases)
        assert {mode.like, mode.without_copies} <= {"", *MODES} - {mode.name}
        assert bool(mode.like) == mode.extra  # what is asked for is compared with what is usual
    assert tuple(MODES)[: len(USUAL_MODES)] == USUAL_MODES
    assert not any(is_rate(name, LATENCY) for name in USUAL_MODES)


@pytest.mark.parametrize("name", USUAL_MODES)
def test_a_class_times_what_its_record_says(name: str) -> None:
    target = Target(ep="cpu")
    model = session.open_model(TINY, target, providers.find(target))
    made, mode = make_mode(name, model, first_run.make_data(TINY, model, Inputs())), MODES[name]
    assert (made.name, made.per_call) == (name, 1)
    assert set(made.phases()) == {mode.timed_as(phase) for phase in mode.phases}


def test_a_mode_that_a_stored_result_has_and_nobody_knows_has_nothing_special(undrawn: None) -> None:
    unknown = mode_of("of tomorrow")
    assert (unknown.name, unknown.is_rate, unknown.of_cpu_tensors) == ("of tomorrow", False, False)
    result = result_of(measured("of tomorrow", latency=steady([MS] * 20)))
    assert [row[0] for row in mode_table(result).rows] == ["of tomorrow"]
    assert "of tomorrow" in build_page([result], ["m"])
    add_shares(result)
