"""What commands print, whole: that a newcomer reads the conclusion first, and nothing that means nothing."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from tests.conftest import ROOT, device_library, ortbench
from tests.virtual import Clock

pytestmark = pytest.mark.process

TINY, MULTI = (f"models/{name}.onnx" for name in ("tiny", "multi_output"))
SHORT = ("--iterations", 3, "--warmup", 1)
CPU, CPU_EP = ("--ep", "cpu", "--mode", "cpu-tensors"), "CPUExecutionProvider …"
SAME = "nothing recorded differs between the two (model files with the same contents, same EP, options, versions, machine): differences are noise, or come from what is not recorded"
UNITS = {"ns", "µs", "ms", "s"}  # below the names of columns
NOTHING_RAN = "! Nothing ran on RefDeviceExecutionProvider: all # nodes ran on the CPU."
_FIGURE = re.compile(r"(?<![=\w-])[≈×±]?\d[\d.]*[kM]?\b×?(?! %)(?: (?:[nµm]?s|[kMG]?B)(?:/s)?\b)?")


EXPLAIN = "ortbench explain WORD explains a column, a mode or a verdict"


def device(operators: tuple[str, ...], folder: Path) -> tuple[object, ...]:
    """An image's model in a folder, and a reference device that takes some of its operators alone."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,64,64] image) => (float[1,3,64,64] adjusted)
        <float half = {0.5}, float one = {1}, float none = {0}>
        { a = Mul(image, half) b = Add(a, half) adjusted = Clip(b, none, one) }"""
    onnx.save(onnx.parser.parse_model(text), folder / "image.onnx")
    return ("image.onnx", "--ep-library", device_library(operators=operators), "--out", folder / "out")


def seen(*arguments: object, code: int = 0, cwd: Path = ROOT) -> list[str]:
    """The lines of a command on a screen of any width, each as `masked`."""
    ran = ortbench(*arguments, COLUMNS="1000", cwd=cwd)
    assert (ran.code, ran.err) == (code, "")
    found = (line for line in map(masked, ran.out.splitlines()) if line and set(line.split()) - UNITS)
    # The first names folders of this machine; the others hang on how fast and how even it is.
    left_out = ("Next: ortbench", "Rates are work divided by")
    return [line for line in found if not line.startswith(left_out)]


def masked(line: str) -> str:
    """A line with # for each figure and one blank for several; without bars, and what the machine and the folder are."""
    line = re.sub(r" [░█▒≈━]+(?= {2})", "", line)
    line = re.sub(r"(\w+ExecutionProvider) \d.*", r"\1 …", line)
    line = re.sub(r"(Saved in) .*", r"\1 …", line)
    line = re.sub(r"(?<=medians, in )\w+", "#", line)
    line = re.sub(r"\d+ rounds?\b", "# rounds", line)
    return " ".join(_FIGURE.sub("#", line).split())


def test_a_run_with_a_node_on_the_cpu(clock: Clock, tmp_path: Path) -> None:
    """The copy inside the graph is the first sentence, where the output is the second, and nothing is downloaded."""
    line = device(("Mul", "Add"), tmp_path)
    assert seen("run", *line, "--mode", "cpu-tensors", "--mode", "device-tensors", *SHORT, cwd=tmp_path) == [
        "image.onnx (image: 1x3x64x64)",
        "RefDeviceExecutionProvider …",
        "synchronization (verified): session.run waits; memory of the EP: RefDevice (DEFAULT) and "
        "RefDeviceHostAccessible (HOST_ACCESSIBLE); ended after #: iterations done (# per mode)",
        "mode breakdown latency speedup samples H2D inference copies inf/s copied/inf copy rate",
        "cpu-tensors # # # – – – # # –",
        "device-tensors # # # # # # # # #",
        "breakdown: latency in the proportions of its parts, which are timed apart (one character at least): ░ H2D, █ inference, ━ no breakdown.",
        "! Too few blocks to tell whether device-tensors is faster than cpu-tensors: #.",
        "• # Memcpy node inside the graph: # copied in each inference.",
        "Resource usage: host CPU per inference",
        "mode CPU time user system CPU cores page faults involuntary switches",
        "cpu-tensors # # # # # #",
        "device-tensors # # # # # #",
        EXPLAIN,
        "Saved in …",
    ]


def test_one_mode_on_the_host(tmp_path: Path) -> None:
    """No column in which nothing would stand, and no word on modes that were not run."""
    assert seen("run", TINY, *CPU, *SHORT, "--out", tmp_path) == [
        "models/tiny.onnx (x: #)",
        "CPUExecutionProvider …",
        "synchronization (verified): session.run waits; memory: host memory; ended after #: iterations done (# per mode)",
        "mode latency samples inf/s",
        "cpu-tensors # # #",
        "• An inference takes # with cpu-tensors.",
        "Resource usage: host CPU per inference",
        "mode CPU time user system CPU cores page faults involuntary switches",
        "cpu-tensors # # # # # #",
        EXPLAIN,
        "Saved in …",
    ]


def test_a_gate_whose_sides_are_the_same_and_run_nothing_on_the_ep(clock: Clock, tmp_path: Path) -> None:
    """Both are said, the one before any figure and the other as a warning; no second time as nodes on the CPU."""
    model, *line = device(("Relu",), tmp_path)
    both = ("--model", model, "--baseline-model", model, "--mode", "device-tensors")
    assert seen("gate", *both, *line, "--duration", 0.001, code=4, cwd=tmp_path) == [
        NOTHING_RAN,
        "image.onnx (image: 1x3x64x64)",
        "RefDeviceExecutionProvider …",
        "mode metric baseline candidate baseline p95 candidate p95 baseline p99 candidate p99",
        "device-tensors latency # # # # # #",
        f"• {SAME}",
        "? device-tensors latency median, candidate to baseline: median ratio of paired blocks # (sequential test: too few rounds for an interval, # rounds), must be at most #; a "
        "verdict takes # rounds: measure again with --duration 1s",
        "gate: cannot tell, the checks say what is lacking",
        "Saved in …",
    ]
    (markdown,) = tmp_path.glob("out/*/gate.md")
    told = markdown.read_text()
    assert told.index("Nothing ran on RefDeviceExecutionProvider") < told.index("| mode |")
    assert f"\n- {SAME}\n" in told


def test_settings_side_by_side_with_copies_inside_the_graph(clock: Clock, tmp_path: Path) -> None:
    """They are said with their bytes, once for both, and before that there is too little to tell."""
    line = device(("Mul", "Add"), tmp_path)
    said = seen("run", *line, "--opt-level", "basic,all", "--mode", "cpu-tensors", *SHORT, cwd=tmp_path)
    assert [line for line in said if line[0] in "•!"] == [
        "• # Memcpy node inside the graph: # copied in each inference.",
        "! Too few blocks to compare opt-level=basic, opt-level=all: # of #.",
    ]


def test_a_batch_of_several_sizes(tmp_path: Path) -> None:
    sizes = ("--dim", "batch=1,8,32")
    lacking = [
        "! Too few blocks to compare batch=1, batch=8, batch=32: # of #.",
    ]

    def rows(figure: str, unit: str = "") -> list[str]:
        first, *others = (f"batch={size} #{unit}" for size in (1, 8, 32))
        return [f"cpu-tensors {figure} {first} – – –", *(f"{other} # – cannot tell" for other in others)]

    lines = seen("run", MULTI, *CPU, *sizes, *SHORT, "--out", tmp_path)
    found = [re.sub(r"(?<=batch=)\d+", "#", line) if "most items/s" in line else line for line in lines]
    # Counts have rows only where one of them is not 0.
    counts = [it for it in ("page faults", "involuntary switches") if f"cpu-tensors {it}" in "\n".join(found)]
    assert found == [
        CPU_EP,
        *(f"batch={size} models/multi_output.onnx (x: {size}x64)" for size in (1, 8, 32)),
        "mode metric result value vs first #% CI verdict",
        *rows("latency"),
        *rows("item throughput", " items/s"),
        "Resource usage",
        "mode cost result value vs first #% CI verdict",
        *(line for cost in ("CPU time", *counts) for line in rows(cost)),
        "! Cannot tell whether batch=# or batch=#, batch=# has the most items/s: # items/s with cpu-tensors.",
        *lacking,
        EXPLAIN,
        "Saved in …",
    ]


def test_results_that_were_given_names(tmp_path: Path) -> None:
    """Two have the same, and their folders tell them apart; the third is of another setting, which needs no name."""
    for name, threads in (("before the fix", 1), ("before the fix", 1), ("after", 2)):
        named = ("--name", name, "--intra-op-threads", threads, "--out", tmp_path)
        assert ortbench("run", TINY, *CPU, *SHORT, *named).code == 0
    said = seen("compare", tmp_path)
    assert said[:2] == ["models/tiny.onnx (x: #)", CPU_EP]
    at = next(number for number, line in enumerate(said) if line.startswith("mode "))
    assert said[at + 1 : at + 4] == [
        "cpu-tensors after # – – – – –",
        "before-the-fix # # – cannot tell # cannot tell",
        "before-the-fix-2 # # – cannot tell # cannot tell",
    ]
    assert [line for line in said if line.startswith("•")] == [
        "• what differs (after → before-the-fix): intra-op threads: # → #",
        "• what differs (after → before-the-fix-2): intra-op threads: # → #",
    ]
