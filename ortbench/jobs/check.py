"""What `ortbench devices --check` does: hold a plugin EP's library to the contract that ONNX Runtime's users rely on.

Each check has a worker of its own, so that an EP that crashes or hangs in one fails that one alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ortbench.core.ep_names import NO_DEVICE
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, Unsupported
from ortbench.measure.process import Client
from ortbench.model.modes import MODES, Mode
from ortbench.model.protocol import FAILED, NOT_OFFERED, PASSED, Check, Listed, ListedEp
from ortbench.plan.target import Inputs, Target

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
