"""How a loop is shown: in a terminal, as Markdown, on a page, and to other programs."""

from __future__ import annotations

import json

import pytest

from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.loop.report import copied_per_step
from ortbench.features.services.report import action_json
from ortbench.report.case_table import sparkline
from ortbench.report.markdown import markdown
from ortbench.report.run import build
from tests.odd import page_of
from tests.report.test_page import Page
from tests.report.test_terminal import shown
from tests.results import MS, US, decoding, generating, loop_case, loop_result

GENERATION = """\
generation: 100 prompt tokens (pp100), 8 generated tokens (tg8); random prompt, argmax on the host; no tokenizing, no sampling;
"""


def test_a_loop_that_generates_has_tokens() -> None:
    lines = shown(build, generating(), width=200)
    assert lines[1].startswith(GENERATION.strip())
    assert lines[1].endswith("cache of fixed length: present → past (named by genai_config.json)")
    table = [line for line in lines if line.startswith(("mode", "cpu-tensors ", "shared "))][:3]
    assert [line.split()[:9] for line in table] == [
        ["mode", "TTFT", "ITL", "ITL", "p95", "ITL", "p99", "prefill", "tokens/s"],
        ["cpu-tensors", "50.0", "5.00", "5.00", "5.00", "2.00k", "200", "3.00", "µs"],
        ["shared", "50.0", "2.00", "2.00", "2.00", "2.00k", "500", "3.00", "µs"],
    ]
    assert not any(word in " ".join(lines) for word in ("first step", "steps/s", "ortbench code"))
    both = " ".join(shown(build, generating(batch=2), width=240))
    assert "in each of 2 sequences" in both
    assert "tokens/s per sequence" in both


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


def test_a_growth_of_nothing_that_counts_is_left_out() -> None:
    little = loop_result(
        loop_case("cpu-tensors", [1 * MS + 2 * US * step for step in range(8)])
    )  # in all 1.6 % of a step
    assert "growth per step" not in markdown(build(little))
    assert little.cases[0].value("step_growth") == 2000
    more = loop_result(loop_case("cpu-tensors", [1 * MS + 3 * US * step for step in range(8)]))
    assert "+3.00 µs" in markdown(build(more))


# Other programs


def test_ci_systems_read_of_loops_and_steps() -> None:
    entries = json.loads(action_json([decoding()]))
    label = "m.onnx on SomeExecutionProvider (GPU Some GPU): "
    assert [(it["name"].removeprefix(label), it["value"]) for it in entries] == [
        ("cpu-tensors loop", 8.28),
        ("cpu-tensors step", 1.035),
        ("device-resident loop", 4.0),
        ("device-resident step", 0.5),
    ]
    assert [it["extra"].partition(",")[0] for it in entries[:2]] == [
        "median of 20 loops of 8 steps",
        "median of 160 steps",
    ]
    first = outcomes_of_run(decoding())[0]
    assert first.text == "8.28 ms (95% CI 8.28 ms to 8.28 ms), median of 20 loops of 8 steps"
    assert first.seconds == 0.00828


# The page


@pytest.mark.usefixtures("undrawn")
def test_a_page_has_the_steps_where_a_run_has_its_phases() -> None:
    found = Page(page_of("loop"))
    assert found.text("h1") == [
        "device-resident is 2.07× (2.00–2.10) as fast as cpu-tensors if the host does not need the state between steps"
    ]
    assert found.text("h2") == [
        "Time of each step", "Distribution of the time per loop", "Time per loop during the measurement", "By mode", "Placement", "Environment", "Command",
        "Words",
    ]  # fmt: skip
    assert (found.text("dt"), found.text("dd")[::2]) == (["Tensors on the device"], ["2.07×"])
    assert "loop of 8 steps, the first with sequence=5: present → past; the state grows" in " ".join(found.text("p"))
