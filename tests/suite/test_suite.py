"""Suite files: the cases they make, and what is said of their mistakes. Nothing is measured here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from ortbench.core import parts
from ortbench.core.errors import BadInput
from ortbench.facts.sentences import PASSED, Check
from ortbench.features.suite.job import jobs as marks
from ortbench.features.suite.job.cases import Suite, parse_shard, read, shard
from ortbench.features.suite.job.jobs import Job, fingerprint, jobs_of
from ortbench.features.suite.job.record import Record, exit_code, record_from
from ortbench.features.suite.report import build, case_table, csv
from ortbench.model.metric_names import parse_metric
from ortbench.model.modes import USUAL_MODES
from ortbench.report.records import markdown
from tests.conftest import MODELS
from tests.expect import refusal

BENCH = '[[bench]]\nmodel = "a.onnx"\n'


def write(folder: Path, text: str) -> Path:
    """A suite file beside two models, or what passes for them as long as nobody loads them."""
    for name in ("a.onnx", "b.onnx"):
        (folder / name).write_text(name)
    path = folder / "bench.toml"
    path.write_text(text)
    return path


def suite(folder: Path, text: str, **environ: str) -> Suite:
    return read(write(folder, text), environ)


def jobs(folder: Path, text: str, **environ: str) -> dict[str, Job]:
    return {job.case.id: job for job in jobs_of(suite(folder, text, **environ), ("ortbench", "suite"))}


def ids(folder: Path, text: str) -> list[str]:
    return [case.id for case in suite(folder, text).cases]


def mistake(folder: Path, text: str, **environ: str) -> str:
    message = refusal(BadInput, jobs, folder, text, **environ)
    assert "\n" not in message
    return message.replace(f"{folder}/", "")


def test_a_bench_is_the_product_of_its_models_eps_and_shapes(tmp_path: Path) -> None:
    text = """
        [[bench]]
        model = "*.onnx"
        ep = ["cpu", "webgpu"]
        shapes = [{dim = {batch = 1}}, {dim = {batch = 8, sequence = 64}}, {shape = {x = [1, 3]}}, {name = "big", dim = {n = 9}}]
    """
    shapes = ["batch-1", "batch-8-sequence-64", "x-1x3", "big"]
    assert ids(tmp_path, text) == [f"{m}--{ep}--{s}" for m in "ab" for ep in ("cpu", "webgpu") for s in shapes]


def test_a_bench_needs_no_more_than_a_model(tmp_path: Path) -> None:
    found = suite(tmp_path, BENCH)
    assert (found.name, [case.id for case in found.cases]) == ("bench", ["a--auto"])
    job = jobs(tmp_path, BENCH)["a--auto"]
    (plan,) = job.plans
    assert (plan.target.ep, plan.modes, plan.loop.duration_s, plan.loop.precision) == ("auto", USUAL_MODES, 5.0, 0.01)
    assert not job.limits.any
    for name in ("bert", "resnet"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.onnx").write_text("")
    names = ["bert-model--auto", "resnet-model--auto", "a--auto"]
    assert ids(tmp_path, '[[bench]]\nmodel = ["*/model.onnx", "a.onnx"]') == names
    text = '[[bench]]\nmodel = ["a.onnx", "gone.onnx"]\n[[override]]\nwhere = {model = "gone"}\nskip = "it has gone"'
    skipped = jobs(tmp_path, text)
    assert (skipped["gone--auto"].case.skip, skipped["gone--auto"].plans) == ("it has gone", ())
    assert skipped["a--auto"].case.skip is None


def test_paths_are_relative_to_the_file_and_a_library_is_an_ep(tmp_path: Path) -> None:
    (tmp_path / "libmine.so").write_text("")
    (tmp_path / "a.npz").write_text("")
    eps = 'ep = ["./libmine.so", {name = "mine", ep = "${LIBRARY}"}]\n'
    text = f'{BENCH}{eps}input = "{{model}}.npz"\nexpect = "{{folder}}/a.npz"'
    found = jobs(tmp_path, text, LIBRARY=str(tmp_path / "libmine.so"))
    assert list(found) == ["a--libmine", "a--mine"]
    for job in found.values():
        (plan,) = job.plans
        assert plan.model == str(tmp_path / "a.onnx")
        assert Path(plan.target.library or "") == tmp_path / "libmine.so"
        assert (plan.inputs.path, plan.inputs.expect) == (str(tmp_path / "a.npz"),) * 2


def test_later_layers_win_tables_grow_and_false_takes_back(tmp_path: Path) -> None:
    text = """
        [defaults]
        ep = {ep = "cpu", intra-op-threads = 2, session-config = {c = "ep"}}
        intra-op-threads = 1
        seed = 1
        rtol = 0.5
        mode = ["cpu-tensors", "device-tensors"]
        session-config = {a = "default", b = "default", c = "default"}
        [[bench]]
        model = ["a.onnx", "b.onnx"]
        seed = 2
        mode = "device-tensors"
        session-config = {b = "bench"}
        shapes = [{name = "s", seed = 3}]
        [[override]]
        where = {model = "b", ep = "c*", shape = ["x", "s"]}
        seed = 4
        rtol = false
        [[override]]
        where = {model = "[bc]"}
        seed = 5
    """
    found = jobs(tmp_path, text)
    a, b = (found[f"{name}--cpu--s"].plans[0] for name in "ab")
    assert (a.target.intra_op_threads, a.inputs.seed, a.inputs.rtol, a.modes) == (2, 3, 0.5, ("device-tensors",))
    assert a.target.session_config == {"a": "default", "b": "bench", "c": "ep"}
    assert (b.inputs.seed, b.inputs.rtol) == (5, None)


def test_iterations_and_a_time_replace_each_other(tmp_path: Path) -> None:
    for more, loop in (
        ("", (3, 5.0, 0.01)),
        ("duration = 2", (None, 2.0, 0.01)),
        ('precision = "2%"\nduration = 9\nshapes = [{name = "s", iterations = 4}]', (4, 5.0, 0.01)),
    ):
        (job,) = jobs(tmp_path, f"[defaults]\niterations = 3\n{BENCH}{more}").values()
        found = job.plans[0].loop
        assert (found.iterations, found.duration_s, found.precision) == loop


def test_a_gate_becomes_limits(tmp_path: Path) -> None:
    gate = 'mode = "cpu-tensors"\n[bench.gate]\nmin-speedup = {device-tensors = 1.5}'
    job = jobs(tmp_path, BENCH + gate)["a--auto"]
    assert job.plans[0].modes == USUAL_MODES[:2]  # a limit's modes are measured whatever else is
    (tmp_path / "old").mkdir()
    gate = 'baseline = "old"\nmetric = ["device-tensors.latency", "p95"]\nforce = true'
    job = jobs(tmp_path, f"{BENCH}iterations = 3\n[bench.gate]\n{gate}")["a--auto"]
    assert job.baseline == tmp_path / "old" / "a--auto"
    assert (job.limits.max_regression, job.force, len(job.plans)) == (0.05, True, 1)
    assert job.limits.metrics == (parse_metric("device-tensors.latency.median"), parse_metric("latency.p95"))


def test_a_live_gate_of_inferences_is_explained_as_its_table_says(tmp_path: Path) -> None:
    def why(text: str, default: str = "", more: str = "") -> list[bool | None]:
        gate = f"[bench.gate]\nbaseline-set.ep = 'cpu'\nmax-cpu-nodes = 0\n{text}"
        return [it.why for it in jobs(tmp_path, f"{default}\n{BENCH}{more}\n{gate}").values()]

    default = "[defaults.gate]\nwhy = true"
    assert [why(""), why("why = true"), why("why = false"), why("", default)] == [[None], [True], [False], [True]]
    assert why("", default, "concurrency = 2\nmode = 'cpu-tensors'") == [None]


def test_a_live_gate_has_a_plan_for_each_side(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.onnx").write_text("")
    text = """
        [defaults]
        ep = "cpu"
        ep-option = {x = "1"}
        gate = {max-regression = "3%", baseline-model = "old/{model}.onnx", baseline-set.ep-option = {}}
        [[bench]]
        model = "a.onnx"
        [[bench]]
        model = "b.onnx"
        gate = false
    """
    found = jobs(tmp_path, text)
    candidate, baseline = found["a--cpu"].plans
    assert (candidate.model, baseline.model) == (str(tmp_path / "a.onnx"), str(tmp_path / "old" / "a.onnx"))
    assert (candidate.target.options, baseline.target.options) == ({"x": "1"}, {})
    assert found["a--cpu"].limits.max_regression == 0.03
    assert (candidate.loop.duration_s, candidate.loop.precision, candidate.loop.phases) == (30.0, None, ("latency",))
    assert (len(found["b--cpu"].plans), found["b--cpu"].limits.any) == (1, False)


# Mistakes

MISTAKES = [
    ("[[bench]]\nmodel = \n", "bench.toml:2: Invalid value"),
    ("", "bench.toml:1: bench: there is nothing to run: give at least one [[bench]] with a model"),
    ("[[bench]]\nep = 'cpu'", "bench.toml:1: bench[0].model: is missing: name a model"),
    (BENCH + "max_regression = '5%'", "bench.toml:3: bench[0].max_regression: no such key; did you mean gate.max-regression?"),
    (BENCH + "[bench.gate]\n\nmax-regresion = '5%'", "bench.toml:5: bench[0].gate.max-regresion: no such key; did you mean max-regression?"),
    (BENCH + "ep = [\n 'cpu',\n {name = 'x'},\n]", "bench.toml:3: bench[0].ep[1].ep: must be text"),
    (BENCH + "[[override]]\nseed = 3\nwhere = {model = 'c'}", "bench.toml:5: override[0].where: fits no case"),
    (BENCH + "[[bench]]\nmodel = '*.onnx'", "bench.toml:3: bench[1]: a--auto is there already, from bench[0]; give its ep or shape another name"),
    ("[defaults]\n\n# how long\nduration = 'five s'\n" + BENCH, "bench.toml:4: defaults.duration: 'five s': write it as 60s, 5min or 2h"),
    (BENCH + "duration = 1\niterations = 3", "bench.toml:4: bench[0].iterations: fixes how much is measured: leave duration"),
    ("[[bench]]\nmodel = 'gone.onnx'", "bench.toml:2: bench[0].model: no such file: gone.onnx"),
    (BENCH + "input = '{model}.npz'", "bench.toml:3: bench[0].input: no such file or folder: a.npz"),
    (BENCH + "ep = ['cpu', '${HERE}/x.so', '${NOWHERE}']", "bench.toml:3: bench[0].ep[2]: the environment variable NOWHERE is not set"),
    (BENCH + "[bench.gate]\nmax-cpu-nodes = 0\nwhy = true", "bench.toml:5: bench[0].gate.why: explains single inferences beside a live baseline"),
    (BENCH + "[bench.gate]\nbaseline-set.ep = 'cpu'\nbaseline = '.'", "bench.toml:5: bench[0].gate.baseline: a live gate measures its baseline itself"),
    ("[defaults]\niterations = 3\n" + BENCH + "[bench.gate]\nbaseline-set.ep = 'cpu'", "bench.toml:2: defaults.iterations: a live gate measures until its verdict is clear: leave it out, or write iterations = false"),
]  # fmt: skip


def test_a_mistake_gets_its_line_and_its_key(tmp_path: Path) -> None:
    for text, message in MISTAKES:
        found = mistake(tmp_path, text, HERE=str(tmp_path))
        assert found.startswith(message), found


def test_the_line_is_right_after_values_of_many_lines(tmp_path: Path) -> None:
    text = '''# a suite
[defaults]
session-config = { a = """
[[bench]]
model = 3
""" }
mode = [
    "cpu-tensors",  # the one
    # and
    "device-tensors",
]

    # what is wrong
    rtol = [
    1]
'''
    for written in (text, text.replace("\n", "\r\n")):
        assert mistake(tmp_path, written).startswith("bench.toml:14: defaults.rtol: must be a number")


def test_a_pattern_finds_a_file_once_wherever_links_lead(tmp_path: Path) -> None:
    inner = tmp_path / "models" / "a[1]" / "b"
    inner.mkdir(parents=True)
    (inner / "again").symlink_to(tmp_path / "models")
    (tmp_path / "models" / "twice").symlink_to(inner)
    (tmp_path / "models" / ".hidden").mkdir()
    for folder in (inner, inner.parent, tmp_path / "models" / ".hidden"):
        (folder / "it.onnx").touch()
    found = suite(tmp_path, "[[bench]]\nmodel = 'models/**/*.onnx'").cases
    assert [str(Path(it.model).relative_to(tmp_path / "models")) for it in found] == ["a[1]/b/it.onnx", "a[1]/it.onnx"]


def test_files_that_are_no_suite(tmp_path: Path) -> None:
    for content, said in (
        (b"a." * 100_000 + b"b = 1\n", "s.toml has a key of more than 100 parts"),
        (b"a." * 90 + b'b = "' + b"w" * 100_000 + b'"\n', "s.toml:1: a: no such key"),
        (b"\xff\xfe", "s.toml is not a TOML file"),
    ):
        (tmp_path / "s.toml").write_bytes(content)
        assert said in refusal(BadInput, read, tmp_path / "s.toml", {})


# Shards


def test_shards_are_disjoint_complete_and_even() -> None:
    names = [f"model{number}--{ep}" for number in range(15) for ep in ("cpu", "cuda")]
    for count in [1, 2, 3, 7, 100]:
        parts = [shard(names, number, count) for number in range(1, count + 1)]
        assert sorted(name for part in parts for name in part) == sorted(names)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert {name.rpartition("--")[2] for name in shard(names, 1, 2)} == {"cpu", "cuda"}
    assert parse_shard("2/4") == (2, 4)
    for text in ("0/2", "3/2", "2", "a/b", "1/2/3", "-1/2", ""):
        with pytest.raises(BadInput, match="write it as i/n"):
            parse_shard(text)


# Fingerprints


def mark(folder: Path, text: str) -> str:
    (job,) = jobs(folder, text).values()
    return fingerprint(job)


def test_a_fingerprint_goes_by_what_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def now(text: str = BENCH + "ep = 'cpu'", folder: Path = tmp_path) -> str:
        marks._content.cache_clear()
        marks._packages.cache_clear()
        return mark(folder, text)

    first = now()
    (tmp_path / "other").mkdir()
    assert now("# a remark\n" + BENCH + "ep = {name = 'other', ep = 'cpu'}\n", tmp_path / "other") == first
    for more in ("seed = 1", "gate = {max-cpu-nodes = 0}"):
        assert now(f"{BENCH}ep = 'cpu'\n{more}") != first
    live = f"{BENCH}[bench.gate]\nbaseline-set.ep = 'cpu'\n"
    assert now(live) != now(f"{live}why = true")
    model = onnx.load(MODELS / "multi_output.onnx")
    onnx.save(model, tmp_path / "c.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    outside = '[[bench]]\nmodel = "c.onnx"\n'
    with_weights = now(outside)
    (tmp_path / "weights").write_text("other weights")
    assert now(outside) != with_weights
    monkeypatch.setattr(marks, "__version__", "99")
    assert now() != first


# The summary


def record(name: str, outcome: str, code: int = 0, reason: str | None = None, **figures: object) -> Record:
    return Record(name, "m", "e", "", "f", outcome, code, reason, **figures)  # type: ignore[arg-type]


RECORDS = [
    record("a--cpu", "measured", cpu_ns=2_000_000, fastest="device-tensors", fastest_ns=1_000_000, speedup=2.004, faster="faster",
           seconds=4.2),
    record("a--gpu", "skipped", 0, "no GPU"),
    record("b--cpu", "cannot tell", 4, "too noisy"),
]  # fmt: skip


def test_the_summary_shows_each_case_and_why_it_did_not_pass() -> None:
    assert case_table(RECORDS).rows[0] == ("a--cpu", "2.00 ms", "device-tensors", "1.00 ms", "2.00×", "measured")
    text = markdown(build("nightly", RECORDS))
    assert text.startswith("# ortbench suite nightly, 3 cases: 1 measured (no gate), 1 cannot tell, 1 skipped")
    assert text.endswith("\n- a--gpu was skipped: no GPU\n- b--cpu has no verdict: too noisy\n")
    assert csv(RECORDS).splitlines()[1] == "a--cpu,m,e,,measured,0,,4.2,2000000,device-tensors,1000000,2.004,"
    said = "a--cpu: measured, device-tensors 2.00× as fast as cpu-tensors, "
    assert (RECORDS[0].line(False), RECORDS[0].line(True)) == (f"{said}took 4.20 s", f"{said}done before")
    for number, code in enumerate(by_weight := [1, 3, 5, 4, 0]):
        assert exit_code([record("x", "", other) for other in reversed(by_weight[number:])]) == code
    assert exit_code([]) == 0


def test_a_stored_case_is_read_and_its_mistakes_are_named() -> None:
    gated = replace(record("a", "passed"), checks=[Check("cpu-tensors latency median", PASSED, "fine")])
    assert record_from(parts.text(gated).encode(), "case.json") == gated
    for key, value, why in (
        ("outcome", "fine", '"fine" is none of the values that are known'),
        ("exit_code", 7, "7 is none of the values that are known"),
        ("seconds", -1, "a number of at least 0 is needed, not -1"),
        ("checks", [{}], ""),
    ):
        content = json.dumps(json.loads(parts.text(gated)) | {key: value}).encode()
        said = refusal(BadInput, record_from, content, "case.json")
        assert said.startswith(f"case.json: {key}")
        assert said.endswith(why)
