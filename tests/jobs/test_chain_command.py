"""`ortbench chain` on real models: outputs and links on the CPU EP, the reference device with its trace, and WebGPU."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ortbench.core.errors import WrongOutputs
from ortbench.core.processes import DOMAIN
from ortbench.features.chain.toml import plan_of
from ortbench.model.result import Result
from ortbench.model.result_file import load
from tests import nvtx, traceformat
from tests.conftest import MODELS, ONCE, Ran, ortbench
from tests.refdevice import Config, Honesty, Trace
from tests.truth import is_kind

pytestmark = pytest.mark.process

BYTES = 4 * 96  # of each tensor of `MODELS_OF_CHAIN`
MODELS_OF_CHAIN = {
    "first": "(float[1,96] x) => (float[1,96] y) { a = Tanh(x)\n y = Relu(a) }",
    "middle": """(float[1,96] state, float[1,96] bias) => (float[1,96] next, float[1,96] aside) {
        a = Add(state, bias)
        next = Tanh(a)
        aside = Mul(state, bias) }""",
    "last": "(float[1,96] u, float[1,96] v) => (float[1,96] w) { a = Add(u, v)\n w = Sigmoid(a) }",
    "grow": "(float[N,4] past, float[1,4] new) => (float[M,4] present) { present = Concat<axis=0>(past, new) }",
    "after": "(float[M,4] all) => (float[M,4] out) { out = Relu(all) }",
    "other": "(float[N,4] past) => (float[N,4] o) { o = Relu(past) }",
    "ids": "(int64[1,96] i) => (int64[1,96] o) { o = Identity(i) }",
    "gives": "(float[2] x) => (float[2] present_0, float[2] present_1) { present_0 = Relu(x) present_1 = Tanh(x) }",
    "takes": "(float[2] past_1, float[2] past_0) => (float[2] y) { y = Sub(past_0, past_1) }",
}
STAGES = """
    [[stage]]
    name = "first"
    model = "first.onnx"

    [[stage]]
    name = "middle"
    model = "middle.onnx"
    repeat = 3
    feedback = "next=state"

    [[stage]]
    name = "last"
    model = "last.onnx"
    """


def linked(*links: str) -> str:
    """Links as ``first.y > last.v``."""
    pairs = [link.split(" > ") for link in links]
    return "".join(f'\n[[link]]\nfrom = "{source}"\nto = "{to}"\n' for source, to in pairs)


def defaults(ep: object) -> str:
    return f'[defaults]\nep = "{ep}"\n'


BETWEEN = linked("first.y > middle.bias", "first.y > last.v", "middle.next > last.u")
GROWING = """
    [[stage]]
    name = "prefill"
    model = "grow.onnx"
    repeat = 2
    feedback = "present=past"

    [[stage]]
    name = "decode"
    model = "grow.onnx"
    repeat = 3
    feedback = "present=past"

    [[stage]]
    name = "after"
    model = "after.onnx"
    """ + linked("prefill.present > decode.past", "decode.present > after.all")


def write(folder: Path, text: str) -> Path:
    """A chain's file beside the models."""
    for name, graph in MODELS_OF_CHAIN.items():
        model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {name} {graph}')
        onnx.save(model, folder / f"{name}.onnx")
    path = folder / "chain.toml"
    path.write_text(text)
    return path


def saved(out: Path) -> Result:
    (path,) = out.glob("*/result.json")
    return load(path)


def run(folder: Path, text: str, *arguments: object, **environment: Any) -> tuple[Result, Ran]:
    ran = ortbench("chain", write(folder, text), "--out", folder / "out", *arguments, **environment)
    assert (ran.code, ran.err) == (0, "")
    return saved(folder / "out"), ran


def mistake(folder: Path, text: str, *arguments: object) -> str:
    ran = ortbench("chain", write(folder, text), "--out", folder / "out", *ONCE, *arguments)
    assert ran.code == 2, ran.err
    assert not list(folder.glob("out/*/result.json"))
    return ran.error_line.replace(f"{folder}/", "")


def links(result: Result) -> dict[str, Any]:
    return {f"{it['from']} > {it['to']}": it for it in result.part["links"]}


def test_the_example_gives_what_is_expected_of_it(tmp_path: Path) -> None:
    expected = MODELS / "text_to_image.expected.npz"
    chain = tmp_path / "cpu.toml"
    text = (MODELS / "text_to_image.toml").read_text()
    chain.write_text(defaults("cpu") + text.replace('= "text_enc', f'= "{MODELS}/text_enc')
                     .replace('"denoiser.onnx', f'"{MODELS}/denoiser.onnx').replace('"image_d', f'"{MODELS}/image_d'))  # fmt: skip
    ran = ortbench("chain", chain, "--expect", expected, *ONCE, "--out", tmp_path / "out", "--html", tmp_path / "page.html",
                   *(word for option in ("--trace", "--junit", "--action-json") for word in (option, tmp_path / option[2:])),
                   COLUMNS="120")  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    result = saved(tmp_path / "out")
    assert (result.kind, result.setup["expected_outputs"]) == ("chain", True)
    assert [(case.mode, case.status, case.checks["outputs"]["verdict"]) for case in result.cases] == [
        ("cpu-tensors", "ok", "passed"), ("device-resident", "ok", "passed"),
    ]  # fmt: skip
    assert [(it["name"], it["repeat"], it["feedback"]) for it in result.part["stages"]] == [
        ("text", 1, []), ("denoise", 4, [["denoised", "latent"]]), ("image", 1, []),
    ]  # fmt: skip
    assert {name: (it["bytes"], it["stays"], it["why"]) for name, it in links(result).items()} == {
        "text.condition > denoise.condition": (64, True, None), "denoise.denoised > image.latent": (16384, True, None),
    }  # fmt: skip
    for case in result.cases:
        assert case.stages is not None
        assert list(case.stages) == ["text", "denoise", "image"]
        whole, parts = case.samples["latency"], case.samples["stage"]
        assert [sum(parts[at : at + 3]) < ns for at, ns in zip(range(0, len(parts), 3), whole, strict=True)] == [True]
    assert "chain of 3 stages and 2 links: text, denoise ×4, image" in ran.out
    (table,) = (tmp_path / "out").glob("*/table.md")
    assert "| denoise.denoised → image.latent | 16.4 kB | in host memory |" in table.read_text()
    page = (tmp_path / "page.html").read_text()
    words = ("Stages", "Links", "denoise.denoised → image.latent", "Breakdown of the chain")
    assert [word in page for word in words] == [True] * 4
    assert "Copies of links through the host" not in page  # on the CPU none does
    check_timeline(traceformat.load(tmp_path / "trace"), result)
    xml = (tmp_path / "junit").read_text()
    assert re.findall(r'testcase name="([^"]+)" classname="ortbench chain\.', xml) == ["cpu-tensors", "device-resident"]
    assert "median of 1 chains of 3 stages" in xml
    entries = {it["name"].partition(": ")[2]: it["value"] for it in json.loads((tmp_path / "action-json").read_text())}
    assert list(entries)[:4] == [
        "cpu-tensors chain",
        "cpu-tensors stage.text",
        "cpu-tensors stage.denoise",
        "cpu-tensors stage.image",
    ]
    assert entries["cpu-tensors chain"] == result.cases[0].samples["latency"][0] / 1e6


def check_timeline(trace: traceformat.Trace, result: Result) -> None:
    """Every chain and every stage is the result's, in order and inside one another."""
    names = [stage["name"] for stage in result.part["stages"]]
    for case in result.cases:
        track = trace[f"mode {case.mode}"]
        chains = [it for it in track if it.name == f"{case.mode}/chain"]
        stages = [it for it in track if it.name in [f"{case.mode}/{name}" for name in names]]
        assert [it.duration for it in chains] == case.samples["latency"]
        assert [it.duration for it in stages] == case.samples["stage"]
        assert [it.name for it in stages] == [f"{case.mode}/{name}" for _ in chains for name in names]
        assert [it.parent for it in stages] == [it for it in chains for _ in names]
        numbers = [{"stage": at, "iteration": number} for number in range(len(chains)) for at in range(len(names))]
        assert [it.args for it in stages] == numbers
        assert [it.name for it in trace[f"close-up {case.mode}"]][:4] == ["one chain", *names]
    assert trace.other["missing"] == []
    runs = [it.name for it in trace["profiled runs"]]
    assert runs == [f"profiled run {number} of {name}" for name in names for number in (1, 2, 3)]


@pytest.mark.parametrize("honesty", ["sync", "async-old-api"])
def test_links_stay_on_the_device_and_cross_with_cpu(tmp_path: Path, library: Path, honesty: Honesty) -> None:
    """By the device's own trace: whatever its runs and syncs are like, no link is copied with device-resident, and with cpu
    every input and output of every step is."""
    config = Config(compute_us=1000, honesty=honesty, trace=tmp_path / "trace")
    text = defaults(library) + STAGES + BETWEEN
    result, _ = run(tmp_path, text, "--iterations", 3, "--warmup", 1, **config.environ())
    assert [(case.mode, case.status, case.reason) for case in result.cases] == [
        ("cpu-tensors", "ok", None), ("device-resident", "ok", None),
    ]  # fmt: skip
    assert [it["stays"] for it in links(result).values()] == [True] * 3
    assert all(it["d2h_ns"] and it["h2d_ns"] for it in links(result).values())
    assert [(it["downloads"], it["uploads"]) for it in links(result).values()] == [(1, 3), (1, 1), (1, 1)]
    trace = Trace.read(tmp_path / "trace")
    # x, the first state, and what no link takes: aside of each step, and w. With cpu the state crosses in each step too.
    wanted = {"cpu-tensors": (1 + 2 * 3 + 2, 1 + 2 * 3 + 1), "device-resident": (2, 3 + 1)}
    for case in result.cases:
        there, back = wanted[case.mode]
        assert (case.bytes_h2d, case.bytes_d2h) == (there * BYTES, back * BYTES)
        assert case.stages is not None
        for _, n, start in case.blocks["latency"]:
            stop = min(
                (at for other in result.cases for _, _, at in other.blocks["latency"] if at > start), default=None
            )
            events = trace.of("h2d", "d2h", "inference")
            events = events[is_kind(events, "inference") | (events["bytes"] == BYTES)]  # a sync may read 4 bytes back
            events = events[events["queued_ns"] >= start]
            events = events[events["queued_ns"] < stop] if stop is not None else events
            if stop is None:  # what comes behind the last block is no part of it
                events = np.sort(events, order="queued_ns")[: (n + 1) * (there + back + 5)]
            counts = Counter({kind: int(is_kind(events, kind).sum()) for kind in ("h2d", "d2h", "inference")})
            assert counts == {"h2d": there * (n + 1), "d2h": back * (n + 1), "inference": 5 * (n + 1)}
        # No stage counts as done before it is: each of them takes at least what its runs take by definition.
        runs = {"first": 1, "middle": 3, "last": 1}
        assert all(stats.min >= runs[name] * 1_000_000 for name, stats in case.stages.items())
        assert min(case.samples["latency"]) >= 5_000_000


def test_what_cannot_stay_is_copied_and_said(tmp_path: Path, library: Path) -> None:
    stages = re.sub('("(?:first|last).onnx")', r'\1\nep = "cpu"', STAGES)
    text = defaults(library) + stages + linked("first.y > middle.state", "first.y > last.v", "middle.next > last.u")
    result, ran = run(tmp_path, text, *ONCE, "--verbose", COLUMNS="200")
    found = links(result)
    assert {name: (it["stays"], it["downloads"], it["uploads"]) for name, it in found.items()} == {
        "first.y > middle.state": (False, 0, 1), "first.y > last.v": (True, 0, 0), "middle.next > last.u": (False, 1, 0),
    }  # fmt: skip
    why = "first has it in host memory, middle wants it in RefDevice (DEFAULT)"
    assert found["first.y > middle.state"]["why"] == why
    why = "middle has it in RefDevice (DEFAULT), last wants it in host memory."
    assert f"• middle.next → last.u (384 B) is copied in every mode: {why}" in ran.out
    assert result.target["ep"] == "RefDeviceExecutionProvider"  # that of the first stage on a device
    assert [it["ep"] for it in result.target["eps"]] == ["CPUExecutionProvider", "RefDeviceExecutionProvider"]
    assert [case.status for case in result.cases] == ["ok", "ok"]


@pytest.mark.parametrize("on_device", [False, True])
def test_state_that_grows_is_handed_on(tmp_path: Path, library: Path, on_device: bool) -> None:
    result, _ = run(tmp_path, defaults(library if on_device else "cpu") + GROWING, *ONCE)
    assert [(case.status, case.checks["outputs"]["verdict"]) for case in result.cases] == [
        ("ok", "passed"),
        ("ok", "passed"),
    ]
    assert {name: (it["bytes"], it["stays"]) for name, it in links(result).items()} == {
        "prefill.present > decode.past": (2 * 16, True), "decode.present > after.all": (5 * 16, True),
    }  # fmt: skip


def test_a_loops_last_state_is_read_unless_it_is_kept(tmp_path: Path, library: Path) -> None:
    loop = STAGES.partition('[[stage]]\n    name = "last"')[0]
    for keep, back in (("", 3 + 1), ('    keep = ["next", "aside"]\n', 0)):
        folder = tmp_path / ("kept" if keep else "read")
        folder.mkdir()
        result, _ = run(folder, defaults(library) + loop + keep + linked("first.y > middle.bias"), *ONCE)
        assert [case.bytes_d2h for case in result.cases if case.mode == "device-resident"] == [back * BYTES]


@pytest.mark.parametrize(
    ("links_", "line"),
    [
        ("first.z > last.v", "link[0].from: first.z: first.onnx has no output 'z'; it has y"),
        ("first.y > last.z", "link[0].to: last.z: last.onnx has no input 'z'; it has u, v"),
        ("first.y > other.past", "link[0].to: does not fit: first.y is tensor(float) [1, 96], and other.past is "
                                 "tensor(float) [N, 4]"),
        ("first.y > ids.i", "link[0].to: does not fit: first.y is tensor(float) [1, 96], and ids.i is "
                            "tensor(int64) [1, 96]"),
    ],
)  # fmt: skip
def test_links_that_do_not_fit(tmp_path: Path, links_: str, line: str) -> None:
    other = "".join(f'\n[[stage]]\nname = "{name}"\nmodel = "{name}.onnx"\n' for name in ("ids", "other"))
    text = defaults("cpu") + STAGES + other + linked(links_)
    number, _, found = mistake(tmp_path, text).removeprefix("chain.toml:").partition(": ")
    assert found == line
    source, to = links_.split(" > ")
    assert text.splitlines()[int(number) - 1] == (f'from = "{source}"' if "].from" in line else f'to = "{to}"')


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ('    feedback = "nxt=state"', "chain.toml:12: stage[1].feedback: nxt=state: the model has no such output; it has next"),
        ('    dim = {q = 2}', "chain.toml:13: stage[1].dim: q: the model has no symbolic dimension"),
        ('    fill = {bias = 1}', "chain.toml:13: stage[1].fill: bias: a link gives it already"),
        ('    keep = "other"', "chain.toml:13: stage[1].keep: other: the model has no such output; it has next, aside"),
        ('    resident = "bias"', "chain.toml:13: stage[1].resident: bias: a link gives it"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_model_is_said_with_stage_and_key(tmp_path: Path, more: str, line: str) -> None:
    feedback = '    feedback = "next=state"'
    text = STAGES.replace(feedback, more if "feedback" in more else f"{feedback}\n{more}")
    found = mistake(tmp_path, defaults("cpu") + text + linked("first.y > middle.bias"))
    assert found.startswith(line), found


def test_an_ep_that_fails_in_a_stage_is_said_with_it(tmp_path: Path, library: Path) -> None:
    path = write(tmp_path, defaults(library) + STAGES + BETWEEN)
    environment: dict[str, Any] = Config(compute_us=100, fail_download="120:host").environ()
    ran = ortbench("chain", path, "--iterations", 50, "--warmup", 1, "--out", tmp_path / "out", **environment)
    assert ran.code == 1
    result = saved(tmp_path / "out")
    cpu, resident = result.cases
    assert (cpu.status, resident.status) == ("failed", "ok")
    assert re.match(r"stage (first|last): the run failed: |stage middle: step [123] of 3 failed: ", str(cpu.reason))
    assert str(cpu.reason) in ran.err


def test_a_wrong_hand_over_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that takes memory of its own in place of what the one before it left there."""
    from ortbench.features.chain import worker as chain_worker
    from ortbench.features.loop.worker.bound import BoundLoop, LinkedValue
    from ortbench.worker import measuring
    from ortbench.worker.state import State

    handed = BoundLoop.link_value

    def other(self: BoundLoop, out: int, stays: bool) -> LinkedValue:
        found, slot = handed(self, out, stays), self.end(out)
        return LinkedValue(slot.memory.allocate(slot.spec, slot.array.shape), found.array)

    plan = plan_of(write(tmp_path, defaults("cpu") + STAGES + BETWEEN), os.environ, {})
    state = State()
    chain_worker.open_chain(state, **json.loads(json.dumps(plan.worker_request())))
    measuring.prepare(state, "device-resident", 1)
    monkeypatch.setattr(BoundLoop, "link_value", other)
    with pytest.raises(WrongOutputs, match=r"^96 of 96 values of output middle\.aside of step 1 differ"):
        measuring.prepare(state, "device-resident", 1)


def test_on_webgpu(tmp_path: Path, software_gpu: tuple[str, ...]) -> None:
    result, _ = run(tmp_path, defaults("webgpu") + STAGES + BETWEEN, *ONCE, prefix=software_gpu)
    assert [(case.mode, case.status, case.checks["outputs"]["verdict"]) for case in result.cases] == [
        ("cpu-tensors", "ok", "passed"), ("device-resident", "ok", "passed"),
    ]  # fmt: skip
    assert [it["stays"] for it in links(result).values()] == [True] * 3


def test_every_stage_is_a_range(tmp_path: Path, recorder: Path) -> None:
    listener = nvtx.environ(recorder, tmp_path / "record")
    result, _ = run(tmp_path, defaults("cpu") + STAGES + BETWEEN, "--iterations", 2, "--warmup", 1, **listener)
    found = nvtx.Record.read(tmp_path / "record", DOMAIN).ranges
    for case in result.cases:
        blocks = [it for it in found if it.name == case.mode]
        chains = [it for block in blocks for it in block.inner if it.name == f"{case.mode}/chain"]
        assert len(chains) == len(case.samples["latency"]) == 2
        stages = [(f"{case.mode}/{name}", number) for number, name in enumerate(("first", "middle", "last"))]
        assert [[(it.name, it.payload) for it in chain.inner] for chain in chains] == [stages, stages]


def test_a_suite_holds_a_chain_against_another_live(tmp_path: Path, library: Path) -> None:
    """Two of the same are no regression, and the second time all of it is done."""
    text = defaults(library) + STAGES + BETWEEN
    write(tmp_path, text)
    (tmp_path / "old.toml").write_text(text.replace('"middle.onnx"', '"middle.onnx"\nintra-op-threads = 1'))
    suite = tmp_path / "bench.toml"
    suite.write_text("""
        [[bench]]
        chain = "chain.toml"
        duration = 40
        warmup = 1
        [bench.gate]
        baseline-chain = "old.toml"
        max-regression = "1%"
        metric = ["chain", "device-resident.stage.middle.min"]
        min-speedup = {device-resident = 1}
        require-mode = "cpu-tensors"
        max-cpu-nodes = 0
        """)
    line = ("suite", suite, "--out", tmp_path / "out")
    environment: dict[str, Any] = Config(compute_us=300).environ()
    ran = ortbench(*line, **environment)
    assert ran.code == 0, ran.out + ran.err
    record = json.loads((tmp_path / "out" / "chain" / "case.json").read_text())
    assert (record["outcome"], record["model"], record["shape"]) == ("passed", "chain", "")
    assert [(check["name"], check["verdict"]) for check in record["checks"]] == [
        (name, "passed")
        for name in ("cpu-tensors chain median", "device-resident chain median", "device-resident stage.middle min", "mode cpu-tensors",
                     "cpu nodes", "device-resident speedup")
    ]  # fmt: skip
    gate = (tmp_path / "out" / "chain" / "gate.md").read_text()
    assert "baseline → candidate: middle: intra-op threads: 1 → default" in gate
    assert "| device-resident | stage middle |" in gate
    again = ortbench(*line, **environment)
    assert (again.code, "[1/1] chain: passed" in again.err, "done before" in again.err) == (0, True, True)
