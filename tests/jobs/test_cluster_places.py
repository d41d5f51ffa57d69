"""Which machine of a cluster a case goes to, what travels there and what becomes of it: with a scripted cluster, without Ray."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import onnx
import pytest

from ortbench.core.errors import BenchmarkFailed
from ortbench.jobs.cluster import machine
from ortbench.jobs.cluster.dispatch import Dispatch
from ortbench.jobs.cluster.machines import (
    Amounts,
    Done,
    Joining,
    Order,
    Place,
    TaskLost,
    Unusable,
    Work,
    able,
    free,
    moved,
    parcel_of,
    paths_of,
    place_of,
    why_none,
)
from ortbench.suite.cases import read
from ortbench.suite.job import jobs_of
from ortbench.suite.layers import Demand
from ortbench.suite.record import SKIPPED, Record
from tests.conftest import MODELS, ortbench, ortbench_here

CPU_NODE = Place("1", "cpus", "10.0.0.1", {"CPU": 8, "memory": 1e9, "node:10.0.0.1": 1})
GPU_NODE = Place("2", "cards", "10.0.0.2", {"CPU": 4, "GPU": 2, "H100": 2, "accelerator_type:H100": 1})
HEAD = Place("3", "head", "10.0.0.3", {"node:10.0.0.3": 1})
ALL = [CPU_NODE, GPU_NODE, HEAD]


def test_a_case_without_cards_takes_all_cpus_of_a_machine() -> None:
    assert CPU_NODE.takes(Demand()) == {"CPU": 8}
    assert GPU_NODE.takes(Demand(1, {"H100": 1})) == {"CPU": 1, "GPU": 1, "H100": 1}
    assert able(Demand(), ALL) == [CPU_NODE, GPU_NODE]
    assert able(Demand(1), ALL) == [GPU_NODE]
    assert able(Demand(3), ALL) == []
    assert able(Demand(pythons=frozenset({"/old"})), ALL) == []


def test_why_no_machine_can_take_a_case() -> None:
    assert why_none(Demand(3), ALL) == (
        "no machine of the cluster has 3 GPUs; cpus: 8 CPU; cards: 4 CPU, 2 GPU, 2 H100, 1 accelerator_type:H100"
    )
    assert why_none(Demand(), [HEAD]) == "no machine of the cluster has a CPU; none has a CPU for cases"


def test_no_two_cases_are_on_a_card_and_none_is_beside_one_on_a_cpu() -> None:
    cards = Demand(1, {"H100": 1})
    one, whole = ({place.id: [takes(place, demand)]} for place, demand in ((GPU_NODE, cards), (CPU_NODE, Demand())))
    assert free(cards, ALL, {}, []) is free(cards, ALL, one, []) is GPU_NODE
    both = {GPU_NODE.id: one[GPU_NODE.id] * 2}
    assert free(cards, ALL, both, []) is None
    assert free(Demand(), ALL, both, []) is CPU_NODE
    assert free(Demand(), ALL, both | whole, []) is None  # it would be beside the cases on cards
    assert free(Demand(), ALL, whole, []) is GPU_NODE
    all_of_it = {GPU_NODE.id: [takes(GPU_NODE, Demand())]}
    assert free(cards, ALL, all_of_it | whole, []) is None
    assert free(Demand(), ALL, all_of_it, []) is CPU_NODE


def takes(place: Place, demand: Demand) -> Amounts:
    found = place.takes(demand)
    assert found is not None
    return found


def test_a_case_that_was_lost_goes_back_only_where_no_other_machine_can_take_it() -> None:
    one = {GPU_NODE.id: [takes(GPU_NODE, Demand(1))]}
    assert free(Demand(), ALL, {}, ["1"]) is GPU_NODE
    assert free(Demand(), ALL, one, ["1"]) is None  # it waits
    assert free(Demand(1), ALL, one, ["2"]) is GPU_NODE


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "gpu7 has no ortbench, and here is 2.0: install the same on every machine"),
        ("1.9", "gpu7 has ortbench 1.9, and here is 2.0: install the same on every machine"),
    ],
)
def test_every_machine_has_the_same_ortbench(version: str | None, message: str) -> None:
    node = {"NodeID": "9", "NodeName": "10.0.0.9", "NodeManagerAddress": "10.0.0.9", "NodeManagerHostname": "gpu7"}
    with pytest.raises(Unusable, match=f"^{message}$"):
        place_of({**node, "Resources": {"CPU": 1.0}}, {"version": version}, "2.0")
    facts = {"version": "2.0", "packages": ["onnxruntime 1.31.1"], "pythons": {}}
    found = place_of({**node, "NodeName": "mine", "Resources": {"CPU": 1.0}}, facts, "2.0")
    assert (found.name, found.address, found.packages) == ("mine", "10.0.0.9", ["onnxruntime 1.31.1"])


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


def works(folder: Path, *more: str) -> list[Work]:
    found = jobs_of(read(suite_file(folder, *more), {}), ("ortbench", "suite"), elsewhere=True)
    return [Work(job, Record(job.case.id, "", "", "", "", SKIPPED)) for job in found]


def test_the_parcels_of_a_job_are_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "input_0.pb").write_bytes(b"x")
    (tmp_path / "libep.so").write_bytes(b"y")
    named = ("input = 'data'", "ep-library = 'libep.so'", "python = 'envs/old'", "gate = {baseline = 'data'}")
    (work,) = works(tmp_path, *named)
    paths = paths_of(work.job, "/nowhere")  # of this suite they are whole
    parcels = {Path(path).name: parcel_of(path, "/nowhere") for path in paths}
    names = {name: [*it.sources] for name, it in parcels.items()}
    assert names == {"big.onnx": ["big.onnx", "sub.bin"], "libep.so": ["libep.so"], "data": ["data/input_0.pb"]}

    places = {it.path: it.place(Path("/there")) for it in parcels.values()}
    there = moved(work.job, lambda path: places.get(path, f"not sent: {path}"), lambda python: f"{python} there")
    (plan,) = there.plans
    assert plan.model == f"/there/{parcels['big.onnx'].id}/big.onnx"
    assert plan.called == str(tmp_path / "big.onnx")  # what the result has
    assert plan.inputs.path == f"/there/{parcels['data'].id}/data"
    assert plan.target.library == f"/there/{parcels['libep.so'].id}/libep.so"
    assert plan.target.python == f"{tmp_path / 'envs/old'} there"
    assert str(there.baseline) == f"not sent: {tmp_path / 'data' / work.id}"  # the earlier suite lacks this case


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
    assert [*parcel_of("m/m.onnx", str(tmp_path)).sources] == ["m.onnx", *beside]


def test_a_parcel_is_known_by_its_content_and_unpacked_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text("alike")
    one, two = (parcel_of(f"{name}/a.txt", str(tmp_path)) for name in ("one", "two"))
    assert one.id == two.id
    for it in (one, two):
        it.parts = {"a.txt": [b"al", b"ike"]}
    fetched: list[bytes] = []

    def fetch(part: bytes) -> bytes:
        fetched.append(part)
        return part

    for it in (one, two):
        machine._unpack(it, tmp_path / "files", fetch)
        assert Path(it.place(tmp_path / "files")).read_text() == "alike"
    assert fetched == [b"al", b"ike"]
    assert [path.name for path in (tmp_path / "files").iterdir()] == [one.id]


def test_what_is_on_a_machine(tmp_path: Path) -> None:
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "onnxruntime-1.30.0.dist-info"
    site.mkdir(parents=True)
    (tmp_path / "env" / "bin").mkdir()
    (tmp_path / "env" / "bin" / "python").symlink_to("/bin/sh")
    found = machine.facts(str(tmp_path), ["env", "nowhere"])
    assert found["pythons"] == {"env": ["onnxruntime 1.30.0"]}
    assert any(package.startswith("numpy ") for package in found["packages"])


def test_a_result_names_the_card_that_it_was_given(tmp_path: Path) -> None:
    (work,) = works(tmp_path, "resources = {H100 = 1}")
    order = Order(work, (), "s", GPU_NODE, JOINING)
    gpus = [{"name": "NVIDIA A", "driver": "580.1"}, {"name": "NVIDIA B", "driver": "580.1"}]
    node = machine._node(order, ["1"], cast(Any, gpus))
    where = {"name": "cards", "address": "10.0.0.2", "resources": {"H100": 1}}
    assert node == {**where, "card": "NVIDIA B", "driver": "580.1"}
    for given in ([], ["5"], ["GPU-8f"]):  # none, one that NVML does not list, one by another kind of name
        assert machine._node(order, given, cast(Any, gpus)) == {**where, "card": None, "driver": None}


JOINING = Joining("auto", "/base", None, ())
NOTHING = Done({}, [])


class Script:
    """A cluster whose tasks end at once, one at a time, as a script says.

    Args:
        looks: what each look at the cluster finds: the machines that are there.
        outcomes: what comes of each task, in turn.
    """

    def __init__(self, looks: Iterable[list[Place | Unusable]], outcomes: Iterable[Exception | None] = ()) -> None:
        self._looks, self._outcomes = iter(looks), iter(outcomes)
        self._found: dict[str, Place | Unusable] = {}
        self.started: list[tuple[str, str, Amounts]] = []
        self.put_in: list[str] = []
        self.left: list[str] = []

    def machines(self) -> dict[str, Any]:
        self._found = {it.id if isinstance(it, Place) else str(it): it for it in next(self._looks)}
        return dict.fromkeys(self._found)

    def look_at(self, machines: dict[str, Any], joining: Joining) -> dict[str, Place | Unusable]:
        return {it: self._found[it] for it in machines}

    def put(self, path: str) -> list[str]:
        self.put_in.append(Path(path).name)
        return [path]

    def start(self, order: Order, taken: Amounts) -> int:
        assert all(parcel.parts[name] for parcel in order.parcels for name in parcel.sources)
        self.started.append((order.work.id, order.place.name, taken))
        return len(self.started) - 1

    def ended(self, tasks: Iterable[int], wait_s: float) -> list[int]:
        return [next(iter(tasks))]

    def outcome(self, task: int) -> Done:
        what = next(self._outcomes, None)
        if what is not None:
            raise what
        return NOTHING

    def end(self, tasks: Iterable[int], suite: str, machines: list[str]) -> None:
        self.left = machines


def dispatched(script: Script, cases: list[Work]) -> list[Any]:
    """What is told of cases on a scripted cluster."""
    told: list[Any] = []
    dispatch = Dispatch(cast(Any, script), JOINING, lambda *it: told.append(it))
    dispatch.look(strictly=True)
    dispatch.carry_out(cases)
    dispatch.end()
    return told


TWICE = "shapes = [{name = 'one'}, {name = 'two'}]"


def always(places: list[Place | Unusable]) -> Iterator[list[Place | Unusable]]:
    while True:
        yield places


def test_cases_wait_for_room_and_files_are_put_once(tmp_path: Path) -> None:
    script = Script(always([CPU_NODE]))
    told = dispatched(script, works(tmp_path, TWICE))
    names = ("big--cpu--one", "big--cpu--two")
    assert told == [it for name in names for it in (("started", name, "cpus"), ("done", name, NOTHING))]
    assert script.started[0][2] == {"CPU": 8}
    assert sorted(script.put_in) == ["big.onnx", "sub.bin"]
    assert script.left == ["1"]


def test_what_no_machine_can_take_is_said_before_anything_else_ends(tmp_path: Path) -> None:
    text = "shapes = [{name = 'one'}, {name = 'two', num-gpus = 9}]"
    told = dispatched(Script(always([CPU_NODE])), works(tmp_path, text))
    assert [it[0] for it in told] == ["started", "failed", "done"]
    assert told[1] == ("failed", "big--cpu--two", "no machine of the cluster has 9 GPUs; cpus: 8 CPU")


NODE_LOST = TaskLost("NodeDiedError", True)
ON_CPUS, FAILED = ("started", "big--cpu", "cpus"), "no machine of the cluster has a CPU; none has a CPU for cases"


@pytest.mark.parametrize(
    ("places", "outcomes", "told"),
    [
        ([CPU_NODE, GPU_NODE], [NODE_LOST],
         [ON_CPUS, ("lost", "big--cpu", "cpus"), ("started", "big--cpu", "cards"), ("done", "big--cpu", NOTHING)]),
        ([CPU_NODE], [TaskLost("OutOfMemoryError", False)] * 3,
         [*[ON_CPUS, ("lost", "big--cpu", "cpus")] * 2, ON_CPUS,
          ("failed", "big--cpu", "was lost 3 times, last on cpus (OutOfMemoryError)")]),
        ([CPU_NODE], [NODE_LOST], [ON_CPUS, ("lost", "big--cpu", "cpus"), ("failed", "big--cpu", FAILED)]),
        ([CPU_NODE, GPU_NODE], [BenchmarkFailed("its process ended with 1")],
         [ON_CPUS, ("failed", "big--cpu", "on cpus: its process ended with 1")]),
    ],
    ids=["goes to another machine", "again and again", "with the last machine for it", "that fails is not tried again"],
)  # fmt: skip
def test_a_case_that_is_lost(
    places: list[Place | Unusable], outcomes: list[Exception], told: list[Any], tmp_path: Path
) -> None:
    script = Script(always(places), outcomes)
    assert dispatched(script, works(tmp_path)) == told
    if told[-1] == ("done", "big--cpu", NOTHING):
        assert script.left == ["2"]  # Ray still lists the other


def test_a_file_that_is_gone_costs_its_case_alone(tmp_path: Path) -> None:
    cases = works(tmp_path, TWICE)
    script = Script(always([CPU_NODE]))
    with patch.object(script, "put", side_effect=[FileNotFoundError(2, "No such file", "x"), ["a"], ["b"]]):
        told = dispatched(script, cases)
    assert told[0] == ("failed", "big--cpu--one", "FileNotFoundError: [Errno 2] No such file: 'x'")
    assert told[-1] == ("done", "big--cpu--two", NOTHING)


def test_at_first_every_machine_must_do_later_it_is_left_out(tmp_path: Path) -> None:
    bad = Unusable("old has ortbench 1")
    with pytest.raises(Unusable, match="old has ortbench 1"):
        dispatched(Script(always([bad])), [])
    told: list[Any] = []
    script = Script([[CPU_NODE], [CPU_NODE, bad, GPU_NODE], [bad, GPU_NODE]])
    dispatch = Dispatch(cast(Any, script), JOINING, lambda *it: told.append(it))
    for strictly, names in ((True, {"cpus"}), (False, {"cpus", "cards"}), (False, {"cards"})):
        dispatch.look(strictly)
        assert {place.name for place in dispatch.places.values()} == names
    assert told == [("remark", "old has ortbench 1; it gets no cases")]  # once
