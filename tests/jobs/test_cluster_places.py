"""What a case takes of a machine of a cluster, and what travels there."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import onnx
import pytest

from ortbench.features.suite.job.cases import read
from ortbench.features.suite.job.jobs import files_at, jobs_of, with_files
from ortbench.plan.toml_file import Demand
from tests.conftest import MODELS, ortbench_here

pytestmark = pytest.mark.pure


def test_a_case_without_cards_takes_all_cpus_of_a_machine() -> None:
    cpus = {"CPU": 8, "memory": 1e9, "node:10.0.0.1": 1}
    cards = {"CPU": 4, "GPU": 2, "H100": 2, "accelerator_type:H100": 1}
    amounts_for = pytest.importorskip("ortbench.features.cluster.job.tasks", exc_type=ImportError).amounts_for
    assert amounts_for(Demand(), [cpus]) == {"CPU": 8}
    assert amounts_for(Demand(), [cards]) == {"CPU": 4}
    assert amounts_for(Demand(), [cards, cpus]) == {"CPU": 8}  # with fewer it could be beside another case
    assert amounts_for(Demand(0, {"H100": 1}), [cards, cpus]) == {"CPU": 4, "H100": 1}
    assert amounts_for(Demand(1, {"H100": 1}), [cards, cpus]) == {"CPU": 1, "GPU": 1, "H100": 1}
    assert amounts_for(Demand(3), [cards, cpus]) is None
    assert amounts_for(Demand(), []) is None


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


def outside(name: str) -> onnx.TensorProto:
    """A tensor whose data lie in another file."""
    tensor = onnx.TensorProto(name="x", data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=name)
    return tensor


def test_what_a_model_has_elsewhere_goes_with_it(tmp_path: Path) -> None:
    make_node, make_graph = onnx.helper.make_node, onnx.helper.make_graph
    inner, function = (make_node("Constant", [], ["c"], value=outside(name)) for name in ("branch", "function"))
    nodes = [
        make_node("If", ["x"], ["y"], then_branch=make_graph([inner], "branch", [], [])),
        make_node("EPContext", [], [], ep_cache_context="compiled"),
        make_node("EPContext", [], [], ep_cache_context=b"\xff\xfe"),
    ]
    graph = make_graph(nodes, "g", [], [], [outside(name) for name in ("weights", "../elsewhere", "not there")])
    graph.sparse_initializer.add(values=outside("values"), indices=outside("indices"))
    model = onnx.helper.make_model(graph, functions=[onnx.FunctionProto(name="f", node=[function])])
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    beside = ["branch", "compiled", "function", "indices", "values", "weights"]
    for path in (*(folder / name for name in beside), folder / "nothing of it", tmp_path / "elsewhere"):
        path.touch()
    assert [*files_at(folder / "m.onnx")] == sorted(["m.onnx", *beside])
