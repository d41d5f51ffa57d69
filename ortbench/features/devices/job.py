"""What `ortbench devices` does: ask a worker, check a library on its devices, and show what follows from the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from ortbench.core import output
from ortbench.core.eps import NO_DEVICE
from ortbench.core.errors import BENCHMARK_FAILED, DONE, BenchmarkFailed, OrtbenchError, Unsupported
from ortbench.core.files import temporary_folder
from ortbench.features.devices.model import FAILED, NOT_OFFERED, PASSED, Check, Listed
from ortbench.jobs import write_json
from ortbench.measure.process import Client, ask_once
from ortbench.model.modes import MODES, Mode
from ortbench.plan.target import Inputs, Target

_LIST_S = 120.0  # the longest wait for the list
_Session = AbstractContextManager[tuple[Client, dict[str, Any]]]
_LIMIT_S = 60.0  # of one check
_RUNS = 50
_WAITS = {"run": "session.run does", "synchronize_outputs": "synchronize_outputs() does"}
_RETURNS = (
    "both return before the work is done, only a copy to the host waits: is OrtEp::Sync there, and the API version 25?"
)
# Operators that most EPs take, the first that one does.
_MODELS = {
    "Add": "(float[256, 256] x) => (float[256, 256] y) { a = Add (x, x) b = Add (a, x) c = Add (b, x) y = Add (c, x) }",
    "MatMul": "(float[128, 128] x) => (float[128, 128] y) { y = MatMul (x, x) }",
    "Relu": "(float[256, 256] x) => (float[256, 256] y) { y = Relu (x) }",
    "Conv": "(float[1, 8, 64, 64] x, float[8, 8, 3, 3] w) => (float[1, 8, 62, 62] y) { y = Conv (x, w) }",
}
# The same operators with outputs whose shape the model does not say.
_SYMBOLIC = {
    "Add": "(float[rows, 256] x) => (float[rows, 256] y) { y = Add (x, x) }",
    "MatMul": "(float[rows, 128] x, float[128, 128] w) => (float[rows, 128] y) { y = MatMul (x, w) }",
    "Relu": "(float[rows, 256] x) => (float[rows, 256] y) { y = Relu (x) }",
    "Conv": "(float[rows, 8, 64, 64] x, float[8, 8, 3, 3] w) => (float[rows, 8, 62, 62] y) { y = Conv (x, w) }",
}
_COMPARE_SHAPES = "compare shapes before writing to what KernelContext_GetPreallocatedOutput gives"


def check_library(library: str, listed: Listed, target: Target) -> Listed:
    """What was listed of a library, with ``checks`` of each of its devices, by the interpreter of a target, with its EP options;
    `BenchmarkFailed` where it does not load, or finds no device."""
    own = [ep for ep in listed["eps"] if ep["library"] == library]
    if not any(ep["devices"] for ep in own):
        raise BenchmarkFailed(f"{library} {NO_DEVICE}")
    import onnx

    with temporary_folder() as folder:
        texts = _MODELS | {f"{name}, symbolic": text for name, text in _SYMBOLIC.items()}
        models = {name: f"{folder}/{name}.onnx" for name in texts}
        for name, path in models.items():
            onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {texts[name]}'), path)
        devices = [(ep, number) for ep in own for number in range(len(ep["devices"]))]
        checks = [
            [*_check_device(replace(target, ep=ep["name"], library=library, device=number), among_all, models)]
            for among_all, (ep, number) in enumerate(devices)
        ]
    return {**listed, "eps": own, "checks": checks}


def _check_device(target: Target, among_all: int, models: Mapping[str, str]) -> Iterator[Check]:
    try:
        with Client(_LIMIT_S, target.python) as client:
            yield from client.ask("check_device", library=target.library, number=among_all)
    except OrtbenchError as error:
        yield Check(part="memory", what="allocate, copy and stream", verdict=FAILED, how=str(error))
    open_ = partial(_session_of, target=target)
    operator, why = _find_model(models, open_, target.ep)
    if operator is None:
        what = f"a session of one of {', '.join(_MODELS)}"
        yield Check(part="run", what=what, verdict=FAILED if why else NOT_OFFERED, how=why or "it takes none")
        return
    session = partial(open_, models[operator])
    for mode in MODES.values():
        yield from _check_mode(session, mode)
    yield _check_shapes(partial(open_, models[f"{operator}, symbolic"]), target.ep)
    for part, what, request in (
        ("run", f"{_RUNS} inferences, one after the other", {"threads": 1, "own": False}),
        ("threads", f"{_RUNS} inferences in each of two threads of one session", {"threads": 2, "own": False}),
        ("threads", f"{_RUNS} inferences in each of two sessions", {"threads": 2, "own": True}),
    ):
        yield _check_runs(session, part, what, request)
    yield _check_runs(session, "run", "closing the session", None)


@contextmanager
def _session_of(model: str, target: Target) -> Iterator[tuple[Client, dict[str, Any]]]:
    with Client(_LIMIT_S, target.python) as client:
        answer = client.ask("open", model=model, target=asdict(target), inputs=asdict(Inputs()))
        if answer["unsupported"] is not None:
            raise Unsupported(answer["unsupported"])
        yield client, answer


def _find_model(models: Mapping[str, str], open_: Callable[[str], _Session], ep: str) -> tuple[str | None, str | None]:
    """The first model with a node that the EP takes, and why there is none where that is an error."""
    problems = []
    for name in _MODELS:
        try:
            with open_(models[name]) as (_, answer):
                nodes = answer["placement"]["nodes"]
        except OrtbenchError as error:
            problems.append(str(error))
            continue
        if nodes is None or nodes.get(ep):
            return name, None
    return None, next(iter(problems), None)


def _check_mode(session: Callable[[], _Session], mode: Mode) -> Iterator[Check]:
    what = f"mode {mode.name}"
    try:
        with session() as (client, _):
            found = client.ask("prepare", mode=mode.name, warmup=1)
    except OrtbenchError as error:
        verdict = NOT_OFFERED if isinstance(error, Unsupported) else FAILED
        yield Check(part="bind", what=what, verdict=verdict, how=str(error))
        return
    how = ""
    if (zero_copy := found["zero_copy"]) is not None:
        how = f"zero-copy is {'' if zero_copy['verified'] else 'not '}verified: {zero_copy['how']}"
    yield Check(part="bind", what=what, verdict=PASSED, how=how)
    if mode.times_copies and not mode.pinned:
        waits = _WAITS.get(found["sync"]["kind"])
        what = "session.run or synchronize_outputs() waits for the device"
        yield Check(part="sync", what=what, verdict=PASSED if waits else FAILED, how=waits or _RETURNS)


def _check_shapes(session: Callable[[], _Session], ep: str) -> Check:
    """A check of what is bound for an output of another shape, which its kernel alone may know."""
    part, what = "bind", "memory of another shape than an output has is refused"
    try:
        with session() as (client, answer):
            nodes = answer["placement"]["nodes"]
            if nodes is not None and not nodes.get(ep):
                raise Unsupported("it takes no node with a symbolic dimension")
            if (wrong := client.ask("check_shapes")["wrong"]) is not None:
                return Check(part=part, what=what, verdict=FAILED, how=f"{wrong}: {_COMPARE_SHAPES}")
    except OrtbenchError as error:
        verdict = NOT_OFFERED if isinstance(error, Unsupported) else FAILED
        return Check(part=part, what=what, verdict=verdict, how=str(error))
    return Check(part=part, what=what, verdict=PASSED, how="")


def _check_runs(session: Callable[[], _Session], part: str, what: str, request: Mapping[str, Any] | None) -> Check:
    """A check of runs that a worker is to carry out; None for the end of the session alone."""
    try:
        with session() as (client, _):
            if request is None:
                client.ask("release")
            elif (wrong := client.ask("check_runs", runs=_RUNS, **request)["wrong"]) is not None:
                raise BenchmarkFailed(wrong)
    except OrtbenchError as error:
        return Check(part=part, what=what, verdict=FAILED, how=str(error))
    return Check(part=part, what=what, verdict=PASSED, how="")


def show_devices(target: Target, json_out: str | None, check: str | None, verbose: bool) -> int:
    """Show the installed EPs and their devices, with those of a library that is no package, or `check` a library; the exit
    code. `BenchmarkFailed` where ONNX Runtime does not load, or the library that is to be checked."""
    found = list_devices(target, check)
    checks = [it for device in found.get("checks", ()) for it in device]
    code = BENCHMARK_FAILED if any(it["verdict"] == FAILED for it in checks) else DONE
    if write_json(found, json_out):
        return code
    from ortbench.features.devices.report import print_checks, print_devices

    print_devices(found, verbose) if check is None else print_checks(found)
    return code


def list_devices(target: Target, check: str | None = None) -> Listed:
    """What `devices` shows; raises as it does."""
    from ortbench.core.eps import NO_GPU, lacks_gpu, problem_of
    from ortbench.measure.environment import has_nvidia_gpu

    found: Listed = ask_once(_LIST_S, target.python, "devices", library=check or target.library)
    output.begin()  # what is listed says why an EP does not load
    if any(it["problem"] for it in found["eps"]):
        has_gpu = has_nvidia_gpu()
        for ep in found["eps"]:
            if lacks_gpu(ep, has_gpu):
                ep["problem"] = f"{problem_of(ep)}; {NO_GPU}"
    return found if check is None else check_library(check, found, target)
