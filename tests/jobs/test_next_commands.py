"""Every command that ortbench suggests is carried out, and ends well."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortbench.analysis.advice import again, command, how_to_write, inspection, lever, node_times
from ortbench.facts.findings import facts_of, findings_of
from ortbench.features.loop.analysis import inside
from ortbench.model.result import OK, Result
from ortbench.model.result_file import load
from tests.benchmarks.same import Install
from tests.conftest import MODEL_NAMES, MODELS, ONCE, clock_library, device_library, ortbench
from tests.golden import GOLDEN
from tests.virtual import Clock

pytestmark = pytest.mark.process
SOME = ("--iterations", 12, "--warmup", 1)  # enough for a claim
_COMMAND = re.compile(r"(?:Next: )?((?:\w+=(?:'[^']*'|\S*) )*ortbench [a-z]+ .+)")
# What makes a suggested command quick, where it says nothing else of how long it measures.
_QUICK = {
    "run": ONCE, "loop": ONCE, "sweep": ONCE, "start": ("--iterations", 1), "soak": ("--iterations", 9), "chain": ONCE,
    "load": ("--duration", "0.05"), "tune": ("--max-time", "2s", "--duration", "0.05"),
}  # fmt: skip
FAILING = {"run-failing"}  # scenarios in which a mode fails, again
# Scenarios whose results are enough, or too different for a command.
WITHOUT_COMMANDS = {"load", "suite", "bandwidth", "gate-live", "gate-stored", "compare"}
_LASTS = {"--iterations", "--duration", "--max-time"}


def suggested(out: str) -> list[str]:
    """The commands to copy in what a command prints."""
    return list(dict.fromkeys(found[1] for line in out.splitlines() if (found := _COMMAND.fullmatch(line.strip()))))


def carried_out(text: str, place: Path) -> str:
    """What a suggested command prints, which must end well."""
    words = [word for word in shlex.split(text) if word]
    at = words.index("ortbench")
    environment = dict(word.split("=", 1) for word in words[:at])
    options = {word.partition("=")[0] for word in words}
    more = () if options & _LASTS and words[at + 1] != "load" else _QUICK.get(words[at + 1], ())
    out = ("--out", "again") if words[at + 1] in _QUICK else ()
    ran = ortbench(*words[at + 1 :], *(more if not options & {*map(str, more)} else ()), *out, cwd=place, **environment)
    assert ran.code == 0, f"{text}\n{ran.err}{ran.out}"
    return ran.out


def all_run(place: Path, *words: object, least: int = 1, **environment: str) -> list[str]:
    """The commands that a command suggests, each of which runs."""
    verbose = () if words[0] == "inspect" else ("--verbose",)
    ran = ortbench(words[0], *verbose, *words[1:], cwd=place, **environment)
    assert ran.code == 0, ran.err
    found = suggested(ran.out)
    assert len(found) >= least, ran.out
    for it in found:
        carried_out(it, place)
    return found


def measured(place: Path, *words: object) -> list[Path]:
    """The results of a command."""
    ran = ortbench(*words, "--out", "of", cwd=place)
    assert ran.code == 0, ran.err
    return sorted((place / "of").rglob("result.json"))


def carried_out_all(result: Result, place: Path) -> str:
    """Every command that can be made of a result, each of which runs, in lines."""
    found = [it.next for it in findings_of(facts_of(result)) if it.is_command]
    found += [how_to_write(result, case.mode) for case in result.cases if case.status == OK]
    found += [again(result, "--timeout", "300s"), node_times(result), inspection(result)]
    found += [lever(result)] if result.kind in ("run", "loop") else []
    found += [inside(result)] if result.kind == "loop" else []
    commands = [it for it in dict.fromkeys(found) if it.startswith("ortbench")]
    for it in commands:
        carried_out(it, place)
    return "\n".join(commands)


def save(path: Path, text: str, shapes: dict[str, list[int | str | None]] | None = None) -> Path:
    """Write a model, in ONNX's text; `shapes` of tensors replace those of the text."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    for value in (*model.graph.input, *model.graph.output):
        if shapes and value.name in shapes:
            value.CopyFrom(
                helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shapes[value.name])
            )
    onnx.save(model, path)
    return path


def vad(path: Path) -> Path:
    """A recurrent step that runs with inputs longer than 1 alone, whose dimensions have no names."""
    nodes = [
        helper.make_node("Pad", ["input", "pads"], ["padded"], mode="reflect"),
        helper.make_node("ReduceMean", ["padded"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Add", ["state", "mean"], ["stateN"]),
    ]
    tensors = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("input", [None, None]), ("state", [2, None, 128]), ("stateN", [None, None, None]))
    ]
    pads = numpy_helper.from_array(np.array([0, 4, 0, 4], np.int64), "pads")
    graph = helper.make_graph(nodes, "vad", tensors[:2], tensors[2:], [pads])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.wide
def test_another_interpreter_and_configurations_side_by_side(tmp_path: Path) -> None:
    shutil.copy(MODELS / "recurrent_cell.onnx", tmp_path / "m.onnx")
    found = all_run(tmp_path, "run", "m.onnx", "--ep", "cpu", "--python", sys.executable, *ONCE)
    assert all(f"--python {sys.executable}" in it for it in found)
    sides = ("--ep", "cpu", "--intra-op-threads", "1,2", "--opt-level", "all,basic", *ONCE)
    carried_out_all(load(measured(tmp_path, "run", "m.onnx", *sides)[-1]), tmp_path)


def test_variables_of_the_environment_stand_before_the_command(tmp_path: Path) -> None:
    shutil.copy(MODELS / "tiny.onnx", tmp_path / "m.onnx")
    asked = ("--ep", "cpu", "--mode", "cpu-tensors", "--record-env", "SOMEEP_*", "--record-env", "MY_TOKEN", *ONCE)
    found = all_run(tmp_path, "run", "m.onnx", *asked, SOMEEP_MODE="a b", MY_TOKEN="secret")
    assert all(it.startswith("SOMEEP_MODE='a b' ortbench run ") and "secret" not in it for it in found), found


SUITE = """
[[bench]]
model = "vad.onnx"
ep = "cpu"
shape = {input = "1x576"}
range = {input = [-1, 1]}
iterations = 1
"""


def test_a_case_of_a_suite(tmp_path: Path) -> None:
    vad(tmp_path / "vad.onnx")
    (tmp_path / "s.toml").write_text(SUITE)
    ran = ortbench("suite", "s.toml", "--out", "of", cwd=tmp_path)
    assert ran.code == 0, ran.err
    (path,) = (tmp_path / "of").rglob("result.json")
    found = [it.next for it in findings_of(facts_of(load(path))) if it.is_command]
    assert "--dim 'input[1]=576' --range input:-1,1" in " ".join(found)
    for it in found:
        carried_out(it, tmp_path)


@pytest.mark.wide
def test_a_search_of_settings(tmp_path: Path) -> None:
    vad(tmp_path / "vad.onnx")
    asked = ("--ep", "cpu", "--shape", "input:1x576", "--max-time", "2s", "--duration", "0.05")
    for found in all_run(tmp_path, "tune", "vad.onnx", *asked, least=0):
        assert "--shape input:1x576" in found
    for path in measured(
        tmp_path, "run", "vad.onnx", "--ep", "cpu", "--shape", "input:1x576", "--opt-level", "basic", *ONCE
    ):
        found = command(load(path), "tune", without=["opt-level"])
        assert found == "ortbench tune vad.onnx --ep cpu --shape input:1x576"
        carried_out(found, tmp_path)


# What the scenarios whose output is committed suggest

_NEXT = re.compile(r'(?:Next: |"next": ")`?((?:[^"`\\\n]|\\.)+)')


@pytest.mark.wide
@pytest.mark.parametrize("name", sorted(GOLDEN.keys() - FAILING))
def test_of_each_golden_scenario(name: str, clock: Clock, tmp_path: Path) -> None:
    place = tmp_path / "place"
    seen = Install(Path(sys.executable), clock_library(), device_library()).carry_out(GOLDEN[name], place)
    text = re.sub(r" \\\n +", " ", "\n".join(seen.values()))
    texts = dict.fromkeys(found[1].replace('\\"', '"') for found in _NEXT.finditer(text))
    commands = [
        re.sub(r"\S*/librefdevice\S*\.so", str(device_library()), it) for it in texts if it.startswith("ortbench ")
    ]
    for it in commands:
        clock.restart()
        carried_out(it, place)
    assert bool(commands) == (name not in WITHOUT_COMMANDS)


# Each of the models here, in the main commands

KINDS: dict[str, tuple[object, ...]] = {
    "run": ("run", *SOME), "inspect": ("inspect",), "start": ("start", "--iterations", 1), "soak": ("soak", "--iterations", 9),
    "load": ("load", "--concurrency", "1", "--duration", "0.05"), "file": ("run", *SOME),
}  # fmt: skip
# One function names the EP for all, so that few are enough on a device, where they take long.
MATRIX = [
    *((kind, "cpu", name) for name in MODEL_NAMES for kind in KINDS),
    *(("run", "device", name) for name in ("tiny", "multi_output", "transformer_ids")),
]


@pytest.mark.wide
@pytest.mark.parametrize(("kind", "ep", "name"), MATRIX)
def test_of_each_model(kind: str, ep: str, name: str, tmp_path: Path, real_library: Path) -> None:
    (tmp_path / f"{name}.onnx").symlink_to(MODELS / f"{name}.onnx")
    what, *more = KINDS[kind]
    if kind == "file":
        more += ["--input", MODELS / f"{name}.inputs.npz"]
    on = ("--ep", "cpu") if ep == "cpu" else ("--ep-library", real_library)
    if what == "inspect":
        all_run(tmp_path, what, f"{name}.onnx", *on, least=0)
    else:
        (path,) = measured(tmp_path, what, f"{name}.onnx", *on, *more)
        carried_out_all(load(path), tmp_path)


LOOPS = {
    "recurrent_cell": ("--feedback", "hidden_out=hidden"), "decoder": (), "denoiser": ("--feedback", "denoised=latent"),
    "decoder_shared": ("--feedback", "present.*=past_key_values.*", "--fill", "position_ids=step"),
}  # fmt: skip
