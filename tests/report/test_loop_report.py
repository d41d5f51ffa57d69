"""How a loop is shown: in a terminal, as Markdown, on a page, and to other programs."""

from __future__ import annotations

import json

import pytest

from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.loop.report import copied_per_step
from ortbench.features.services.report import action_json
from ortbench.report.case_table import sparkline
from ortbench.report.records import markdown
from ortbench.report.run import build
from tests.report.test_terminal import shown
from tests.results import MS, US, decoding, generating, loop_case, loop_result


def test_a_loop_that_generates_has_tokens() -> None:
    lines = shown(build, generating(), width=200)
    assert lines[1].startswith(
        "generation: 100 prompt tokens (pp100), 8 generated tokens (tg8); random prompt, argmax on the host;"
    )
    assert lines[1].endswith("cache of fixed length: present → past (named by genai_config.json)")
    table = [line for line in lines if line.startswith(("mode", "cpu-tensors ", "shared "))][:3]
    assert [line.split()[:9] for line in table] == [
        ["mode", "TTFT", "ITL", "ITL", "p95", "ITL", "p99", "prefill", "tokens/s"],
        ["cpu-tensors", "50.0", "5.00", "5.00", "5.00", "2.00k", "200", "3.00", "µs"],
        ["shared", "50.0", "2.00", "2.00", "2.00", "2.00k", "500", "3.00", "µs"],
    ]
    assert not any(word in " ".join(lines) for word in ("first step", "steps/s", "ortbench code"))
    assert "tokens/s per sequence" in " ".join(shown(build, generating(batch=2), width=240))


@pytest.mark.parametrize(
    ("values", "curve"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇█"),
        ([5, 5], "▅▅"),
        ([], "–"),
        ([1] * 24 + [8] * 24, "▁▁▁▁▁▁▁▁████████"),
    ],
)
def test_curves(values: list[int], curve: str) -> None:
    assert sparkline(values, (1, 8)) == curve


@pytest.mark.parametrize(
    ("there", "back", "first", "said"),
    [
        (None, 4, False, "–"),
        (0, 0, False, "0"),
        (300, 200, False, "500 B"),
        ([10, 20, 30], 5, False, "15 B to 35 B"),
        ([0, 10, 20], [0, 10, 20], False, "0 to 40 B"),
        ([99, 20, 30], [0, 0, 0], True, "20 B to 30 B"),
        ([500], 0, True, "500 B"),
    ],
)
def test_bytes_of_a_step(there: int | list[int] | None, back: int | list[int] | None, first: bool, said: str) -> None:
    assert copied_per_step(there, back, first) == said


@pytest.mark.parametrize(("us", "is_told"), [(2, False), (3, True)])  # in all 1.6 % of a step, and 2.4 %
def test_a_growth_of_nothing_that_counts_is_left_out(us: int, is_told: bool) -> None:
    made = loop_result(loop_case("cpu-tensors", [1 * MS + us * US * step for step in range(8)]))
    assert made.cases[0].value("step_growth") == us * US
    assert (f"+{us}.00 µs" in markdown(build(made))) is is_told


def test_ci_systems_read_of_loops_and_steps() -> None:
    entries = json.loads(action_json([decoding()]))
    label = "m.onnx on SomeExecutionProvider (GPU Some GPU): "
    found = [(it["name"].removeprefix(label), it["value"], it["extra"].partition(",")[0]) for it in entries]
    assert found[:2] == [
        ("cpu-tensors loop", 8.28, "median of 20 loops of 8 steps"),
        ("cpu-tensors step", 1.035, "median of 160 steps"),
    ]
    first = outcomes_of_run(decoding())[0]
    assert first.text == "8.28 ms (95% CI 8.28 ms to 8.28 ms), median of 20 loops of 8 steps"
    assert first.seconds == 0.00828
