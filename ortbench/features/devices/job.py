"""What `ortbench devices` and `inspect` do: ask a worker, and show what follows from its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ortbench.analysis.feedback_pairs import suggested
from ortbench.core import printed
from ortbench.core.ep_names import NO_DEVICE
from ortbench.core.errors import (
    BENCHMARK_FAILED,
    DONE,
    BenchmarkFailed,
    OrtbenchError,
    Unsupported,
)
from ortbench.core.files import temporary_folder
from ortbench.jobs.publishing import write_json
from ortbench.measure.process import Client, ask_once
from ortbench.model.modes import MODES, Mode
from ortbench.model.protocol import (
    FAILED,
    NOT_OFFERED,
    PASSED,
    Check,
    Inspected,
    Listed,
    ListedEp,
)
from ortbench.plan.plan import Plan
from ortbench.plan.target import Inputs, Target

_DEVICES_S, _MODEL_S = 120.0, 600.0  # the longest wait for an answer
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


def checked(library: str, listed: Listed, python: str | None) -> Listed:
    """What was listed of a library, with ``checks`` of each of its devices, by the interpreter `python` or this one;
    `BenchmarkFailed` where it does not load, or finds no device."""
    own = [ep for ep in listed["eps"] if ep["library"] == library]
    if not any(ep["devices"] for ep in own):
        raise BenchmarkFailed(f"{library} {NO_DEVICE}")
    with temporary_folder() as folder:
        models = _written(Path(folder))
        checks, first = [], 0
        for ep in own:
            for number in range(len(ep["devices"])):
                checks.append(list(_of_device(library, ep, number, first + number, models, python)))
            first += len(ep["devices"])
    return {**listed, "eps": own, "checks": checks}


def _written(folder: Path) -> dict[str, str]:
    import onnx

    found = {}
    for name, graph in _MODELS.items():
        path = folder / f"{name}.onnx"
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {graph}'), path)
        found[name] = str(path)
    return found


def _of_device(
    library: str, ep: ListedEp, number: int, among_all: int, models: Mapping[str, str], python: str | None
) -> Iterator[Check]:
    try:
        with Client(_LIMIT_S, python) as client:
            yield from client.ask("check_device", library=library, number=among_all)
    except OrtbenchError as error:
        yield Check(part="memory", what="allocate, copy and stream", verdict=FAILED, how=str(error))
    open_ = partial(_opened, target=Target(ep=ep["name"], library=library, device=number), python=python)
    operator, why = _taken(models, open_, ep["name"])
    if operator is None:
        what = f"a session of one of {', '.join(models)}"
        yield Check(part="run", what=what, verdict=FAILED if why else NOT_OFFERED, how=why or "it takes none")
        return
    session = partial(open_, models[operator])
    for mode in MODES.values():
        yield from _of_mode(session, mode)
    for part, what, request in (
        ("run", f"{_RUNS} inferences, one after the other", {"threads": 1, "own": False}),
        ("threads", f"{_RUNS} inferences in each of two threads of one session", {"threads": 2, "own": False}),
        ("threads", f"{_RUNS} inferences in each of two sessions", {"threads": 2, "own": True}),
    ):
        yield _of_runs(session, part, what, request)
    yield _of_runs(session, "run", "closing the session", None)


@contextmanager
def _opened(model: str, target: Target, python: str | None) -> Iterator[tuple[Client, dict[str, Any]]]:
    with Client(_LIMIT_S, python) as client:
        answer = client.ask("open", model=model, target=asdict(target), inputs=asdict(Inputs()))
        if answer["unsupported"] is not None:
            raise Unsupported(answer["unsupported"])
        yield client, answer


def _taken(models: Mapping[str, str], open_: Callable[[str], _Session], ep: str) -> tuple[str | None, str | None]:
    """The first model with a node that the EP takes, and why there is none where that is an error."""
    problems = []
    for name, path in models.items():
        try:
            with open_(path) as (_, answer):
                nodes = answer["placement"]["nodes"]
        except OrtbenchError as error:
            problems.append(str(error))
            continue
        if nodes is None or nodes.get(ep):
            return name, None
    return None, next(iter(problems), None)


def _of_mode(session: Callable[[], _Session], mode: Mode) -> Iterator[Check]:
    what = f"mode {mode.name}"
    try:
        with session() as (client, _):
            found = client.ask("prepare", mode=mode.name, warmup=1)
    except OrtbenchError as error:
        verdict = NOT_OFFERED if isinstance(error, Unsupported) else FAILED
        yield Check(part="bind", what=what, verdict=verdict, how=str(error))
        return
    zero_copy = found["zero_copy"]
    how = (
        ""
        if zero_copy is None
        else f"zero-copy is {'' if zero_copy['verified'] else 'not '}verified: {zero_copy['how']}"
    )
    yield Check(part="bind", what=what, verdict=PASSED, how=how)
    if mode.times_copies and not mode.pinned:
        kind = found["sync"]["kind"]
        verdict = PASSED if kind in _WAITS else FAILED
        how = _WAITS.get(kind, _RETURNS)
        yield Check(
            part="sync", what="session.run or synchronize_outputs() waits for the device", verdict=verdict, how=how
        )


def _of_runs(session: Callable[[], _Session], part: str, what: str, request: Mapping[str, Any] | None) -> Check:
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


def devices(library: str | None, python: str | None, json_out: str | None, check: str | None, verbose: bool) -> int:
    """Show the installed EPs and their devices, with those of a library that is no package, or `check` a library; the exit
    code. `BenchmarkFailed` where ONNX Runtime does not load, or the library that is to be checked."""
    found = listed(library, python, check)
    checks = [it for device in found.get("checks", ()) for it in device]
    code = BENCHMARK_FAILED if any(it["verdict"] == FAILED for it in checks) else DONE
    if write_json(found, json_out):
        return code
    from ortbench.report.terminal.listing import print_checks, print_devices

    print_devices(found, verbose) if check is None else print_checks(found)
    return code


def listed(library: str | None, python: str | None, check: str | None = None) -> Listed:
    """What `devices` shows; raises as it does."""
    from ortbench.analysis.packages import NO_GPU, lacks_gpu, problem_of
    from ortbench.measure.environment import has_nvidia_gpu

    found: Listed = _ask(_DEVICES_S, python, "devices", library=check or library)
    printed.begin()  # what is listed says why an EP does not load
    if any(it["problem"] for it in found["eps"]):
        has_gpu = has_nvidia_gpu()
        for it in found["eps"]:
            if lacks_gpu(it, has_gpu):
                it["problem"] = f"{problem_of(it)}; {NO_GPU}"
    return found if check is None else checked(check, found, python)


def inspect(plan: Plan, placed: bool, json_out: str | None, verbose: bool) -> None:
    """Show what a model takes, gives and consists of, and what looks like the state of a loop; where it is `placed`, also
    where the target would run its nodes. `BadInput` or `BenchmarkFailed` where it cannot be read, or opened on that EP."""
    found = inspected(plan, placed)
    if write_json(found, json_out):
        return
    from ortbench.report.terminal.listing import print_model

    print_model(found, verbose)


def inspected(plan: Plan, placed: bool) -> Inspected:
    """What `inspect` shows; raises as it does."""
    from ortbench.analysis.findings.program import loop_command
    from ortbench.plan.next_command import CarriedOut

    target = plan.target
    asked = {
        "target": asdict(target) if placed else None,
        "inputs": asdict(plan.inputs),
        "custom_ops": target.custom_ops,
    }
    found: Inspected = _ask(_MODEL_S, target.python, "inspect", model=plan.model, **asked)
    done = CarriedOut(plan.command, plan.called or plan.model, found["inputs"])
    found["loop"] = suggested(found["inputs"], found["outputs"], partial(loop_command, done))
    return found


def _ask(timeout_s: float, python: str | None, do: str, **arguments: Any) -> Any:
    try:
        return ask_once(timeout_s, python, do, **arguments)
    except Unsupported as error:
        raise BenchmarkFailed(str(error)) from None
