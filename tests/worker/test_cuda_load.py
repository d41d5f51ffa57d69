"""A load on softcuda's card, whose clock falls while it has nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.features.load.analysis import load_cases
from ortbench.model.result_file import load
from tests.conftest import MODELS, ortbench
from tests.expect import there
from tests.softcuda import Card, Config
from tests.worker.test_cuda import with_knobs

pytestmark = pytest.mark.process


def test_a_card_that_dozes_between_requests_takes_longer(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """The clock falls to 210 of 1000 MHz after 0.1 s, and a request comes each 0.33 s: a kernel takes 4.8 times as long. The
    first request may still meet a card that is awake, so there must be enough others."""
    card = Card(tmp_path / "card", doze_ms=100, doze_mhz=210)
    prefix = with_knobs(software_cuda, Config(kernel_us=20_000, card=card.path))
    asked = ("--ep", "cuda", "--mode", "device-resident", "--rate", 3, "--arrivals", "uniform", "--duration", 5)
    ran = ortbench("load", MODELS / "tiny.onnx", *asked, "--warmup", 1, "--out", tmp_path / "out", prefix=prefix)
    assert ran.code == 0, ran.err
    (path,) = (tmp_path / "out").glob("load-*/result.json")
    result = load(path)
    (level,) = load_cases(result)
    alone = there(result.case("device-resident"))
    assert (alone.value("sm_clock"), level.value("sm_clock")) == (1000, 210)
    # That it is said, and not on a busy machine, is held by tests/facts/test_load.py.
    slow, quick = there(level.stats("service_time")), there(alone.stats("latency"))
    assert slow.median > 1.5 * quick.median
