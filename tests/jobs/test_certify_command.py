"""`ortbench doctor --certify` from the command line to the file that is kept, on the reference device in virtual time; and a run that has it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ortbench.__main__ import main
from ortbench.features.certificate import job
from ortbench.model.certificate import KeptCertificate, identify
from ortbench.model.modes import LATENCY
from ortbench.plan.plan import Loop, Plan
from ortbench.plan.target import Target
from tests.conftest import MODELS, ONCE, ortbench
from tests.gate.test_certificate import CERTIFICATE

DEVICE = "ORTBENCH_TESTS_DEVICE"  # the library


def of_the_device(folder: Path, python: str | None, budget_s: float) -> list[Plan]:
    """A model of 10 ms twice, and one that takes 5 % longer."""
    loop = Loop(duration_s=budget_s, precision=None, processes=1, phases=(LATENCY,))
    return [
        Plan(str(MODELS / "tiny.onnx"), Target(library=os.environ[DEVICE], options={"compute_us": us}), modes=("cpu-tensors",), loop=loop)
        for us in ("10000", "10000", "10500")
    ]  # fmt: skip


def main_on_the_device() -> None:
    with patch.object(job, "plans_of", of_the_device):
        main()


def test_a_certificate_of_a_device_without_noise(library: Path, tmp_path: Path) -> None:
    state = {"ORTBENCH_STATE": str(tmp_path), DEVICE: str(library)}
    state["ORTBENCH_TESTS_MAIN"] = f"{__name__}:{main_on_the_device.__name__}"
    ran = ortbench("doctor", "--certify", "30s", "--json", "-", **state)
    said = "ortbench: certifying this machine takes about 30 s; Ctrl-C ends it with what was measured\n"
    assert (ran.code, ran.err) == (0, said)
    kept = json.loads((tmp_path / "certificate.json").read_text())
    found = json.loads(ran.out)["certificate"]
    assert found == kept["certificate"]
    shares = [(2.0, 0.0, False), (10.0, 0.0, True), (60.0, 0.0, True)]
    assert [tuple(it.values()) for it in found["detectable"]] == shares
    gates = found["gates"]  # as many as there was time for beside the opening of workers
    assert gates > 15
    told = [found[key] for key in ("busy", "model_ns", "alarms", "planted_gates", "found", "runs", "between_runs")]
    assert told == [False, 10_024_032, 0, gates, gates, 3, 0.0]


def test_a_run_has_the_certificate_of_its_machine_while_it_holds(tmp_path: Path) -> None:
    state = {"ORTBENCH_STATE": str(tmp_path), "COLUMNS": "200"}

    def environment() -> Any:
        words = ("--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--out", tmp_path / "out", "--json", "-")
        return json.loads(ortbench("run", MODELS / "tiny.onnx", *words, **state).out)["environment"]

    bare = environment()
    assert "certificate" not in bare
    kept: KeptCertificate = {"machine": identify(bare), "certificate": CERTIFICATE, "runs": []}
    (tmp_path / "certificate.json").write_text(json.dumps(kept))
    assert environment()["certificate"] == CERTIFICATE
    said = ortbench("doctor", "--no-noise", **state).out
    assert "\ngood This machine tells 3% in 10 s, 1 of 120 false alarms (certificate of 2026-11-29)\n" in said
    kept["machine"]["system"] = "Linux-1"
    (tmp_path / "certificate.json").write_text(json.dumps(kept))
    assert "certificate" not in environment()
    said = ortbench("doctor", "--no-noise", **state).out
    why = f"not used any more: system: Linux-1 → {bare['os']}\n     try: ortbench doctor --certify\n"
    assert f"\nnote the certificate of 2026-11-29 is {why}" in said
