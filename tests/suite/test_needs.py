"""What a suite's file says a case needs of a machine, and what follows from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ortbench.features.suite.job.jobs import fingerprint, jobs_of
from ortbench.features.suite.job.record import write_record
from ortbench.features.suite.job.runs import find_record
from ortbench.model.schema import Node
from ortbench.plan.toml_file import Demand
from tests.suite.test_suite import jobs, mistake, suite

NODE: Node = {"name": "a", "address": "10.0.0.1", "card": None, "driver": None, "resources": {}}


def test_eps_that_run_on_given_cards_need_one(tmp_path: Path) -> None:
    eps = ["cpu", "cuda", "tensorrt", "TensorrtExecutionProvider", "nv-tensorrt-rtx", "migraphx", "webgpu", "auto"]
    found = jobs(tmp_path, f"[[bench]]\nmodel = 'a.onnx'\nep = {eps}")
    assert {name.partition("--")[2]: job.demand.gpus for name, job in found.items()} == {
        **dict.fromkeys(eps, 0), **dict.fromkeys(eps[1:6], 1)
    }  # fmt: skip
    stage = '[[stage]]\nname = "{0}"\nmodel = "a.onnx"\nep = "{0}"\n'
    (tmp_path / "chain.toml").write_text(stage.format("cpu") + stage.format("cuda"))
    text = """
        [[bench]]
        chain = "chain.toml"
        [[bench]]
        model = "a.onnx"
        ep = "cpu"
        gate = {baseline-set.ep = "cuda"}
    """
    assert [job.demand.gpus for job in jobs(tmp_path, text).values()] == [1, 1]


def test_what_is_said_grows_and_is_taken_back_as_all_options_are(tmp_path: Path) -> None:
    text = """
        [defaults]
        ep = {name = "h100", ep = "cuda", resources = {H100 = 1}}
        resources = {fast-disk = 0.5}
        [[bench]]
        model = "a.onnx"
        shapes = [{name = "one"}, {name = "two", num-gpus = 2}, {name = "none", resources = false}]
    """
    found = {name: (job.demand.gpus, job.demand.resources) for name, job in jobs(tmp_path, text).items()}
    both = {"fast-disk": 0.5, "H100": 1}
    assert found == {"a--h100--one": (1, both), "a--h100--two": (2, both), "a--h100--none": (1, {})}


def test_a_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    for line, message in [
        ("resources = {H100 = 0}", "bench[0].resources.H100: H100=0: write how much of it, such as H100=1"),
        ("resources = {CPU = 2}", "bench[0].resources: CPU: a case has all CPUs of its machine, or one CPU beside its GPUs; leave it out"),
        ("resources = {GPU = 1}", "bench[0].resources: GPU: that is num-gpus; leave it out"),
        ("num-gpus = -1", "bench[0].num-gpus: -1: cannot be negative"),
    ]:  # fmt: skip
        assert mistake(tmp_path, f"[[bench]]\nmodel = 'a.onnx'\n{line}") == f"bench.toml:3: {message}"


def test_an_interpreter_is_the_machines_own(tmp_path: Path) -> None:
    text = "[[bench]]\nmodel = 'a.onnx'\nep = 'cpu'\npython = '/opt/elsewhere'"
    assert "no such interpreter" in mistake(tmp_path, text)
    (job,) = jobs_of(suite(tmp_path, text), (), True)
    assert job.plans[0].target.python == "/opt/elsewhere"
    assert (str(Demand()), str(Demand(2))) == ("a CPU", "2 GPUs")
    assert str(Demand(1, {"H100": 1, "disk": 0.5})) == "a GPU, 1 H100, 0.5 disk"


def test_what_a_case_depends_on_of_machines(tmp_path: Path) -> None:
    text = "[[bench]]\nmodel = 'a.onnx'\nep = {name = 'x', ep = 'cpu', resources = {H100 = 1}}\n"
    (job,) = jobs(tmp_path, text).values()
    (elsewhere,) = jobs(tmp_path, text.replace("H100", "A100").replace("'x'", "'y'")).values()
    (plain,) = jobs(tmp_path, text.replace(", resources = {H100 = 1}", "")).values()
    assert fingerprint(job) == fingerprint(elsewhere) == fingerprint(plain)  # cases are compared across GPUs
    # Where there is a cluster to give it, a case that is done is one with the same GPU.
    record, _ = find_record(job, tmp_path / "done", fresh=False)
    write_record(replace(record, outcome="measured", node={**NODE, "resources": {"H100": 1}}), tmp_path / "done")
    found = [find_record(it, tmp_path / "done", False, on) for it in (job, elsewhere) for on in (True, False)]
    assert [was_done for _, was_done in found] == [True, None, None, None]
