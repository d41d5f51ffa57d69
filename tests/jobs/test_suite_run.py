"""`ortbench suite` and `ortbench suite merge` on real models: what they run, keep, say and end with."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MODEL_NAMES, MODELS, ROOT, Ran, ortbench

QUICK = "iterations = 3\nwarmup = 1\nep = 'cpu'\n"


def suite(text: str, folder: Path, *arguments: object, **environment: str) -> Ran:
    """Run a suite in a folder that has its file and the models, and will have its results."""
    if not (folder / "models").exists():
        (folder / "models").symlink_to(MODELS)
    (folder / "bench.toml").write_text(text)
    return ortbench("suite", "bench.toml", *arguments, cwd=folder, **environment)


def records(place: Path) -> dict[str, dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in place.glob("*/case.json")]
    return {record["id"]: record for record in found}


def outcomes(place: Path) -> dict[str, tuple[str, int]]:
    return {name: (record["outcome"], record["exit_code"]) for name, record in records(place).items()}


def run_ids(place: Path) -> dict[str, int]:
    return {it.parent.name: json.loads(it.read_text())["setup"]["run_id"] for it in place.glob("*/result.json")}


MIXED = f"""
[suite]
name = "mixed"
[defaults]
{QUICK}
[[bench]]
model = "models/tiny.onnx"
input = "models/{{model}}.inputs.npz"
expect = "models/{{model}}.expected.npz"
measure-memory = true
[[bench]]
model = "models/transformer_ids.onnx"
mode = ["cpu-tensors", "device-tensors"]
shapes = [{{dim = {{batch = 1}}}}, {{dim = {{batch = 2, sequence = 4}}, name = "big"}}]
[[bench]]
model = "bench.toml"
[[bench]]
model = "models/multi_output.onnx"
mode = "cpu-tensors"
gate = {{max-host-memory = "1kB"}}
[[bench]]
model = "models/fp16.onnx"
[[override]]
where = {{model = "fp*"}}
skip = "no half precision here"
"""
MIXED_OUTCOMES = {
    "tiny--cpu": ("measured", 0),
    "transformer_ids--cpu--batch-1": ("measured", 0),
    "transformer_ids--cpu--big": ("measured", 0),
    "bench--cpu": ("benchmark failed", 1),
    "multi_output--cpu": ("failed", 3),
    "fp16--cpu": ("skipped", 0),
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A suite with a case of nearly every outcome, run once; tests must leave its folder as it is."""
    folder = tmp_path_factory.mktemp("mixed")
    return folder, suite(MIXED, folder)


def test_one_bad_case_never_stops_the_rest_and_every_case_is_told(mixed: tuple[Path, Ran]) -> None:
    folder, ran = mixed
    assert ran.code == 1
    place = folder / "reports" / "mixed"
    assert outcomes(place) == MIXED_OUTCOMES
    found = records(place)
    assert "is not a model ONNX Runtime can load" in found["bench--cpu"]["reason"]
    assert "host memory" in found["multi_output--cpu"]["reason"]
    assert found["fp16--cpu"]["reason"] == "no half precision here"
    lines = ran.err.splitlines()
    assert lines[3].startswith("[4/6] bench--cpu's benchmark failed (took ")
    assert lines[5:] == ["[6/6] fp16--cpu was skipped: no half precision here"]
    for name, (outcome, _) in MIXED_OUTCOMES.items():
        assert re.search(rf"^{name} .* {outcome}$", ran.out, re.MULTILINE), ran.out
        has_result = (place / name / "result.json").exists()
        assert has_result == (outcome in ("measured", "failed"))
    counts = "3 measured (no gate), 1 failed (by the gate), 1 benchmark failed (an error), 1 skipped"
    assert f"suite mixed, 6 cases: {counts}" in ran.out
    tiny, big = (
        json.loads((place / name / "result.json").read_text()) for name in ("tiny--cpu", "transformer_ids--cpu--big")
    )
    assert [case["memory"]["failed"] for case in tiny["cases"]] == [None] * 4
    assert [case["mode"] for case in big["cases"]] == ["cpu-tensors", "device-tensors"]
    assert big["model"]["inputs"][0]["shape"] == [2, 4]


def test_what_is_done_is_not_run_again(mixed: tuple[Path, Ran], tmp_path: Path) -> None:
    shutil.copytree(mixed[0], tmp_path, dirs_exist_ok=True, symlinks=True)
    place = tmp_path / "reports" / "mixed"
    before = run_ids(place)
    assert len(before) == 4
    ran = suite(MIXED, tmp_path)
    assert (ran.code, run_ids(place), outcomes(place)) == (1, before, MIXED_OUTCOMES)
    assert ran.err.count("done before") == 4  # all but the one that failed and the one that is skipped
    # Another option, another measurement; the others stay.
    ran = suite(MIXED.replace('name = "big"', 'name = "big", seed = 1'), tmp_path, "--quiet")
    assert ran.out == ""
    said = [re.split("[:' ]", line, maxsplit=2)[1] for line in ran.err.splitlines()]
    assert said == ["bench--cpu", "multi_output--cpu"]
    after = run_ids(place)
    assert {name for name in before if after[name] != before[name]} == {"transformer_ids--cpu--big"}
    ran = suite(MIXED, tmp_path, "--only", "tiny*", "--only", "*--batch-1", "--fresh")
    assert (ran.code, len(ran.err.splitlines())) == (0, 2)
    changed = {name for name in before if run_ids(place)[name] != after[name]}
    assert changed == {"tiny--cpu", "transformer_ids--cpu--batch-1"}


def test_what_no_shard_has_is_missing_and_the_next_run_goes_on_from_the_whole(
    mixed: tuple[Path, Ran], tmp_path: Path
) -> None:
    shutil.copytree(mixed[0], tmp_path, dirs_exist_ok=True, symlinks=True)
    shutil.move(tmp_path / "reports" / "mixed", tmp_path / "half")
    shutil.rmtree(tmp_path / "half" / "tiny--cpu")
    ran = ortbench("suite", "merge", "half", "--out", "whole", "--junit", "half.xml", cwd=tmp_path)
    assert (ran.code, ran.error_line) == (1, "1 of 6 cases are missing: tiny--cpu")
    assert outcomes(tmp_path / "whole") == {name: it for name, it in MIXED_OUTCOMES.items() if name != "tiny--cpu"}
    assert "no folder has it" in (tmp_path / "half.xml").read_text()
    assert suite(MIXED, tmp_path, "--out", "whole").err.count("done before") == 3


def test_what_does_not_belong_together_is_not_merged(mixed: tuple[Path, Ran], tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    shutil.copytree(mixed[0] / "reports" / "mixed", one)
    shutil.copytree(one, two)

    def merge(*folders: str) -> Ran:
        return ortbench("suite", "merge", *folders, "--out", "whole", cwd=tmp_path)

    def edit(name: str, old: str, new: str) -> None:
        (two / name).write_text((two / name).read_text().replace(old, new))

    ran = merge("one", "two")
    assert (ran.code, ran.err.count("is in several folders")) == (1, 6)
    assert "tiny--cpu is in several folders: one/tiny--cpu counts, two/tiny--cpu does not" in ran.err
    shutil.rmtree(tmp_path / "whole")
    edit("tiny--cpu/case.json", '"fingerprint": "', '"fingerprint": "0')
    said = "one/tiny--cpu and two/tiny--cpu were not measured on the same thing; merge one of them"
    assert merge("one", "two").error_line == said
    edit("suite.json", '"file_sha256": "', '"file_sha256": "0')
    assert "one and two do not belong together" in merge("one", "two").error_line
    edit("suite.json", "tiny--cpu", "../../elsewhere")
    said = 'two/suite.json: cases[0]: "../../elsewhere" is no name of a case, or of another one too'
    assert merge("two").error_line == said
    (tmp_path / "empty").mkdir()
    assert merge("empty").code == 2
    assert not (tmp_path / "whole").exists()
    ran = ortbench("suite", "merge", "one", "--out", "one", cwd=tmp_path)
    assert "is one of the folders that are merged" in ran.error_line


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious" / "tiny--cpu"
    precious.mkdir(parents=True)
    (precious / "thesis.txt").write_text("")
    text = f"[defaults]\n{QUICK}\n[[bench]]\nmodel = 'models/tiny.onnx'"
    ran = suite(text, tmp_path, "--out", "precious")
    assert (ran.code, ran.error_line) == (2, "precious is not the folder of a suite: it has no suite.json")
    assert (precious / "thesis.txt").exists()
    assert suite(text, tmp_path, "--only", "x*").error_line == "--only 'x*': matches no case; --list shows them"


def test_gates_with_a_baseline(tmp_path: Path) -> None:
    """Stored: matched by case, and what the earlier suite lacks cannot be told. Live: both sides in the case's folder."""
    old = f"[defaults]\n{QUICK}\n[[bench]]\nmodel = 'models/tiny.onnx'\nmode = 'cpu-tensors'"
    assert suite(old, tmp_path, "--out", "old", "-q").code == 0
    text = f"""
        [defaults]
        {QUICK}
        mode = "cpu-tensors"
        [[bench]]
        model = ["models/tiny.onnx", "models/multi_output.onnx"]
        gate = {{baseline = "old"}}
        [[bench]]
        model = "models/recurrent_cell.onnx"
        iterations = false
        duration = 20
        gate = {{baseline-set.session-config = {{"session.intra_op.allow_spinning" = "1"}}, max-regression = "900%"}}
    """
    ran = suite(text, tmp_path)
    assert ran.code == 4, ran.err
    place = tmp_path / "reports" / "bench"
    assert outcomes(place) == {
        "tiny--cpu": ("cannot tell", 4),  # three iterations are one block
        "multi_output--cpu": ("cannot tell", 4),
        "recurrent_cell--cpu": ("passed", 0),
    }
    found = records(place)
    reason = "the baseline has 1 block and a comparison needs 8: measure again without --iterations"
    assert reason in found["tiny--cpu"]["reason"]
    assert "the baseline has no result of this case: old/multi_output--cpu" in found["multi_output--cpu"]["reason"]
    live = place / "recurrent_cell--cpu"
    assert {path.name for path in live.glob("[!.]*")} >= {"baseline", "candidate", "case.json", "gate.json"}
    ran = suite(text, tmp_path)
    assert (ran.code, ran.err.count("done before")) == (4, 3)
    assert "--out old: is the baseline too" in suite(text, tmp_path, "--out", "old").error_line
    stored = tmp_path / "old" / "tiny--cpu" / "result.json"
    stored.write_text(stored.read_text().replace('"sha256": "', '"sha256": "0'))  # of another model
    ran = suite(text, tmp_path, "--only", "tiny*", "--fresh")
    assert (ran.code, outcomes(place)["tiny--cpu"]) == (5, ("not comparable", 5))


EPS = {
    "cpu": MODEL_NAMES,
    # SwiftShader takes seconds for one run of larger ones, and has no float16.
    "webgpu": ["tiny", "cpu_island", "multi_output", "recurrent_cell"],
    "refdevice": ["tiny", "cpu_island", "decoder_shared", "multi_output", "fp16"],
}


@pytest.mark.wide
@pytest.mark.parametrize("ep", EPS)
def test_models_on_the_eps_of_this_machine(
    ep: str, library: Path, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    prefix = request.getfixturevalue("software_gpu") if ep == "webgpu" else ()
    file = ROOT / "tests" / "suites" / "all.toml"
    only = [word for name in EPS[ep] for word in ("--only", f"{name}--{ep}")]
    measure = partial(ortbench, "suite", file, *only, "--out", tmp_path, prefix=prefix, REFDEVICE=str(library))
    ran = measure()
    if ep == "webgpu" and "the device was not done when the synchronization" in ran.err:
        # The device is threads of this CPU: beside other work it can come to need a wait in a case that did without one when it began.
        ran = measure()  # what failed alone
    assert ran.code == 0, ran.err
    assert outcomes(tmp_path) == {f"{name}--{ep}": ("passed", 0) for name in EPS[ep]}
