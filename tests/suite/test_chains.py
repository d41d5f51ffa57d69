"""Chains in suites: their key, what a case is, when it is measured again, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.features.suite.job import jobs as marks
from tests.suite.test_suite import ids, jobs, mark, mistake

CHAIN = '[[stage]]\nname = "text"\nmodel = "a.onnx"\nep = "cpu"\n[[stage]]\nname = "image"\nmodel = "b.onnx"\nep = "webgpu"\n'
BENCH = '[[bench]]\nchain = "two.toml"\n'


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    """Two files of chains of two models; what there was of them is forgotten."""
    for name in ("two", "three"):
        (tmp_path / f"{name}.toml").write_text(CHAIN)
    marks._content.cache_clear()


def test_a_bench_of_chains_is_a_case_for_each(tmp_path: Path) -> None:
    text = '[[bench]]\nchain = "t*.toml"\n[[bench]]\nmodel = "a.onnx"\nep = "cpu"\n'
    assert ids(tmp_path, text) == ["three", "two", "a--cpu"]
    (job,) = jobs(tmp_path, BENCH).values()
    (plan,) = job.plans
    case = job.case
    assert (case.model_name, case.ep, case.shape, case.named_by) == ("two", "cpu and webgpu", "", "chain")
    usual = ("cpu-tensors", "device-resident")
    assert (plan.model, plan.modes, plan.name) == (str(tmp_path / "two.toml"), usual, "two")
    assert [stage.model for stage in plan.stages] == [str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")]


def test_a_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    of_stages = "is not for a chain, whose file says how each stage runs"
    for more, message in [
        ("ep = 'cpu'", "3: bench[0].ep: a chain's file says it of each stage, so leave it out of a bench with chain"),
        ("intra-op-threads = 1", f"3: bench[0].intra-op-threads: {of_stages}"),
        ("mode = 'device-tensors'", "3: bench[0].mode: 'device-tensors': is no mode of a chain"),
        ("gate = {baseline-chain = 'three.toml', metric = 'stage.nope'}", "3: bench[0].gate.metric: stage.nope.median: a chain has chain, stage.text"),
        ("gate = {baseline-chain = 'four.toml'}", "3: bench[0].gate.baseline-chain: cannot read four.toml: No such file or directory"),
        ("[[override]]\nwhere = {chain = 'one'}\nwarmup = 1", "4: override[0].where: fits no case"),
        ("[[override]]\nwhere = {chain = '*'}\nintra-op-threads = 1", f"5: override[0].intra-op-threads: {of_stages}"),
    ]:  # fmt: skip
        assert mistake(tmp_path, BENCH + more).startswith(f"bench.toml:{message}")


def test_mistakes_in_the_chains_file_and_its_variables(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(CHAIN.replace('"b.onnx"', '"c.onnx"'))
    assert mistake(tmp_path, BENCH) == "bench.toml:2: bench[0].chain: two.toml:7: stage[1].model: no such file: c.onnx"
    none = '[[bench]]\nchain = "none*.toml"\n'
    assert mistake(tmp_path, none) == "bench.toml:2: bench[0].chain: 'none*.toml' matches no file"
    (tmp_path / "two.toml").write_text(CHAIN.replace('"webgpu"', '"${AN_EP}"'))
    (job,) = jobs(tmp_path, BENCH, AN_EP="cpu").values()
    assert job.case.ep == "cpu"
    assert "the environment variable AN_EP is not set" in mistake(tmp_path, BENCH)


def test_a_live_gate_has_the_baselines_chain(tmp_path: Path) -> None:
    (tmp_path / "three.toml").write_text(CHAIN.replace('"webgpu"', '"cpu"'))
    more = 'gate = {baseline-chain = "three.toml", metric = "device-resident.stage.text", max-regression = 0.1}\n'
    (job,) = jobs(tmp_path, BENCH + 'mode = "cpu-tensors"\n' + more).values()
    candidate, baseline = job.plans
    assert (candidate.model, baseline.model) == (str(tmp_path / "two.toml"), str(tmp_path / "three.toml"))
    assert candidate.modes == baseline.modes == ("cpu-tensors", "device-resident")
    assert candidate.loop == baseline.loop
    assert candidate.loop.phases == ("latency", "stage.text")
    assert [stage.target.ep for stage in baseline.stages] == ["cpu", "cpu"]
    # As a default a chain is the baseline of chains alone.
    model = '[[bench]]\nmodel = "a.onnx"\nep = "cpu"\n'
    text = f'[defaults]\ngate = {{baseline-chain = "three.toml"}}\n{BENCH}{model}{model}shapes = [{{name = "load", concurrency = 2}}]'
    assert [len(job.plans) for job in jobs(tmp_path, text).values()] == [2, 1, 1]


def test_a_changed_chain_is_measured_again(tmp_path: Path) -> None:
    def now(text: str = CHAIN, bench: str = BENCH) -> str:
        marks._content.cache_clear()
        (tmp_path / "two.toml").write_text(text)
        return mark(tmp_path, bench)

    first = now()
    assert now("# only said otherwise\n" + CHAIN) == first
    link = '[[link]]\nfrom = "text.y"\nto = "image.x"\n'
    variants = [now(CHAIN.replace('"webgpu"', '"cpu"')), now(CHAIN + link), now(bench=BENCH + "seed = 1\n")]
    assert len({first, *variants}) == len(variants) + 1
    marks._content.cache_clear()
    (job,) = jobs(tmp_path, BENCH).values()  # which writes the models anew
    (tmp_path / "b.onnx").write_text("another")
    assert marks.fingerprint(job) != first
