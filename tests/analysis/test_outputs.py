"""Outputs beside those of others: how far apart they are, what is likely behind it, and what doubtful figures are left out of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortbench.analysis.comparison import rows
from ortbench.analysis.outputs import (
    EXPECTED,
    add_comparison,
    comparison_record,
    how_far,
    likely_cause,
    lowering_ep,
    mark_doubtful,
    moved_outputs,
    remedy,
    worst,
)
from ortbench.core.errors import BadInput
from ortbench.facts import doubt_facts
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.plan import Limits
from ortbench.model.protocol import OutputComparison
from ortbench.model.result import Result
from ortbench.report.comparison import build
from ortbench.report.records import markdown
from ortbench.worker import proofs
from tests.expect import refusal, there
from tests.results import measured, result_of, steady, values

CPU, OPENVINO, CUDA, SOME = (f"{it}ExecutionProvider" for it in ("CPU", "OpenVINO", "CUDA", "Some"))


def distance(name: str = "y", **figures: float | None) -> Any:
    return {"name": name, "max_error": 0.1, "mean_error": 0.01, "sqnr": 40.0, "cosine": 0.999, "top1": None, **figures}


def held(differs: str | None = "3 of 4 values differ", relative: float = 0.01, **figures: Any) -> OutputComparison:
    found = {"accepts": "--rtol 0.02", "distances": [distance(**figures)]}
    return {"differs": differs, "relative": relative, **found}  # type: ignore[typeddict-item]


def plain(ep: str = CPU, run_id: str | None = "1", factor: int = 1) -> Result:
    medians = {"cpu-tensors": 2000 * factor, "device-tensors": 1000 * factor}
    cases = [measured(mode, latency=steady([ns] * 12)) for mode, ns in medians.items()]
    return result_of(*cases, run_id=run_id, target__ep=ep)


def lower(against: str = "cpu", run_id: str | None = "1", factor: int = 1) -> Result:
    """A result whose outputs a lower precision moved."""
    result = plain(OPENVINO, run_id, factor)
    add_comparison(result, comparison_record(against, held(), [OPENVINO, CPU]))
    return result


def moved(**figures: Any) -> Result:
    """A result whose outputs moved, but within the tolerance."""
    result = plain()
    add_comparison(result, comparison_record("baseline", held(None, **figures), []))
    return result


def test_which_ep_lowered_its_precision() -> None:
    for eps, relative, ep in (
        ([OPENVINO, CPU], 0.01, OPENVINO),
        ([CPU, SOME], 0.01, SOME),
        ([SOME, CUDA], 0.01, CUDA),  # it is known to lower it
        ([OPENVINO, CPU], 0.06, None),  # more than that explains
        ([OPENVINO, CPU], None, None),
    ):
        assert lowering_ep(eps, relative) == ep
        assert bool(likely_cause(eps, relative)) == (ep is not None)


def test_a_difference_is_doubtful_where_an_ep_may_have_made_it() -> None:
    assert there(comparison_record("cpu", held(), [OPENVINO, CPU])["doubt"])["ep"] == OPENVINO
    for found, eps in ((held(), []), (held(None), [OPENVINO, CPU]), (held(relative=0.5), [OPENVINO, CPU])):
        assert comparison_record("cpu", found, eps)["doubt"] is None
    assert remedy(CUDA, "--rtol 0.1") == f"--ep-option use_tf32=0 has {CUDA} compute in float32"
    assert remedy(SOME, "--rtol 0.1") == "if that is acceptable, pass --rtol 0.1"


def test_the_worst_of_all_outputs() -> None:
    found = worst([distance("a", sqnr=30.0, top1=0.5), distance("b", max_error=0.2, cosine=0.9)])
    assert found == {"max_error": 0.2, "mean_error": 0.01, "sqnr": 30.0, "cosine": 0.9, "top1": 0.5}
    assert worst([distance(max_error=0.0, sqnr=None)])["sqnr"] == math.inf
    assert worst([distance(max_error=1.0, sqnr=None)])["sqnr"] == -math.inf
    lost = distance(max_error=None, mean_error=None, sqnr=None, cosine=None)
    several = [distance("a"), distance("b", sqnr=20.0), distance("c", max_error=0.0, sqnr=None), lost]
    ordered = moved_outputs({**comparison_record("cpu", held(), []), "distances": several})
    assert ([it["name"] for it in ordered], worst([lost])) == (["b", "a"], {})


def test_how_far() -> None:
    said = "0.882 % of the output's largest value; if that is acceptable, pass --rtol 0.016"
    assert how_far(0.00882, 0.01501, 0.02) == said
    said = "0.0588 % of the output's largest value; if that is acceptable, pass --atol 0.0049"
    assert how_far(0.000588, 0.21, 0.00481) == said
    assert how_far(1.32, 1.5, 1.1) == "132 % of the output's largest value"  # no tolerance for that


def test_what_has_no_distance() -> None:
    one = np.ones(3, np.float32)
    for other in (np.ones(4, np.float32), np.array([np.nan, 1, 1], np.float32), np.zeros(3, np.float32)):
        assert proofs.distance(one, other) is None
    assert proofs.distance(np.array([np.nan, 1, 1], np.float32), one) is None
    assert proofs.distance(np.array([np.inf, 1], np.float32), np.array([-np.inf, 1], np.float32)) is None
    assert proofs.distance(one.astype(np.int32), one.astype(np.int32)) is None
    assert proofs.TOLERANCES["float32"] == (1e-3, 1e-5)  # beside which rtol is counted


# What doubtful figures are left out of


def test_doubtful_figures_are_shown_and_in_no_ratio() -> None:
    for pair in ([plain(), lower()], [lower(), plain()]):
        assert all(all(it.values) and it.since_first[1] is None and it.since_last[1] is None for it in rows(pair))
    assert all(it.since_first[1] is not None for it in rows([plain(), plain(OPENVINO)]))
    found = rows([plain(), lower(), plain(SOME)])
    assert all(it.since_first[1] is None and it.since_first[2] is not None for it in found)
    assert (mark_doubtful(plain(), "a"), mark_doubtful(lower(), "a")) == ("a", "a (doubtful)")


def test_they_are_said_once_with_what_mends_it() -> None:
    (fact,) = doubt_facts(lower(), "openvino")
    assert (fact.code, fact.values["configuration"], fact.values["ep"]) == ("precision", "openvino", OPENVINO)
    assert fact.next.startswith("--ep-option 'load_config=")
    assert [it.values["against"] for it in (fact, *doubt_facts(lower(EXPECTED)))] == [
        "those of cpu",
        "the expected ones",
    ]
    assert values(fact)["error"] == 0.1
    assert [*doubt_facts(plain())] == []
    text = markdown(build([plain(), lower()], ["cpu", "openvino"], 0.02, False))
    assert text.count("lower precision") == text.count("INFERENCE_PRECISION_HINT") == 1
    assert "openvino (doubtful)" in text


def test_limits_of_how_far_outputs_moved() -> None:
    for limit, least, verdict, text in (
        ("sqnr", 41.0, FAILED, "40.0 dB over 1 input, must be at least 41.0 dB"),
        ("cosine", 0.99, PASSED, "0.99900 over 1 input, must be at least 0.99000"),
        ("top1", 0.9, UNCLEAR, "the outputs are not those of cpu: 3 of 4 values differ; limit 90.0%"),
    ):
        (check,) = check_alone(lower(), Limits(outputs={f"outputs.{limit}": least}))
        assert (check.verdict, check.text, check.metric) == (verdict, f"outputs.{limit}: {text}", f"outputs.{limit}")
        (check,) = check_alone(moved(max_error=0.0, sqnr=None), Limits(outputs={"outputs.sqnr": 100.0}))
        assert (check.verdict, check.text) == (PASSED, "outputs.sqnr: no output moved, must be at least 100 dB")
        refused = refusal(BadInput, check_alone, plain(), Limits(outputs={"outputs.sqnr": 30.0}))
        assert refused.startswith("--limit outputs.sqnr: the outputs were compared with none: ")


def test_outputs_that_pass_only_by_a_tolerance_are_remarked_on() -> None:
    for result, figures in (
        (moved(top1=0.0, cosine=0.609), "top-1 0% and cosine 0.60900"),
        (moved(top1=1.0, cosine=0.99), ""),
    ):
        text = markdown(build([plain(), result], ["baseline", "candidate"], 0.02, False))
        assert ("pass only" in text, f"outputs with {figures} pass only by the tolerance" in text) == (
            bool(figures),
        ) * 2


def test_a_gate_tells_nothing_of_doubtful_figures() -> None:
    limits = Limits(max_regression=0.05)
    for pair in ((lower(factor=3), plain(run_id="2")), (plain(), lower(EXPECTED, run_id="2"))):
        found = check_stored(*pair, limits)
        assert {(it.verdict, it.ratio, it.low) for it in found} == {(UNCLEAR, None, None)}
        assert found[0].text.endswith("median: not judged, as the outputs differ by a lower precision")
    assert {it.verdict for it in check_stored(plain(factor=3), plain(run_id="2"), limits)} == {FAILED}
