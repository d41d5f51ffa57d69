"""Outputs beside those of others: which differences are a lower precision, and what doubtful figures are left out of."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ortbench.analysis.comparison import rows
from ortbench.analysis.outputs import (
    EXPECTED,
    add_comparison,
    comparison_record,
    lowering_ep,
    mark_doubtful,
    moved_outputs,
    remedy,
    trust,
    worst,
)
from ortbench.core.errors import BadInput
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR
from ortbench.facts.common import doubt_facts
from ortbench.facts.sentences import sentence
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.plan import Limits
from ortbench.features.page.report.page import build_page
from ortbench.model.protocol import OutputComparison
from ortbench.model.result import Result
from ortbench.report.comparison import build, build_configurations
from ortbench.report.markdown import markdown
from tests.expect import refusal, there
from tests.report.test_page import Page
from tests.results import measured, result_of, steady

pytestmark = pytest.mark.usefixtures("undrawn")

CPU, OPENVINO, CUDA, SOME = (f"{it}ExecutionProvider" for it in ("CPU", "OpenVINO", "CUDA", "Some"))


def distance(name: str = "y", **figures: float | None) -> Any:
    return {"name": name, "max_error": 0.1, "mean_error": 0.01, "sqnr": 40.0, "cosine": 0.999, "top1": None, **figures}


def held(differs: str | None = "3 of 4 values of output y differ", relative: float | None = 0.01) -> OutputComparison:
    return {"differs": differs, "relative": relative, "accepts": "--rtol 0.02", "distances": [distance()]}


def lower(against: str = "cpu", ep: str = OPENVINO, run_id: str | None = "1", factor: int = 1) -> Result:
    """A result whose outputs a lower precision moved."""
    result = plain(ep, run_id, factor)
    add_comparison(result, comparison_record(against, held(), [ep, CPU]))
    return result


def plain(ep: str = CPU, run_id: str | None = "1", factor: int = 1) -> Result:
    cases = [
        measured("cpu-tensors", latency=steady([2000 * factor] * 12)),
        measured("device-tensors", latency=steady([1000 * factor] * 12)),
    ]
    return result_of(*cases, run_id=run_id, target__ep=ep)


@pytest.mark.parametrize(
    ("eps", "relative", "ep"),
    [
        ([OPENVINO, CPU], 0.01, OPENVINO),
        ([CPU, OPENVINO], 0.05, OPENVINO),
        ([CPU, SOME], 0.01, SOME),
        ([SOME, CUDA], 0.01, CUDA),  # it is known to lower it
        ([SOME, "Other"], 0.01, SOME),
        ([CPU], 0.01, None),
        ([CPU, CPU], 0.01, None),
        ([OPENVINO, CPU], 0.06, None),  # more than that explains
        ([OPENVINO, CPU], None, None),
    ],
)
def test_which_ep_lowered_its_precision(eps: list[str], relative: float | None, ep: str | None) -> None:
    assert lowering_ep(eps, relative) == ep


def test_what_mends_it() -> None:
    assert remedy(CUDA, "--rtol 0.1") == f"--ep-option use_tf32=0 has {CUDA} compute in float32"
    assert remedy(SOME, "--rtol 0.1") == "if that is acceptable, pass --rtol 0.1"
    assert sorted([CUDA, SOME, CPU], key=trust) == [CPU, SOME, CUDA]


def test_a_difference_is_doubtful_where_an_ep_may_have_made_it() -> None:
    assert there(comparison_record("cpu", held(), [OPENVINO, CPU])["doubt"])["ep"] == OPENVINO
    assert comparison_record("cpu", held(), [])["doubt"] is None  # an error, or another model
    assert comparison_record("cpu", held(None), [OPENVINO, CPU])["doubt"] is None
    assert comparison_record("cpu", held(relative=0.5), [OPENVINO, CPU])["doubt"] is None


def test_the_worst_of_all_outputs() -> None:
    found = worst([distance("a", sqnr=30.0, top1=0.5), distance("b", max_error=0.2, cosine=0.9)])
    assert found == {"max_error": 0.2, "mean_error": 0.01, "sqnr": 30.0, "cosine": 0.9, "top1": 0.5}
    assert worst([distance(max_error=0.0, sqnr=None)])["sqnr"] == math.inf
    assert worst([distance(max_error=1.0, sqnr=None)])["sqnr"] == -math.inf
    lost = distance(max_error=None, mean_error=None, sqnr=None, cosine=None)
    assert worst([lost]) == {}
    several = [distance("a"), distance("b", sqnr=20.0), distance("c", max_error=0.0, sqnr=None), lost]
    assert [it["name"] for it in moved_outputs({**comparison_record("cpu", held(), []), "distances": several})] == [
        "b",
        "a",
    ]


def test_doubtful_figures_are_shown_and_in_no_ratio() -> None:
    for pair in ([plain(), lower()], [lower(), plain()]):
        assert all(all(it.values) and it.since_first[1] is None and it.since_last[1] is None for it in rows(pair))
    assert all(it.since_first[1] is not None for it in rows([plain(), plain(OPENVINO)]))
    found = rows([plain(), lower(), plain(SOME)])
    assert all(it.since_first[1] is None and it.since_first[2] is not None for it in found)
    assert (mark_doubtful(plain(), "a"), mark_doubtful(lower(), "a")) == ("a", "a (doubtful)")


def test_they_are_said_once_with_what_mends_it() -> None:
    results, names = [plain(), lower()], ["cpu", "openvino"]
    (fact,) = doubt_facts(lower(), "openvino")
    line = (
        f"openvino: {OPENVINO} is likely to compute in a lower precision: the outputs differ from those of cpu by up to 0.100. "
        "No ratio or gate uses these figures."
    )
    assert sentence(fact) == line
    assert fact.next.startswith("--ep-option 'load_config=")
    assert [*doubt_facts(plain())] == []
    assert "from the expected ones" in sentence(next(doubt_facts(lower(EXPECTED))))
    for report in (build(results, names, 0.02, False), build_configurations(results, names, 0.02, "x")):
        text = markdown(report)
        assert text.count("lower precision") == text.count("INFERENCE_PRECISION_HINT") == 1
        assert "openvino (doubtful)" in text
    found = Page(build_page(results, names)).text("li")
    assert sum("lower precision" in it for it in found) == 2  # above all, and where that result begins


# Gates


def limits(**changed: Any) -> Limits:
    return Limits(**changed)


@pytest.mark.parametrize(
    ("limit", "verdict", "text"),
    [
        ({"outputs.sqnr": 40.0}, PASSED, "outputs.sqnr: 40.0 dB, must be at least 40.0 dB"),
        ({"outputs.sqnr": 41.0}, FAILED, "outputs.sqnr: 40.0 dB, must be at least 41.0 dB"),
        ({"outputs.max_error": 0.1}, PASSED, "outputs.max_error: 0.100, must be at most 0.100"),
        ({"outputs.mean_error": 0.001}, FAILED, "outputs.mean_error: 0.0100, must be at most 0.00100"),
        ({"outputs.cosine": 0.99}, PASSED, "outputs.cosine: 0.99900, must be at least 0.99000"),
        (
            {"outputs.top1": 0.9},
            UNCLEAR,
            "outputs.top1: the outputs are not those of cpu: 3 of 4 values of output y differ; limit 90.0%",
        ),
    ],
    ids=lambda it: next(iter(it)) if isinstance(it, dict) else None,
)
def test_limits_of_how_far_outputs_moved(limit: dict[str, float], verdict: str, text: str) -> None:
    (check,) = check_alone(lower(), limits(outputs=limit))
    assert (check.verdict, check.text, check.metric) == (verdict, text, next(iter(limit)))


def test_outputs_that_pass_only_by_a_tolerance_are_remarked_on() -> None:
    cases: list[tuple[dict[str, Any], str | None]] = [
        ({"top1": 0.0, "cosine": 0.609}, "top-1 0% and cosine 0.60900"),
        ({"top1": 0.98}, "top-1 98.0%"),
        ({"top1": 1.0, "cosine": 0.99}, None),
    ]
    for figures, said_of in cases:
        moved_far = plain()
        add_comparison(moved_far, comparison_record("baseline", {**held(None), "distances": [distance(**figures)]}, []))
        text = markdown(build([plain(), moved_far], ["baseline", "candidate"], 0.02, False))
        line = f"- candidate: outputs with {said_of} pass only by the tolerance (--rtol, --atol)"
        assert (line in text.splitlines()) == (said_of is not None), text
        assert ("pass only" in text) == (said_of is not None)


def test_outputs_that_did_not_move_or_were_not_compared() -> None:
    same = plain()
    add_comparison(
        same, comparison_record("cpu", {**held(None), "distances": [distance(max_error=0.0, sqnr=None)]}, [])
    )
    (check,) = check_alone(same, limits(outputs={"outputs.sqnr": 100.0}))
    assert (check.verdict, check.text) == (PASSED, "outputs.sqnr: no output moved, must be at least 100 dB")
    refused = refusal(BadInput, check_alone, plain(), limits(outputs={"outputs.sqnr": 30.0}))
    assert refused.startswith("--limit outputs.sqnr: the outputs were compared with none: ")


def test_a_gate_tells_nothing_of_doubtful_figures() -> None:
    for pair in ((lower(run_id="1", factor=3), plain(run_id="2")), (plain(run_id="1"), lower(run_id="2"))):
        found = check_stored(*pair, limits(max_regression=0.05))
        assert {it.verdict for it in found} == {UNCLEAR}
        assert found[0].text == "cpu-tensors latency median: not judged, as the outputs differ by a lower precision"
        assert all(it.ratio is None and it.low is None for it in found)
    slower = check_stored(plain(factor=3, run_id="1"), plain(run_id="2"), limits(max_regression=0.05))
    assert {it.verdict for it in slower} == {FAILED}


# Several models
