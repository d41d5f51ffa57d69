"""Commands to copy: what is kept of a command, what is changed, and that each can be read."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.advice import again, how_to_write, inspection, node_times
from ortbench.cli.options import declared_for
from ortbench.facts.run import facts_of, findings_of
from ortbench.model.result_file import load
from ortbench.model.schema import Tensor
from ortbench.plan.next_command import CarriedOut, next_command
from ortbench.plan.option_types import FLAG, SWITCH
from tests.conftest import ROOT

X: Tensor = {"name": "x", "type": "tensor(float)", "model_shape": ["batch", "n"], "shape": [2, 8], "bytes": 64}
STORED = sorted((ROOT / "reports").rglob("result.json"))[::2]


def after(typed: str, name: str, *changes: str, session: tuple[str, ...] | None = None, **more: Any) -> str:
    """The next command, of one that was typed in a shell."""
    words = [shlex.quote(word) for word in shlex.split(typed)]
    return next_command(CarriedOut(words, "m.onnx", [X], session), name, *changes, **more)


@pytest.mark.parametrize(
    ("typed", "name", "changes", "expected"),
    [
        ("ortbench run m.onnx --dim n=8 --dim batch=2 -q --out o", "run", "--dim batch=4", "ortbench run m.onnx --dim n=8 --dim batch=4"),
        ("ortbench m.onnx --note=a", "run", "--measure-nodes", "ortbench run m.onnx --measure-nodes"),
        ("ortbench run m.onnx --iterations 9", "run", "--duration 4s", "ortbench run m.onnx --duration 4s"),
        ("ortbench run m.onnx --shape x:2x8", "run", "--dim batch=4", "ortbench run m.onnx --dim n=8 --dim batch=4"),
        ("ortbench sweep m.onnx --shape x:1x8,2x8", "sweep", "--dim batch=2,4", ""),
        ("ortbench run m.onnx --input i.npz", "run", "--dim batch=4", ""),
        ("ortbench run m.onnx --input i.npz --expect e.npz --iterations 1 --mode all", "code", "--mode pipelined", "ortbench code m.onnx --mode pipelined --input i.npz"),
        ("ortbench run m.onnx --input folder", "code", "", "ortbench code m.onnx --dim batch=2 --dim n=8"),
        ("ortbench run m.onnx --input i.npz --python p --custom-ops a.so", "inspect", "", "ortbench inspect m.onnx --python p --custom-ops a.so --dim batch=2 --dim n=8"),
        ("ortbench run m.onnx --dim batch=1,2 --dim n=8 --device 1 --ep cuda", "code", "", "ortbench code m.onnx --device 1 --ep cuda --dim batch=2 --dim n=8"),
        ("ortbench sweep m.onnx --shape x:1x8,2x8,4x8", "code", "", "ortbench code m.onnx --shape x:2x8"),
        ("ortbench loop m.onnx --feedback y=x --fill r=9 --fill p=step --steps 4", "run", "--measure-nodes", "ortbench run m.onnx --measure-nodes --range r:9,9"),
        ("ortbench loop m.onnx --feedback y=x --fill r=9 --input i.npz", "code", "--mode shared", "ortbench code m.onnx --mode shared --feedback y=x --fill r=9 --input i.npz"),
        ("tests/software-gpu ortbench run m.onnx --ep webgpu", "code", "", "tests/software-gpu ortbench code m.onnx --ep webgpu"),
        ("ortbench run --no-mem-pattern -- '-a b.onnx'", "run", "", "ortbench run './-a b.onnx' --no-mem-pattern"),
        ("ortbench run m.onnx --input=-i.npz", "loop", "--feedback y=x", "ortbench loop m.onnx --feedback y=x --input=-i.npz"),
        ("ortbench load m.onnx --rate 9 --dim n=3", "code", "", "ortbench code m.onnx --dim n=3"),
        ("ortbench suite s.toml", "load", "--duration 9s", "ortbench load m.onnx --duration 9s --dim batch=2 --dim n=8"),
        ("ortbench suite s.toml", "run", "", "ortbench run m.onnx --dim batch=2 --dim n=8"),
        ("nobody typed that", "run", "", "ortbench run m.onnx --dim batch=2 --dim n=8"),
    ],
)  # fmt: skip
def test_what_is_kept_and_what_is_changed(typed: str, name: str, changes: str, expected: str) -> None:
    assert after(typed, name, *changes.split()) == expected


def test_what_the_result_records_stands_for_lists_of_configurations() -> None:
    typed = (
        "ortbench run m.onnx --ep cpu --ep webgpu --intra-op-threads 1,2,4 --opt-level all,basic --optimized-model o"
    )
    recorded = ("--ep", "webgpu", "--intra-op-threads", "4")
    one = "m.onnx --ep webgpu --intra-op-threads 4"
    assert after(typed, "code", session=recorded) == f"ortbench code {one}"
    assert after(typed, "run", "--timeout", "9", session=recorded).count("--ep ") == 2
    alone = after(typed, "run", "--inter-op-threads", "1,2", session=recorded)  # 24 would be too many
    assert alone == f"ortbench run {one} --inter-op-threads 1,2"


def test_a_file_that_is_not_taken_leaves_its_sizes() -> None:
    shapes: list[tuple[list[Any], list[int], str]] = [
        ([None, None], [1, 576], " --dim 'x[1]=576'"), (["?", "?"], [3, 4], " --shape x:3x4"), (["past + 1", "past"], [4, 3], " --dim past=3"),
        (["past", 4], [0, 4], ""), ([], [], ""),
    ]  # fmt: skip
    for model_shape, shape, expected in shapes:
        tensor: Tensor = {**X, "model_shape": model_shape, "shape": shape}
        done = CarriedOut(["ortbench", "run", "m.onnx", "--input", "i.npz"], "m.onnx", [tensor])
        assert next_command(done, "inspect") == f"ortbench inspect m.onnx{expected}"


def test_options_and_entries_that_it_is_to_be_without() -> None:
    typed = "ortbench run m.onnx --range x:0,1 --range z:0,2 --opt-level basic"
    assert after(typed, "loop", without=["range:x", "opt-level"]) == "ortbench loop m.onnx --range z:0,2"


def read(command: str) -> None:
    """Fail of a command that the command line could not read."""
    words = shlex.split(command)
    assert words[0] == "ortbench"
    options, seen = {it.name: it for it in declared_for(words[1]).values()}, list[str]()
    left = iter(words[2:])
    for word in left:
        if not word.startswith("--"):
            continue
        name, equals, text = word.partition("=")
        option = options.get(name) or options[name.replace("--no-", "--")]
        assert option.kind.repeatable or name not in seen, command
        seen.append(name)
        if option.kind not in (FLAG, SWITCH) and not option.kind.is_path:
            value = option.kind.word(text if equals else next(left))
            option.read([value] if option.kind.repeatable else value)
    if "--feedback" not in seen:
        assert not ("--input" in seen and {"--dim", "--shape", "--range"} & {*seen}), command
    assert not ("--iterations" in seen and {"--duration", "--precision"} & {*seen}), command


@pytest.mark.parametrize("path", STORED, ids=lambda path: str(path.parent.relative_to(ROOT / "reports")))
def test_commands_of_stored_results_can_be_read(path: Path) -> None:
    result = load(path)
    found = [it.next for it in findings_of(facts_of(result)) if it.is_command]
    if result.kind != "bandwidth":
        found += [again(result, "--timeout", "9s"), node_times(result), inspection(result)]
        found += [how_to_write(result, case.mode) for case in result.cases]
    for command in filter(lambda it: it.startswith("ortbench "), found):
        read(command)
