"""What `ortbench devices --check` does: hold a plugin EP's library to the contract that ONNX Runtime's users rely on.

Each check has a worker of its own, so that an EP that crashes or hangs in one fails that one alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, Unsupported
from ortbench.measure.process import Client
from ortbench.model.modes import MODES, Mode
from ortbench.model.protocol import Check, Listed, ListedEp
from ortbench.plan.target import Inputs, Target

PASSED, FAILED, NOT_OFFERED = "passed", "failed", "not offered"
_LIMIT_S = 60.0  # of one check
_RUNS = 50
_WAITS = {"run": "the run itself waits", "synchronize_outputs": "synchronize_outputs waits"}
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
    """Check every device of a library.

    Args:
        library: path of it.
        listed: what `devices` lists with it.
        python: the interpreter to load it with; None for this one.

    Returns:
        what was listed of it, with ``checks`` of each device.

    Raises:
        BenchmarkFailed: it does not load, or finds no device.
    """
    own = [ep for ep in listed["eps"] if ep["library"] == library]
    if not any(ep["devices"] for ep in own):
        raise BenchmarkFailed(f"{library} finds no device it can use on this machine")
    with tempfile.TemporaryDirectory() as folder:
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
        yield _check("memory", "allocate, copy and stream", FAILED, str(error))
    target = Target(ep=ep["name"], library=library, device=number)
    operator, why = _taken(models, target, python)
    if operator is None:
        yield _check(
            "run", f"a session of one of {', '.join(models)}", FAILED if why else NOT_OFFERED, why or "it takes none"
        )
        return
    for mode in MODES.values():
        yield from _of_mode(models[operator], target, mode, python)
    for part, what, threads, own in (
        ("run", f"{_RUNS} runs, one after the other", 1, False),
        ("threads", f"{_RUNS} runs in each of two threads of one session", 2, False),
        ("threads", f"{_RUNS} runs in each of two sessions", 2, True),
    ):
        yield _tried(
            part, what, python, partial(_called, model=models[operator], target=target, threads=threads, own=own)
        )
    yield _tried("run", "the end of a session", python, partial(_ended, model=models[operator], target=target))


def _opened(client: Client, model: str, target: Target) -> dict[str, Any]:
    answer: dict[str, Any] = client.ask("open", model=model, target=asdict(target), inputs=asdict(Inputs()))
    if answer["unsupported"] is not None:
        raise Unsupported(answer["unsupported"])
    return answer


def _taken(models: Mapping[str, str], target: Target, python: str | None) -> tuple[str | None, str | None]:
    """The first model with a node that the EP takes, and why there is none where that is an error."""
    problems = []
    for name, path in models.items():
        with Client(_LIMIT_S, python) as client:
            try:
                nodes = _opened(client, path, target)["placement"]["nodes"]
            except OrtbenchError as error:
                problems.append(str(error))
                continue
        if nodes is None or nodes.get(target.ep):
            return name, None
    return None, next(iter(problems), None)


def _of_mode(model: str, target: Target, mode: Mode, python: str | None) -> Iterator[Check]:
    what = f"mode {mode.name}"
    try:
        with Client(_LIMIT_S, python) as client:
            _opened(client, model, target)
            found = client.ask("prepare", mode=mode.name, warmup=1)
    except Unsupported as error:
        yield _check("bind", what, NOT_OFFERED, str(error))
        return
    except OrtbenchError as error:
        yield _check("bind", what, FAILED, str(error))
        return
    zero_copy = found["zero_copy"]
    how = "" if zero_copy is None else f"zero-copy is {'' if zero_copy['proved'] else 'not '}proved: {zero_copy['how']}"
    yield _check("bind", what, PASSED, how)
    if mode.times_copies and not mode.pinned:
        kind = found["sync"]["kind"]
        yield _check(
            "sync",
            "the run or synchronize_outputs waits",
            PASSED if kind in _WAITS else FAILED,
            _WAITS.get(kind, _RETURNS),
        )


def _called(client: Client, model: str, target: Target, threads: int, own: bool) -> None:
    _opened(client, model, target)
    if (wrong := client.ask("check_runs", threads=threads, own=own, runs=_RUNS)["wrong"]) is not None:
        raise BenchmarkFailed(wrong)


def _ended(client: Client, model: str, target: Target) -> None:
    _opened(client, model, target)
    client.ask("release")


def _tried(part: str, what: str, python: str | None, call: Callable[[Client], None]) -> Check:
    try:
        with Client(_LIMIT_S, python) as client:
            call(client)
    except OrtbenchError as error:
        return _check(part, what, FAILED, str(error))
    return _check(part, what, PASSED, "")


def _check(part: str, what: str, verdict: str, how: str) -> Check:
    return {"part": part, "what": what, "verdict": verdict, "how": how}
