"""A machine whose noise is scripted, in virtual time: what every command that measures says of it, to the word."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ortbench.facts.findings import facts_of
from ortbench.features.page.report.page import build_page
from ortbench.model.result import Result
from tests.conftest import ortbench
from tests.jobs.test_suite_run import suite
from tests.jobs.test_sweep_command import batched
from tests.refdevice import Config
from tests.results import fact, values
from tests.truth import relu_model, run_on_device
from tests.virtual.machine import VARIABLE

pytestmark = pytest.mark.process

OTHERS = "Busy machine: other processes used 61% of 2 cores"
MS_DEVICE = Config(compute_us=1000)


def machine(**scripted: Any) -> dict[str, str]:
    """The environment of a command whose machine does this."""
    return {VARIABLE: json.dumps(scripted)}


BUSY = machine(others=[1.22], waits={str(it): 0.5 for it in range(3)})


def first_words(out: str) -> list[str]:
    """What stands under the heading of a report, on a line each."""
    part = out.split("\n\n")[1]
    return [" ".join(it.split()) for it in re.split(r"^(?:[!•] |  Next: )", part, flags=re.MULTILINE)[1:]]


def run(library: Path, folder: Path, *line: object, command: str = "run", **environment: str) -> tuple[Result, str]:
    code, result, out, err = run_on_device(
        library, batched(folder / "m.onnx"), MS_DEVICE, folder, *line, command=command, **environment
    )
    assert code == 0, err
    return result, out


TWO = ("--mode", "cpu-tensors", "--mode", "device-resident", "--iterations", 200, "--warmup", 1)


@pytest.mark.parametrize(
    ("command", "line", "waited"),
    [("run", TWO, 0.14), ("load", ("--mode", "device-resident", "--concurrency", 1, "--duration", 1), 0.19)],
)
def test_what_is_said_first(
    command: str, line: tuple[object, ...], waited: float, library: Path, tmp_path: Path
) -> None:
    result, out = run(library, tmp_path, *line, command=command, **BUSY)
    first, again, *rest = first_words(out)
    said = f"{OTHERS}."
    assert [first, *rest] == [said]
    assert re.fullmatch(rf"ortbench {command} .+ --wait-quiet 60s", again)
    assert facts_of(result)[0] == fact(result, "busy-machine")
    found = values(fact(result, "busy-machine"))
    assert (found["others"], found["cores"]) == (pytest.approx(0.61), 2)
    assert found["waited"] == pytest.approx(waited, abs=0.005)
    (table,) = (tmp_path / "out").glob("*/table.md")
    assert f"- {said}\n  - Next: `{again}`\n" in table.read_text()
    assert said in build_page([result], [command]).replace("&#39;", "'")


def test_configurations_side_by_side_say_it_once(library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "m.onnx", 4000)
    line = (
        "run",
        model,
        "--ep-library",
        library,
        "--mode",
        "device-resident",
        "--intra-op-threads",
        "1,2",
        "--iterations",
        20,
    )
    ran = ortbench(*line, "--out", tmp_path / "out", **MS_DEVICE.environ(), **machine(others=[1.22]))
    assert ran.code == 0, ran.err
    assert " ".join(ran.out.split()).count("Busy machine") == 1


SUITE = """
[suite]
name = "two"

[defaults]
mode = "cpu-tensors"
iterations = 20
warmup = 1

[[bench]]
model = "models/tiny.onnx"
ep = "cpu"

[[bench]]
model = "models/fp16.onnx"
ep = "cpu"
"""


def test_a_suite_says_which_cases(tmp_path: Path) -> None:
    ran = suite(SUITE, tmp_path, **machine(others=[1.22]))
    assert ran.code == 0, ran.err
    cases = "! The machine was busy in 2 of 2 cases: tiny--cpu, fp16--cpu."
    assert ran.out.split("\n\n")[0] == f'{cases}\n  Next: set wait-quiet = "60s" under [defaults] in the suite\'s file'


# Waiting


WAIT = ("--mode", "device-resident", "--iterations", 3, "--warmup", 1)


def test_a_machine_that_never_was_quiet_is_measured_all_the_same_and_says_so(library: Path, tmp_path: Path) -> None:
    _, out = run(library, tmp_path, *WAIT, "--wait-quiet", "5s", **machine(others=[1.0]))
    why = "the machine was not quiet within 5 s: other processes used 50% of 2 cores in the last second"
    assert f"! warning: {why}; it was measured all the same" in out
    assert "Next: ps -eo pcpu,pid,comm --sort=-pcpu | head" in out  # it has waited


@pytest.mark.parametrize(("line", "within"), [((), ""), (("--wait-quiet", "0.1min"), " within 6 s")])
def test_a_machine_that_must_be_quiet(line: tuple[str, ...], within: str, library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "m.onnx", 4000)
    out = tmp_path / "out"
    asked = ("run", model, "--ep-library", library, *WAIT, "--require-quiet", *line, "--out", out)
    ran = ortbench(*asked, **MS_DEVICE.environ(), **machine(others=[1.0]))
    assert ran.code == 1
    why = f"the machine was not quiet{within}: other processes used 50% of 2 cores in the last second"
    assert ran.error_line == f"{why} (--require-quiet)"
    assert not out.exists() or not list(out.iterdir())
    assert ortbench(*asked, **MS_DEVICE.environ()).code == 0


def test_a_timeline_has_a_track_of_noise(library: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t.json"
    result, _ = run(library, tmp_path, *TWO, "--trace", trace, **BUSY)
    events = json.loads(trace.read_text())["traceEvents"]
    (track,) = {it["tid"] for it in events if it["ph"] == "M" and it["args"].get("name") == "noise of the machine"}
    spans = [(it["name"], it["args"]) for it in events if it["ph"] == "X" and it["tid"] == track]
    assert spans[0] == ("others used 61% of 2 cores", {"others": 1.22, "stolen": 0.0, "pressure": 0.0})
    assert result.noise is not None
    waited = [
        {"round": it[0], "waited_us": it[3] / 1000, "involuntary_switches": 0} for it in result.noise["blocks"][:3]
    ]
    assert spans[1:] == [("waited for a CPU", args) for args in waited]
