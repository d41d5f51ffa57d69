"""The same case on several cards, as the summary of a suite shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ortbench.features.suite.job.record import Record
from ortbench.features.suite.report import across_cards


def test_a_case_is_compared_across_cards_by_its_rate_or_else_by_its_fastest_mode() -> None:
    def on(card: str, **figures: Any) -> Record:
        node: Any = {"name": f"host-{card}", "card": card, "resources": {}}
        whole = Record(card, "m.onnx", "cpu-tensors", "", "f", "passed", node=node, fastest="cpu-tensors")
        return replace(whole, **figures)

    # A load has both: its fastest inference says nothing of what it serves.
    served = across_cards(
        [on("a", throughput_per_s=100.0, fastest_ns=1), on("b", throughput_per_s=300.0, fastest_ns=2)]
    )
    assert served is not None
    assert [(row[1], row[-1]) for row in served.rows] == [("b", "3.00×"), ("a", "1.00×")]
    ran = across_cards([on("a", fastest_ns=4_000_000), on("b", fastest_ns=2_000_000)])
    assert ran is not None
    assert [(row[1], row[-1]) for row in ran.rows] == [("b", "2.00×"), ("a", "1.00×")]
    assert across_cards([on("a", fastest_ns=1), on("b")]) is None
