"""What `ortbench watch` says of a program on the reference device, against what the device itself counted."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.core import units
from ortbench.facts import record
from ortbench.features.watch import shim
from ortbench.features.watch.analysis import CALM, Watched
from ortbench.features.watch.facts import watch_facts
from ortbench.features.watch.job.watch import read_program, replay_sessions
from ortbench.features.watch.report import session_table
from tests import virtual
from tests.refdevice import EP_NAME, Config, Trace
from tests.truth import in_fork
from tests.virtual import CALL_NS
from tests.virtual.machine import VARIABLE

pytestmark = pytest.mark.process
CALLS = 40


def changed_programs() -> None:
    """Record three programs, and print what each takes less in virtual time with each change, made by hand."""
    import onnxruntime as ort

    virtual.attach(works=True)
    library, folder = sys.argv[1:]
    ort.register_execution_provider_library(EP_NAME, library)
    device = next(it for it in ort.get_ep_devices() if it.ep_name == EP_NAME)
    own = device.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
    shared = device.memory_info(ort.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    first, second, grown, bound = (_open(ort, device, folder, name, compute_us="20000") for name in MODELS)
    x, weights, zeros, step = (
        np.full(size, value, np.float32) for size, value in ((SIZE, 3), (SIZE, 0.5), (SIZE, 0), (STEP, 1))
    )

    def room(size: int, memory: Any) -> Any:
        return ort.OrtValue.ortvalue_from_shape_and_type([size], np.float32, memory_info=memory)

    def on_device(array: Any) -> Any:
        value = room(array.size, own)
        ort.copy_tensors([ort.OrtValue.ortvalue_from_numpy(array)], [value])
        return value

    def in_shared(**sizes: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values in memory that the host and the device share, and the host's views of them."""
        values = {name: room(size, shared) for name, size in sizes.items()}
        return values, {name: value.numpy() for name, value in values.items()}

    def run(session: Any, ins: dict[str, Any], outs: dict[str, Any]) -> dict[str, Any]:
        """Run with inputs that are arrays or values, and outputs that are values, or None where the host has them."""
        binding = session.io_binding()
        for name, value in ins.items():
            (binding.bind_cpu_input if isinstance(value, np.ndarray) else binding.bind_ortvalue_input)(name, value)
        for name, value in outs.items():
            if value is None:
                binding.bind_output(name)
            else:
                binding.bind_ortvalue_output(name, value)
        session.run_with_iobinding(binding)
        return {name: it.numpy() for name, it in zip(outs, binding.get_outputs(), strict=True) if outs[name] is None}

    on_host = dict.fromkeys("ytu")

    def copies(names: list[str] | None = None) -> None:
        state = zeros
        for number in range(CALLS):
            y, state = first.run(names, {"x": x + number, "w": weights, "s": state})[:2]
            second.run(None, {"a": y})

    def constant_stays() -> None:
        kept, state = on_device(weights), zeros
        for number in range(CALLS):
            found = run(first, {"x": x + number, "w": kept, "s": state}, on_host)
            state = found["t"]
            second.run(None, {"a": found["y"]})

    def state_stays() -> None:
        state, free = on_device(zeros), on_device(zeros)
        for number in range(CALLS):
            found = run(first, {"x": x + number, "w": weights, "s": state}, on_host | {"t": free})
            state, free = free, state
            second.run(None, {"a": found["y"]})

    def link_stays() -> None:
        y, state = on_device(zeros), zeros
        for number in range(CALLS):
            state = run(first, {"x": x + number, "w": weights, "s": state}, on_host | {"y": y})["t"]
            run(second, {"a": y}, {"b": None})

    def first_shared() -> None:
        ins, views = in_shared(x=SIZE, w=SIZE, s=SIZE)
        outs, read = in_shared(y=SIZE, t=SIZE, u=2 * SIZE)
        state = zeros
        for number in range(CALLS):
            views["x"][:], views["w"][:], views["s"][:] = x + number, weights, state
            run(first, ins, outs)
            state = read["t"]
            second.run(None, {"a": read["y"]})

    def growing() -> None:
        past = step
        for _ in range(CALLS):
            (past,) = grown.run(None, {"p": past, "q": step})

    def grown_stays() -> None:
        past = on_device(step)
        for number in range(CALLS):
            longer = room((number + 2) * STEP, own)
            run(grown, {"p": past, "q": step}, {"r": longer})
            past = longer

    def binding_program(copy_weights: bool = True) -> None:
        binding = bound.io_binding()
        kept = on_device(zeros)
        binding.bind_ortvalue_output("c", kept)
        if not copy_weights:
            binding.bind_cpu_input("w", weights)
        for number in range(CALLS):
            binding.bind_cpu_input("x", x + number)
            if copy_weights:
                binding.bind_cpu_input("w", weights)
            binding.bind_output("y")
            bound.run_with_iobinding(binding)
            binding.get_outputs()[1].numpy()

    programs: dict[str, tuple[Callable[[], None], dict[str, Callable[[], None]]]] = {
        "copies": (copies, {
            "first.onnx constant-input": constant_stays,
            "first.onnx state-through-host": state_stays,
            "second.onnx link-through-host": link_stays,
            "first.onnx unread-output": lambda: copies(["y", "t"]),
            "first.onnx zero-copy": first_shared,
        }),
        "growing": (growing, {"grown.onnx state-through-host": grown_stays}),
        "binding": (binding_program, {"bound.onnx constant-input": lambda: binding_program(copy_weights=False)}),
    }  # fmt: skip
    found = {}
    for name, (program, changes) in programs.items():
        took = _time(program)
        saved = {it: took - _time(changed) for it, changed in changes.items()}
        records = Path(folder) / name / "records"
        records.mkdir(parents=True)
        shim.start(str(records), 10**8)
        wall_ns = _time(program)
        shim.stop()
        found[name] = {"wall_ns": wall_ns, "saved": saved}
    print(json.dumps(found))


def findings_of_recordings() -> None:
    """Print what each finding of some recorded programs says; the library is known from the recording."""
    given = json.loads(sys.argv[1])
    found = {}
    for folder, wall_ns in given.items():
        program = read_program(Path(folder) / "records", ["program"], 0, wall_ns, 0, 0)
        replay_sessions(program, True, Path(folder) / "records", Path(folder), None, quiet=True, wait_s=0.0)
        found[Path(folder).name] = [record(it) for it in watch_facts(program)]
    print(json.dumps(found))


SIZE, STEP = 25_000, 2_000
MODELS = {
    "first": "g (float[N] x, float[N] w, float[N] s) => (float[N] y, float[N] t, float[M] u)"
    "{ y = Add(x, w)  t = Add(s, w)  u = Concat<axis = 0>(x, s) }",
    "second": "g (float[N] a) => (float[N] b) { b = Relu(a) }",
    "grown": "g (float[P] p, float[Q] q) => (float[R] r) { r = Concat<axis = 0>(p, q) }",
    "bound": "g (float[N] x, float[N] w) => (float[N] y, float[N] c) { y = Add(x, w)  c = Relu(x) }",
}


def _open(ort: Any, device: Any, folder: str, name: str, threads: int = 1, **ep_options: str) -> Any:
    import onnx

    text = (MODELS | _TIMED)[name].replace("[N]", f"[{SIZE}]").replace("[M]", f"[{2 * SIZE}]")
    path = f"{folder}/{name}.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_provider_for_devices([device], ep_options)
    return ort.InferenceSession(path, options)


def _time(program: Callable[[], object]) -> int:
    start = time.perf_counter_ns()
    program()
    return time.perf_counter_ns() - start


def test_a_change_saves_what_was_said(library: Path, tmp_path: Path) -> None:
    config = Config(compute_us=9000, upload_gbps=0.1, download_gbps=0.2)
    programs = in_fork(f"{__name__}:changed_programs", library, tmp_path, **config.environ())
    walls = {str(tmp_path / name): it["wall_ns"] for name, it in programs.items()}
    said = in_fork(f"{__name__}:findings_of_recordings", json.dumps(walls), **config.environ())
    for name, program in programs.items():
        costs = {f"{it['mode']} {it['verdict']}": it["values"]["cost"]["value"] for it in said[name]}
        assert {it: costs[it] for it in program["saved"]} == pytest.approx(program["saved"], rel=0.1)
    copied = {
        (it["mode"], it["verdict"], *map(it["values"].get, ("input", "output"))): it["values"]["copied"]["value"]
        for it in said["copies"]
        if it["verdict"] != "zero-copy"
    }
    each = 4 * SIZE * CALLS
    assert copied == {
        ("first.onnx", "state-through-host", "s", "t"): 2 * each,
        ("first.onnx", "constant-input", "w", None): each,
        ("first.onnx", "unread-output", None, "u"): 2 * each,
        ("second.onnx", "link-through-host", "a", "y"): 2 * each,
    }
    # A limit that stops the replay stops the program too, and others use 5 % of the cores of a quiet machine.
    folder, found = (
        str(tmp_path / "growing"),
        {"grown.onnx state-through-host", "grown.onnx constant-input", "grown.onnx zero-copy"},
    )
    for does, is_busy in (({"others": [0.1], "throttled": 1.0}, False), ({"others": [0.5]}, True)):
        environment = {**config.environ(), VARIABLE: json.dumps(does)}
        line = (f"{__name__}:findings_of_recordings", json.dumps({folder: walls[folder]}))
        (said,) = in_fork(*line, **environment).values()
        costs = {f"{it['mode']} {it['verdict']}": it["values"].get("cost") for it in said}
        unknown = {name for name, cost in costs.items() if cost == "time unknown"}
        assert unknown == ({it for it in found if "zero-copy" not in it} if is_busy else set())
        if is_busy:
            assert (said[0]["verdict"], said[0]["values"]) == ("noise", {"sessions": ["grown.onnx"]})
        else:
            assert costs.keys() == found
    kept = sorted(tmp_path.glob("*/inputs-*.npz"))
    assert {stat.S_IMODE(it.stat().st_mode) for it in kept} == {0o600}
    assert sorted(sorted(np.load(it)) for it in kept) == [["a"], ["p", "q"], ["s", "w", "x"], ["w", "x"]]


def recorded_calls() -> None:
    import onnxruntime as ort

    virtual.attach(works=True)
    library, folder = sys.argv[1:]
    ort.register_execution_provider_library(EP_NAME, library)
    device = next(it for it in ort.get_ep_devices() if it.ep_name == EP_NAME)
    session = _open(ort, device, folder, "bound")
    shim.start(f"{folder}/records", 10**8)
    for number in range(20):
        session.run(None, {"x": np.full(SIZE, number, np.float32), "w": np.ones(SIZE, np.float32)})
    shim.stop()
    print(0)


def replay_in_time() -> None:
    """Print how long a replay takes that nobody asked for, and why nothing came of it."""
    virtual.attach(works=True)  # also what is done beside the worker
    folder = Path(sys.argv[1])
    program = read_program(folder / "records", ["program"], 0, 10**9, 0, 0)
    took = _time(lambda: replay_sessions(program, None, folder / "records", folder, None, quiet=True, wait_s=0.0))
    print(json.dumps([took, sorted({it.get("failed", "") for it in program.sessions[0].replay.values()})]))


@pytest.mark.parametrize(("recorded_ms", "replayed_ms", "most_s"), [(100, 100, 20), (100, 2000, 25), (2000, 100, 0.1)])
def test_a_replay_takes_no_longer_than_it_may(
    library: Path, tmp_path: Path, recorded_ms: int, replayed_ms: int, most_s: float
) -> None:
    """Also where the machine has become slow; and what took too long in the program is not begun."""
    (tmp_path / "records").mkdir()
    in_fork(f"{__name__}:recorded_calls", library, tmp_path, **Config(compute_us=1000 * recorded_ms).environ())
    found = in_fork(f"{__name__}:replay_in_time", tmp_path, **Config(compute_us=1000 * replayed_ms).environ())
    took_ns, failed = found
    assert took_ns < most_s * 1e9
    assert failed == ([""] if most_s == 20 else ["that would take longer than 20 s: see --replay"])


# A program in virtual time: each figure is the device's own, to the nanosecond

PAUSE_NS, WORK_NS, SWITCH_US, SHAPES, OPENED = 3_000_000, 2_000_000, 700, 5, 4
_TIMED = {
    "paced": "g (float[1000] x) => (float[1000] y) { y = Relu(x) }",
    "weighty": "g (float[250000] x) => (float[250000] y) <float[1] w = {2.0}> { y = Mul(x, w) }",
    "shapes": "g (float[S] x) => (float[S] y) { y = Relu(x) }",
}


def timed_program() -> None:
    """Record calls that are apart, sessions that are opened again, and shapes; print when the recording began and ended, and the sessions."""
    import onnxruntime as ort

    virtual.attach(works=True)
    library, folder = sys.argv[1:]
    clock: Any = virtual._library
    time.thread_time_ns = clock.clock_cpu
    # The writing thread would read the clock now and then; a thread of the pool spins half of the time.
    shim._PERIOD_S, shim._read_clock = 1e9, lambda _: clock.clock_now() // 2
    ort.register_execution_provider_library(EP_NAME, library)
    (device,) = (it for it in ort.get_ep_devices() if it.ep_name == EP_NAME)
    os.environ[shim.TRACE] = "1"
    began = time.perf_counter_ns()
    shim.start(f"{folder}/records", 0)
    paced = _open(ort, device, folder, "paced", threads=2)
    for number in range(CALLS):
        paced.run(None, {"x": np.full(1000, number, np.float32)})
        clock.clock_work(WORK_NS)
        time.sleep(PAUSE_NS / 1e9)
    for _ in range(OPENED):
        _open(ort, device, folder, "weighty").run(None, {"x": np.ones(250_000, np.float32)})
        time.sleep(PAUSE_NS / 1e9)
    shapes = _open(ort, device, folder, "shapes")
    for size in range(1, SHAPES + 1):
        for _ in range(4):
            shapes.run(None, {"x": np.ones(100 * size, np.float32)})
            time.sleep(PAUSE_NS / 1e9)
    shim.stop()
    print(json.dumps([began, time.perf_counter_ns()]))


def test_times_of_a_program_are_those_of_the_device(library: Path, tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    config = Config(compute_us=400, switch_us=SWITCH_US, trace=tmp_path / "trace")
    began, ended = in_fork(f"{__name__}:timed_program", library, tmp_path, **config.environ())
    program = read_program(tmp_path / "records", ["program"], 0, ended - began, 0, 0)
    sessions = {it.name: it for it in program.sessions}
    trace = Trace.read(tmp_path / "trace")
    runs = np.split(np.sort(trace.of("run"), order="queued_ns"), [CALLS, CALLS + OPENED])
    for name, own in zip(_TIMED, runs, strict=True):
        session, count = sessions[f"{name}.onnx"], len(own)
        took = own["end_ns"] - own["queued_ns"] + CALL_NS  # the reading at its end
        assert (session.calls, session.total_ns) == (count, took.sum())
        assert session.percentile(0.5) == pytest.approx(np.median(took), rel=0.02)
        apart = own["queued_ns"][1:] - own["end_ns"][:-1] - CALL_NS
        assert (session.counts["gaps"], session.counts["gap_ns"]) == (count - 1, apart.sum())
        copies = trace.of("h2d", "d2h")
        assert session.bytes_per_call * count == copies["bytes"][np.isin(copies["run"], own["run"])].sum()
    # A process is in a call from the reading before it on.
    assert program.busy_ns == sum(it.total_ns + it.calls * CALL_NS for it in program.sessions)
    assert (program.wall_ns, program.processes[0]["busy_ns"]) == (ended - began, program.busy_ns)
    shares = {row[0]: row[4] for row in session_table(program).rows}
    assert shares == {it.name: units.share(it.total_ns / program.wall_ns) for it in program.sessions}

    own = np.sort(trace.of("run"), order="queued_ns")
    (kept,) = (tmp_path / "records").glob("*.calls")
    *_, starts, ends, numbers = np.fromfile(kept, np.int64).reshape(-1, shim.TRACED).T
    assert (starts == own["queued_ns"]).all()
    assert (ends == own["end_ns"] + CALL_NS).all()
    assert (numbers == np.arange(len(own))).all()

    paced = sessions["paced.onnx"].counts
    assert paced["looked_gaps"] == CALLS - 1
    # After the first gaps the recorder reads the clock once more.
    assert paced["work_ns"] == (CALLS - 1) * (WORK_NS + CALL_NS) + (CALLS - 1 - shim._FIRST) * CALL_NS
    # Half of each gap, but for the recorder's own readings of the clock in it.
    assert 0 < paced["gap_ns"] - 2 * paced["spin_ns"] <= 8 * CALL_NS * paced["gaps"]
    opened = trace.of("h2d")[trace.of("h2d")["run"] == 0]
    assert len(opened) == OPENED
    each = (opened["end_ns"] - opened["queued_ns"]).sum() / OPENED + 2 * CALL_NS
    counts = sessions["weighty.onnx"].counts
    assert (counts["closed"], counts["close_ns"]) == (OPENED, OPENED * CALL_NS)
    assert _costs(program) == {
        ("paced.onnx", "spinning-seen"): paced["spin_ns"],
        ("shapes.onnx", "slow-shapes"): (SHAPES - 1) * SWITCH_US * 1000,  # the first is the session's warm-up
        ("weighty.onnx", "opened-often"): (OPENED - 1) * (each + CALL_NS),
    }
    counts["closed"] = OPENED - 2  # others were not seen
    assert _costs(program)["weighty.onnx", "opened-often-seen"] == (OPENED - 1) * each
    # Of sessions that spin one alone may save nothing, so both are said as one, measured or seen.
    program.sessions.append(replace(sessions["paced.onnx"], name="twin.onnx", replay={}))
    for replay, verdict, cost in (
        ({}, "spinning-several-seen", 2 * paced["spin_ns"]),
        ({json.dumps(CALM): {"cpu_ns": (300, 200, 400)}}, "spinning-several", 2 * CALLS * 300),
    ):
        program.sessions[-1].replay |= replay
        sessions["paced.onnx"].replay |= replay
        assert {it: n for it, n in _costs(program).items() if "spinning" in it[1]} == {("", verdict): cost}
    # Of a release with a defect only what it is in is told of: host arrays that are bound on a plugin EP.
    session, row = sessions["shapes.onnx"], sessions["shapes.onnx"].signatures[0]["inputs"][0]
    for version, row[1], calls, is_told in (
        ("1.30.0", "cpu", 3, True), ("1.31.1", "cpu", 3, False), ("1.30.0", "gpu", 3, False), ("1.30.0", "cpu", 0, False),
    ):  # fmt: skip
        program.processes[0]["onnxruntime"], session.binding["calls"] = version, calls
        told = [it for it in watch_facts(program) if it.verdict == "lost-stream"]
        assert [it.values["sessions"] for it in told] == [["shapes.onnx"]] * is_told
    # What ONNX Runtime copies on the host, by the calls that were looked at.
    about = next(it for it in session.inputs if it.name == row[0])
    about.copies_ns[:], row[4], row[5] = [100, 900, 200], 4096, False
    for row[1], verdict in (("array", "not-contiguous"), ("list", "no-array")):
        (copied,) = [it for it in watch_facts(program) if it.verdict == verdict]
        calls, found = (
            session.signatures[0]["n"],
            {it: getattr(copied.values[it], "value", None) for it in ("cost", "size")},
        )
        assert (copied.values["calls"], found) == (calls, {"cost": 200 * calls, "size": 4096})


def _costs(program: Watched) -> dict[tuple[str, str], float | None]:
    return {(it.mode, it.verdict): getattr(it.values["cost"], "value", None) for it in watch_facts(program)}
