"""Copies alone: the check of their data, memory by ORT's name for a device, and which sync ends an upload."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ortbench.features.bandwidth import worker as copies
from ortbench.features.bandwidth.worker import Copies, CopyPair
from ortbench.model.modes import D2H, H2D, ORDINARY, READBACK, RUN
from ortbench.plan.target import Target
from ortbench.worker.memory import Copy, NamedDeviceMemory
from ortbench.worker.providers import Provider
from ortbench.worker.sync import Sync, Work
from ortbench.worker.tensors import Array, TensorSpec
from tests.expect import there

Wire = Callable[[Array, Array, str], None]


class Faulty(NamedDeviceMemory):
    """Memory that is an array; its copies go through `wire`, which may lose or change data."""

    def __init__(self, wire: Wire) -> None:
        super().__init__("faulty", 0)
        self._wire = wire

    def allocate(self, spec: TensorSpec, shape: Sequence[int]) -> Any:
        return np.zeros(shape, spec.dtype)

    def upload(self, specs: Sequence[TensorSpec], sources: Sequence[Array], targets: Sequence[Any]) -> Copy:
        return lambda: self._wire(targets[0], sources[0], H2D)

    def download(self, specs: Sequence[TensorSpec], sources: Sequence[Any], targets: Sequence[Array]) -> Copy:
        return lambda: self._wire(targets[0], sources[0], D2H)


def keeping(part: slice, *ways: str) -> Wire:
    """A wire that copies but this part in some directions."""

    def wire(target: Array, source: Array, way: str) -> None:
        copied = part if way in ways else slice(None)
        target[copied] = source[copied]

    return wire


@pytest.mark.parametrize(
    ("size", "wire", "least", "first"),
    [
        (5000, keeping(slice(0), H2D), 4900, 0),  # not even the poison arrives: what comes back are the device's zeros
        (5000, keeping(slice(0), D2H), 4900, 0),
        (2_500_000, keeping(slice(-2), H2D, D2H), 2, 2_499_998),
    ],
)
def test_copies_that_lose_data_are_seen(size: int, wire: Wire, least: int, first: int) -> None:
    wrong = there(CopyPair(size, Faulty(wire), None, seed=1).round_trip())
    assert wrong.endswith(f" byte(s) differ after a copy to the device and back, first at {first}")
    assert int(wrong.split()[0]) >= least


def test_a_download_that_is_late_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[tuple[Array, Array]] = []

    def wire(target: Array, source: Array, way: str) -> None:
        if way == H2D:
            target[...] = source
        else:
            late.append((target, source))

    def equal_then_arrive(a: Array, b: Array) -> bool:
        was = bool((a == b).all())
        for target, source in late:
            target[...] = source
        return was

    pair = CopyPair(1000, Faulty(wire), None, seed=1)
    monkeypatch.setattr("ortbench.features.bandwidth.worker.np.array_equal", equal_then_arrive)
    assert pair.round_trip() == "a device to host copy returned before its data were there"


# "cpu" is the one device name that works everywhere; "dml" and "cuda" take the same calls.
@pytest.fixture
def by_name(monkeypatch: pytest.MonkeyPatch) -> Copies:
    """Copies of an EP whose memory ORT knows by the device's name alone."""
    monkeypatch.setattr(
        "ortbench.features.bandwidth.worker.providers.find", lambda target: Provider("DmlExecutionProvider")
    )
    monkeypatch.setattr(copies, "device_memory", lambda provider: NamedDeviceMemory("cpu", 0))
    made = Copies(Target(ep="dml"), seed=2)
    for size in (4000, 64_000, 1_000_000):
        assert made.add(ORDINARY, size, free=1 << 30) is None
    return made


BY_COPY, BY_TOKEN, BY_READING = "the copy waits", "a token waits", "only reading all back waits"


@pytest.mark.parametrize(
    ("verdicts", "kind", "waits_for"),
    [
        ([BY_COPY, BY_COPY], RUN, None),
        ([BY_TOKEN, BY_READING, BY_COPY, BY_COPY], RUN, None),  # noise can only make a proof doubt
        ([BY_COPY, BY_TOKEN, BY_TOKEN, BY_TOKEN], READBACK, "token"),  # the large one needs it, so all have it
        ([BY_TOKEN, BY_READING, BY_READING, BY_COPY], READBACK, "token"),
        ([BY_READING, BY_READING, BY_READING, BY_COPY], READBACK, "its own download"),
    ],
)
def test_one_sync_ends_all_uploads_from_a_memory(
    verdicts: list[str], kind: str, waits_for: str | None, by_name: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(verdicts)

    def token() -> None:
        """Told apart by identity."""

    def prove(work: Work) -> Sync:
        waits = {BY_COPY: (RUN, None), BY_TOKEN: (READBACK, work.token), BY_READING: (READBACK, work.readback)}
        kind, wait = waits[next(left)]
        return Sync(kind, wait, 5, "")

    monkeypatch.setattr(copies, "_memory_readback", lambda memory: token)
    monkeypatch.setattr(copies, "prove", prove)
    assert by_name.prove(ORDINARY).kind == kind
    assert list(left) == []
    for pair in by_name.pairs(ORDINARY).values():
        assert pair.h2d_sync is not None
        expected = {None: None, "token": token, "its own download": pair.download}[waits_for]
        assert (pair.h2d_sync.kind, pair.h2d_sync.wait) == (kind, expected)


def test_a_synced_upload_waits_after_the_copy(by_name: Copies) -> None:
    calls: list[str] = []
    pair = by_name.pairs(ORDINARY)[4000]
    pair.upload = lambda: calls.append("h2d")
    pair.h2d_sync = Sync(READBACK, lambda: calls.append("wait"), 0, "")
    call, a, b = pair.phases()[H2D]
    call(a, b)
    assert calls == ["h2d", "wait"]
