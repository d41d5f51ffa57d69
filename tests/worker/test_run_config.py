"""Entries of ONNX Runtime's run options: they reach every run of every mode, and what is wrong with them is a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ortbench.model.modes import MODES
from tests.conftest import MODELS, ROOT, ortbench
from tests.refdevice import Config

TINY = str(MODELS / "tiny.onnx")
SHRINKS = "memory.enable_memory_arena_shrinkage"

LOOK = """
import json, sys
from ortbench.model.modes import MODES
from ortbench.plan.target import Inputs, Target
from ortbench.worker.modes import make_mode
from ortbench.worker.proofs import check_outputs
from ortbench.worker import first_run, providers, session

def entry(options, name):
    try:
        return options.get_run_config_entry(name)
    except Exception:  # there is none
        return None

class Watched:
    def __init__(self, session): self.session, self.seen = session, []
    def __getattr__(self, name): return getattr(self.session, name)
    def watch(self, options):
        names = ("a.b", "disable_synchronize_execution_providers")
        self.seen.append(None if options is None else [entry(options, name) for name in names])
    def run(self, names, feeds, options):
        self.watch(options)
        return self.session.run(names, feeds, options)
    def run_with_iobinding(self, binding, options):
        self.watch(options)
        return self.session.run_with_iobinding(binding, options)

target = Target(library=sys.argv[2], run_config={"a.b": "c"})
model = session.open_model(sys.argv[1], target, providers.find(target))
model.session = Watched(model.session)
data = first_run.make_data(sys.argv[1], model, Inputs())
found = {"": model.session.seen[:]}
for name in reversed(MODES):  # what a mode adds for itself would be seen in those after it
    del model.session.seen[:]
    made = make_mode(name, model, data)
    check_outputs(made, None, None)
    for call, a, b in made.phases().values():
        call(a, b)
    made.wait_idle()
    found[name] = model.session.seen[:]
print(json.dumps(found))
"""


@pytest.mark.process
def test_every_run_of_every_mode_has_it(real_library: Path) -> None:
    config = Config(alignment=0)
    done = subprocess.run(
        [sys.executable, "-c", LOOK, TINY, str(real_library)],
        cwd=ROOT, env={**os.environ, **config.environ()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.keys() == {"", *MODES}
    for mode, seen in found.items():
        assert seen, mode
        own = "1" if mode == "device-resident-async" else None
        assert {tuple(entries or ()) for entries in seen} == {("c", own)}, mode


@pytest.mark.process
@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("a" * 1025 + "=1", "--run-config: Config key is empty or longer than maximum length 1024"),
        (f"{SHRINKS}=tpu:0", f"the model refuses to run with --run-config {SHRINKS}=tpu:0 and synthetic inputs"),
    ],
)
def test_what_is_refused_is_a_line(entry: str, message: str, tmp_path: Path) -> None:
    ran = ortbench("run", TINY, "--ep", "cpu", "--run-config", entry, "--out", tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.error_line
