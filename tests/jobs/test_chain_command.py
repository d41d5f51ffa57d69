"""`ortbench chain` on real models: outputs and links on the CPU EP, the reference device with its trace, and WebGPU."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.errors import BadInput, WrongOutputs
from ortbench.core.processes import DOMAIN
from ortbench.features.chain import worker as chain_worker
from ortbench.features.chain.toml import plan_of
from ortbench.features.loop.worker.bound import BoundLoop, LinkedValue
from ortbench.model.result import Result
from ortbench.worker import State, measuring
from tests import nvtx, traceformat
from tests.conftest import MODELS, ONCE, Ran, ortbench
from tests.expect import refusal
from tests.jobs.reports import result_in
from tests.refdevice import Config, Trace
from tests.truth import block_events, is_kind
from tests.worker import saved

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
}


def linked(*links: str) -> str:
    """Links as ``first.y > last.v``."""
    pairs = [link.split(" > ") for link in links]
    return "".join(f'\n[[link]]\nfrom = "{source}"\nto = "{to}"\n' for source, to in pairs)


def defaults(ep: object) -> str:
    return f'[defaults]\nep = "{ep}"\n'


def stage(name: str, model: str = "", more: str = "") -> str:
    return f'\n[[stage]]\nname = "{name}"\nmodel = "{model or name}.onnx"\n{more}'


LOOPED = 'repeat = 3\nfeedback = "next=state"\n'
STAGES = stage("first") + stage("middle", more=LOOPED) + stage("last")
BETWEEN = linked("first.y > middle.bias", "first.y > last.v", "middle.next > last.u")


def write(folder: Path, text: str) -> Path:
    """A chain's file beside the models."""
    for name, graph in MODELS_OF_CHAIN.items():
        saved(folder / f"{name}.onnx", f"{name} {graph}")
    path = folder / "chain.toml"
    path.write_text(text)
    return path


def run(folder: Path, text: str, *arguments: object, **environment: Any) -> tuple[Result, Ran]:
    ran = ortbench("chain", write(folder, text), "--out", folder / "out", *arguments, **environment)
    assert (ran.code, ran.err) == (0, "")
    return result_in(folder / "out"), ran


def open_in_process(path: Path) -> State:
    """The chain of a file, opened as a worker does."""
    state = State()
    plan = plan_of(path, os.environ, {})
    chain_worker.open_chain(state, **json.loads(json.dumps(plan.worker_request())))
    return state


def assert_ok(result: Result) -> None:
    assert [(case.mode, case.status, case.checks["outputs"]["verdict"]) for case in result.cases] == [
        ("cpu-tensors", "ok", "passed"), ("device-resident", "ok", "passed"),
    ]  # fmt: skip


def links(result: Result) -> dict[str, Any]:
    return {f"{it['from']} > {it['to']}": it for it in result.part["links"]}


def test_the_example_gives_what_is_expected_of_it_in_every_file(tmp_path: Path) -> None:
    chain = tmp_path / "cpu.toml"
    text = (MODELS / "text_to_image.toml").read_text()
    chain.write_text(defaults("cpu") + re.sub(r'"(\w+\.(?:onnx|inputs\.npz))"', rf'"{MODELS}/\1"', text))
    files = [word for name in ("trace", "action-json") for word in (f"--{name}", tmp_path / name)]
    expected = ("--expect", MODELS / "text_to_image.expected.npz")
    ran = ortbench("chain", chain, *expected, *ONCE, "--out", tmp_path / "out", *files)
    assert (ran.code, ran.err) == (0, "")
    result = result_in(tmp_path / "out")
    assert result.setup["expected_outputs"]
    assert_ok(result)
    check_timeline(traceformat.load(tmp_path / "trace"), result)
    entries = {it["name"].partition(": ")[2]: it["value"] for it in json.loads((tmp_path / "action-json").read_text())}
    names = ("chain", "stage.text", "stage.denoise", "stage.image")
    assert list(entries)[:4] == [f"cpu-tensors {name}" for name in names]
    assert entries["cpu-tensors chain"] == result.cases[0].samples["latency"][0] / 1e6


def check_timeline(trace: traceformat.Trace, result: Result) -> None:
    """Every chain and every stage is the result's, in order and inside one another."""
    names = [stage["name"] for stage in result.part["stages"]]
    for case in result.cases:
        track = trace[f"mode {case.mode}"]
        chains = [it for it in track if it.name == f"{case.mode}/chain"]
        stages = [it for it in track if it.name in [f"{case.mode}/{name}" for name in names]]
        assert [it.duration for it in chains] == case.samples["latency"]
        assert [(it.name, it.duration) for it in stages] == [
            (f"{case.mode}/{name}", ns) for name, ns in zip(names, case.samples["stage"], strict=True)
        ]
        assert [(it.parent, it.args["stage"]) for it in stages] == [(chains[0], number) for number in range(3)]
        assert [it.name for it in trace[f"close-up {case.mode}"]][:4] == ["one chain", *names]
    runs = [it.name for it in trace["profiled runs"]]
    assert runs == [f"profiled run {number} of {name}" for name in names for number in (1, 2, 3)]


@pytest.mark.wide
def test_every_stage_is_a_range(tmp_path: Path, recorder: Path) -> None:
    listener = nvtx.environ(recorder, tmp_path / "record")
    result, _ = run(tmp_path, defaults("cpu") + STAGES + BETWEEN, "--iterations", 2, "--warmup", 1, **listener)
    ranges = nvtx.Record.read(tmp_path / "record", DOMAIN).ranges
    for case in result.cases:
        chains = [it for block in ranges if block.name == case.mode for it in block.inner]
        assert [it.name for it in chains] == [f"{case.mode}/chain"] * len(case.samples["latency"])
        stages = [(f"{case.mode}/{name}", number) for number, name in enumerate(("first", "middle", "last"))]
        assert [[(it.name, it.payload) for it in chain.inner] for chain in chains] == [stages] * 2


def test_links_stay_on_the_device_and_cross_with_cpu(tmp_path: Path, library: Path) -> None:
    """By the device's own trace no link is copied with device-resident, and with cpu every input and output of every step is."""
    config = Config(compute_us=1000, honesty="async-old-api", trace=tmp_path / "trace")
    text = defaults(library) + STAGES + BETWEEN
    result, _ = run(tmp_path, text, "--iterations", 3, "--warmup", 1, **config.environ())
    assert_ok(result)
    assert [(it["stays"], it["downloads"], it["uploads"]) for it in links(result).values()] == [
        (True, 1, 3), (True, 1, 1), (True, 1, 1),
    ]  # fmt: skip
    assert all(it["d2h_ns"] and it["h2d_ns"] for it in links(result).values())
    trace = Trace.read(tmp_path / "trace")
    # x, the first state, and what no link takes: aside of each step, and w. With cpu the state crosses in each step too.
    wanted = {"cpu-tensors": (1 + 2 * 3 + 2, 1 + 2 * 3 + 1), "device-resident": (2, 3 + 1)}
    starts = [at for case in result.cases for _, _, at in case.blocks["latency"]]
    for case in result.cases:
        there, back = wanted[case.mode]
        assert (case.bytes_h2d, case.bytes_d2h) == (there * BYTES, back * BYTES)
        for _, n, start in case.blocks["latency"]:
            events, _ = block_events(trace, starts, start)
            copies = is_kind(events, "h2d", "d2h") & (events["bytes"] == BYTES)  # a sync may read 4 bytes back
            events = events[is_kind(events, "inference") | copies]
            events = events[: (n + 1) * (there + back + 5)]  # what comes behind the last block is no part of it
            counts = Counter({kind: int(is_kind(events, kind).sum()) for kind in ("h2d", "d2h", "inference")})
            assert counts == {"h2d": there * (n + 1), "d2h": back * (n + 1), "inference": 5 * (n + 1)}


def test_what_cannot_stay_is_copied_and_said(tmp_path: Path, library: Path) -> None:
    stages = re.sub('("(?:first|last).onnx")', r'\1\nep = "cpu"', STAGES)
    text = defaults(library) + stages + linked("first.y > middle.state", "first.y > last.v", "middle.next > last.u")
    result, _ = run(tmp_path, text, *ONCE)
    assert_ok(result)
    why = "first has it in host memory, middle wants it in RefDevice (DEFAULT)"
    back = "middle has it in RefDevice (DEFAULT), last wants it in host memory"
    found = [(it["stays"], it["downloads"], it["uploads"], it["why"]) for it in links(result).values()]
    assert found == [(False, 0, 1, why), (True, 0, 0, None), (False, 1, 0, back)]
    assert result.target["ep"] == "RefDeviceExecutionProvider"  # that of the first stage on a device
    assert [it["ep"] for it in result.target["eps"]] == ["CPUExecutionProvider", "RefDeviceExecutionProvider"]


def test_state_that_grows_is_handed_on(tmp_path: Path, library: Path) -> None:
    prefill, decode = (f'repeat = {count}\nfeedback = "present=past"\n' for count in (2, 3))
    stages = stage("prefill", "grow", prefill) + stage("decode", "grow", decode) + stage("after")
    stages += linked("prefill.present > decode.past", "decode.present > after.all")
    result, _ = run(tmp_path, defaults(library) + stages, *ONCE)
    assert_ok(result)
    assert {name: (it["bytes"], it["stays"]) for name, it in links(result).items()} == {
        "prefill.present > decode.past": (2 * 16, True), "decode.present > after.all": (5 * 16, True),
    }  # fmt: skip


def test_a_loops_last_state_is_read_unless_it_is_kept(tmp_path: Path, library: Path) -> None:
    kept = stage("kept", "middle", LOOPED + 'keep = ["next", "aside"]\n')
    text = stage("first") + stage("middle", more=LOOPED) + kept + linked("first.y > middle.bias", "first.y > kept.bias")
    result, _ = run(tmp_path, defaults(library) + text, *ONCE)
    assert [case.bytes_d2h for case in result.cases if case.mode == "device-resident"] == [(3 + 1) * BYTES]


BIAS = "first.y > middle.bias"


@pytest.mark.parametrize(
    ("more", "link", "line"),
    [
        ("", "first.z > last.v", "link[0].from: first.z: first.onnx has no output 'z'; it has y"),
        ("", "first.y > last.z", "link[0].to: last.z: last.onnx has no input 'z'; it has u, v"),
        ("", "first.y > other.past", "link[0].to: does not fit: first.y is tensor(float) [1, 96], and other.past is tensor(float) [N, 4]"),
        ('feedback = "nxt=state"', BIAS, "stage[1].feedback: nxt=state: the model has no such output; it has next"),
        ("dim = {q = 2}", BIAS, "stage[1].dim: q: the model has no symbolic dimension"),
        ("fill = {bias = 1}", BIAS, "stage[1].fill: bias: a link gives it already"),
        ('keep = "other"', BIAS, "stage[1].keep: other: the model has no such output; it has next, aside"),
    ],
)  # fmt: skip
def test_what_does_not_fit_a_model_is_said_with_its_line(more: str, link: str, line: str, tmp_path: Path) -> None:
    looped = LOOPED.replace('feedback = "next=state"\n', "") if "feedback" in more else LOOPED
    stages = [stage("first"), stage("middle", more=f"{looped}{more}\n"), stage("last"), stage("other")]
    text = "".join([defaults("cpu"), *stages, linked(link)])
    error = refusal(BadInput, open_in_process, write(tmp_path, text)).replace(f"{tmp_path}/", "")
    number, _, message = error.removeprefix("chain.toml:").partition(": ")
    assert message.startswith(line)
    source, to = link.split(" > ")
    wanted = more or (f'from = "{source}"' if "].from" in line else f'to = "{to}"')
    assert text.splitlines()[int(number) - 1] == wanted


def test_an_ep_that_fails_in_a_stage_is_said_with_it(tmp_path: Path, library: Path) -> None:
    path = write(tmp_path, defaults(library) + STAGES + BETWEEN)
    environment: dict[str, Any] = Config(compute_us=100, fail_download="120:host").environ()
    ran = ortbench("chain", path, "--iterations", 50, "--warmup", 1, "--out", tmp_path / "out", **environment)
    assert ran.code == 1
    result = result_in(tmp_path / "out")
    cpu, resident = result.cases
    assert (cpu.status, resident.status) == ("failed", "ok")
    assert re.match(r"stage (first|last): the run failed: |stage middle: step [123] of 3 failed: ", str(cpu.reason))
    assert str(cpu.reason) in ran.err


def test_a_wrong_hand_over_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that takes memory of its own in place of what the one before it left there."""
    link_value = BoundLoop.link_value

    def other(self: BoundLoop, out: int, stays: bool) -> LinkedValue:
        value, slot = link_value(self, out, stays), self.end(out)
        return LinkedValue(slot.memory.allocate(slot.spec, slot.array.shape), value.array)

    state = open_in_process(write(tmp_path, defaults("cpu") + STAGES + BETWEEN))
    measuring.prepare(state, "device-resident", 1)
    monkeypatch.setattr(BoundLoop, "link_value", other)
    with pytest.raises(WrongOutputs, match=r"^96 of 96 values of output middle\.aside of step 1 differ"):
        measuring.prepare(state, "device-resident", 1)


def test_a_chain_is_compared_with_another_live(tmp_path: Path, library: Path) -> None:
    text = defaults(library) + STAGES + BETWEEN
    write(tmp_path, text)
    (tmp_path / "old.toml").write_text(text.replace('"middle.onnx"', '"middle.onnx"\nintra-op-threads = 1'))
    line = ["--chain", tmp_path / "chain.toml", "--baseline-chain", tmp_path / "old.toml", "--max-regression", "1%"]
    limits = ["--metric", "chain", "--metric", "device-resident.stage.middle.min"]
    until = ["--duration", 40, "--warmup", 1, "--out", tmp_path / "out", "--json", tmp_path / "gate.json"]
    ran = ortbench("gate", *line, *limits, *until, **Config(compute_us=300).environ())
    assert (ran.code, ran.err) == (0, "")
    assert "baseline → candidate: middle: intra-op threads: 1 → default" in ran.out
    checks = json.loads((tmp_path / "gate.json").read_text())["checks"]
    assert [(check["name"], check["verdict"]) for check in checks] == [
        ("cpu-tensors chain median", "passed"), ("device-resident chain median", "passed"),
        ("device-resident stage.middle min", "passed"),
    ]  # fmt: skip
