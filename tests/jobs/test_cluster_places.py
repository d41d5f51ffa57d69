"""What a case takes of a machine of a cluster, and what travels there."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import onnx
import pytest

from ortbench.features.suite.job.cases import read
from ortbench.features.suite.job.jobs import files_at, jobs_of, with_files
from ortbench.plan.toml_file import Demand
from tests.conftest import MODELS, ortbench, ortbench_here

CPUS = {"CPU": 8, "memory": 1e9, "node:10.0.0.1": 1}
CARDS = {"CPU": 4, "GPU": 2, "H100": 2, "accelerator_type:H100": 1}


def test_a_case_without_cards_takes_all_cpus_of_a_machine() -> None:
    amounts_for = pytest.importorskip("ortbench.features.cluster.job.tasks", exc_type=ImportError).amounts_for
    assert amounts_for(Demand(), [CPUS]) == {"CPU": 8}
    assert amounts_for(Demand(), [CARDS]) == {"CPU": 4}
    assert amounts_for(Demand(), [CARDS, CPUS]) == {"CPU": 8}  # with fewer it could be beside another case
    assert amounts_for(Demand(0, {"H100": 1}), [CARDS, CPUS]) == {"CPU": 4, "H100": 1}
    assert amounts_for(Demand(1, {"H100": 1}), [CARDS, CPUS]) == {"CPU": 1, "GPU": 1, "H100": 1}
    assert amounts_for(Demand(3), [CARDS, CPUS]) is None
    assert amounts_for(Demand(), []) is None


@pytest.mark.process
@pytest.mark.parametrize("address", ["here", "local"])
def test_what_cannot_be_an_address(address: str, tmp_path: Path) -> None:
    ran = ortbench("suite", suite_file(tmp_path), "--ray", address, "--out", tmp_path / "out")
    assert ran.code == 2
    assert ran.error_line.startswith(f"--ray '{address}': write auto or a cluster's address, such as ")
    assert not (tmp_path / "out").exists()


def test_without_ray_the_error_says_what_brings_it(tmp_path: Path) -> None:
    with patch("importlib.util.find_spec", return_value=None):
        ran = ortbench_here("suite", suite_file(tmp_path), "--ray", "auto", "--out", tmp_path / "out")
    assert (ran.code, ran.error_line) == (2, "--ray: Ray is not installed; pip install 'ortbench[ray]' brings it")


def suite_file(folder: Path, *more: str) -> Path:
    model = onnx.load(MODELS / "multi_output.onnx")
    onnx.save(model, folder / "big.onnx", save_as_external_data=True, location="sub.bin", size_threshold=0)
    (folder / "bench.toml").write_text("\n".join(["[[bench]]", "model = 'big.onnx'", "ep = 'cpu'", *more]))
    return folder / "bench.toml"


def test_what_a_job_names_travels(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "input_0.pb").write_bytes(b"x")
    (tmp_path / "libep.so").write_bytes(b"y")
    named = ("input = 'data'", "ep-library = 'libep.so'", "python = 'envs/old'", "gate = {baseline = 'data'}")
    (job,) = jobs_of(read(suite_file(tmp_path, *named), {}), ("ortbench", "suite"), elsewhere=True)
    files = pytest.importorskip("ortbench.features.cluster.job.tasks", exc_type=ImportError).files_of(job)
    assert {Path(path).name: [*found] for path, found in files.items()} == {
        "big.onnx": ["big.onnx", "sub.bin"], "libep.so": ["libep.so"], "data": ["data/input_0.pb"],
    }  # fmt: skip
    places = {path: f"/there/{Path(path).name}" for path in files}
    there = with_files(job, lambda path: places.get(path, f"not sent: {path}"), lambda python: f"{python} there")
    (plan,) = there.plans
    assert plan.model == "/there/big.onnx"
    assert (plan.inputs.path, plan.target.library) == ("/there/data", "/there/libep.so")
    assert plan.target.python == f"{tmp_path / 'envs/old'} there"
    assert str(there.baseline) == f"not sent: {tmp_path / 'data' / job.case.id}"  # the earlier suite lacks this case


def test_what_a_model_has_elsewhere_goes_with_it(tmp_path: Path) -> None:
    def outside(name: str) -> onnx.TensorProto:
        tensor = onnx.TensorProto(name="x", data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=name)
        return tensor

    def constant(name: str) -> onnx.NodeProto:
        return onnx.helper.make_node("Constant", [], ["c"], value=outside(name))

    branch = onnx.helper.make_graph([constant("branch")], "branch", [], [])
    compiled = onnx.helper.make_node("EPContext", [], [], ep_cache_context="compiled")
    embedded = onnx.helper.make_node("EPContext", [], [], ep_cache_context=b"\xff\xfe")
    nodes = [onnx.helper.make_node("If", ["x"], ["y"], then_branch=branch), compiled, embedded]
    graph = onnx.helper.make_graph(
        nodes, "g", [], [], [outside("weights"), outside("../elsewhere"), outside("not there")]
    )
    graph.sparse_initializer.add(values=outside("values"), indices=outside("indices"))
    model = onnx.helper.make_model(graph, functions=[onnx.FunctionProto(name="f", node=[constant("function")])])
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "m.onnx").write_bytes(model.SerializeToString())
    beside = ["branch", "compiled", "function", "indices", "values", "weights"]
    for place in (*(f"m/{name}" for name in beside), "m/nothing of it", "elsewhere"):
        (tmp_path / place).write_text(place)
    assert [*files_at(tmp_path / "m" / "m.onnx")] == sorted(["m.onnx", *beside])
