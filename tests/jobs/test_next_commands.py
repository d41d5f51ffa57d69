"""Every command that ortbench suggests is carried out, and ends well."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from ortbench.analysis.advice import again, how_to_write, inspection, lever, node_times
from ortbench.facts.run import facts_of, findings_of
from ortbench.model.result import OK, Result
from ortbench.model.result_file import load
from tests.benchmarks.same import SCENARIOS, Install
from tests.conftest import MODELS, ONCE, clock_library, device_library, ortbench
from tests.virtual import Clock

# What makes a suggested command quick, where it says nothing else of how long it measures.
_QUICK = {
    "run": ONCE, "loop": ONCE, "sweep": ONCE, "start": ("--iterations", 1), "soak": ("--iterations", 9), "chain": ONCE,
    "load": ("--duration", "0.05"), "tune": ("--max-time", "2s", "--duration", "0.05"),
}  # fmt: skip
FAILING = {"run-failing"}  # scenarios in which a mode fails, again
# Scenarios whose results are enough, or too different for a command.
WITHOUT_COMMANDS = {"load", "suite", "gate-slower", "gate-stored", "compare"}
_LASTS = {"--iterations", "--duration", "--max-time"}


def carry_out(text: str, place: Path) -> None:
    words = [word for word in shlex.split(text) if word]
    at = words.index("ortbench")
    environment = dict(word.split("=", 1) for word in words[:at])
    options = {word.partition("=")[0] for word in words}
    more = () if options & _LASTS and words[at + 1] != "load" else _QUICK.get(words[at + 1], ())
    out = ("--out", "again") if words[at + 1] in _QUICK else ()
    ran = ortbench(*words[at + 1 :], *(more if not options & {*map(str, more)} else ()), *out, cwd=place, **environment)
    assert ran.code == 0, f"{text}\n{ran.err}{ran.out}"


def measured(place: Path, *words: object, **environment: str) -> Result:
    ran = ortbench(*words, "--out", "of", cwd=place, **environment)
    assert ran.code == 0, ran.err
    (path,) = (place / "of").rglob("result.json")
    return load(path)


def suggested(result: Result) -> list[str]:
    """Every command that can be made of a result."""
    found = [it.next for it in findings_of(facts_of(result)) if it.is_command]
    found += [how_to_write(result, case.mode) for case in result.cases if case.status == OK]
    found += [again(result, "--timeout", "300s"), node_times(result), inspection(result)]
    found += [lever(result)] if result.kind in ("run", "loop") else []
    return [it for it in dict.fromkeys(found) if it]


def test_variables_and_another_interpreter_are_in_the_command(tmp_path: Path) -> None:
    shutil.copy(MODELS / "tiny.onnx", tmp_path / "m.onnx")
    asked = ("--ep", "cpu", "--mode", "cpu-tensors", "--record-env", "SOMEEP_*", "--record-env", "MY_TOKEN")
    line = ("run", "m.onnx", *asked, "--python", sys.executable, *ONCE)
    result = measured(tmp_path, *line, SOMEEP_MODE="a b", MY_TOKEN="secret")
    found = [it for it in suggested(result) if "ortbench " in it]
    for it in found:
        assert it.startswith("SOMEEP_MODE='a b' ortbench ")
        assert f"--python {sys.executable}" in it
        assert "secret" not in it
    carry_out(found[0], tmp_path)


# What the scenarios whose output is committed suggest

_NEXT = re.compile(r'(?:Next: |"next": ")`?((?:[^"`\\\n]|\\.)+)')


@pytest.mark.wide
@pytest.mark.parametrize("name", sorted(SCENARIOS.keys() - FAILING))
def test_of_each_golden_scenario(name: str, clock: Clock, tmp_path: Path) -> None:
    place = tmp_path / "place"
    seen = Install(Path(sys.executable), clock_library(), device_library()).carry_out(SCENARIOS[name], place)
    text = re.sub(r" \\\n +", " ", "\n".join(seen.values()))
    texts = dict.fromkeys(found[1].replace('\\"', '"') for found in _NEXT.finditer(text))
    commands = [
        re.sub(r"\S*/librefdevice\S*\.so", str(device_library()), it) for it in texts if it.startswith("ortbench ")
    ]
    for it in commands:
        clock.restart()
        carry_out(re.sub(r"\S+-STAMP", lambda found: str(next(place.glob(found[0].replace("STAMP", "*")))), it), place)
    assert bool(commands) == (name not in WITHOUT_COMMANDS)


SOME = ("--iterations", 12, "--warmup", 1)  # enough for a claim
MATRIX: list[tuple[str, tuple[object, ...]]] = [
    *((name, ("run", *SOME)) for name in ("tiny", "recurrent_cell", "decoder_shared", "loop_on_device")),
    ("multi_output", ("run", *SOME, "--input", MODELS / "multi_output.inputs.npz")),
    ("cpu_island", ("start", "--iterations", 1)),
    ("transformer_ids", ("soak", "--iterations", 9)),
    ("decoder", ("load", "--concurrency", "1", "--duration", "0.05")),
]


@pytest.mark.wide
@pytest.mark.parametrize(("name", "words"), MATRIX)
def test_of_each_model(name: str, words: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / f"{name}.onnx").symlink_to(MODELS / f"{name}.onnx")
    for it in suggested(measured(tmp_path, words[0], f"{name}.onnx", "--ep", "cpu", *words[1:])):
        if it.startswith("ortbench"):
            carry_out(it, tmp_path)
