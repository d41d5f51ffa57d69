"""Every command on one execution provider that others made: which modes are measured, and what the other modes and commands say.

    [tests/software-gpu] python -m tests.benchmarks.real_eps [OPTION OF ortbench, such as --python ENV --iterations N --ep NAME]

Prints rows of a table: the command, its exit code, the modes that were measured, and why the others were not. Operators one by one are
`python -m tests.benchmarks.operators`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ortbench.core.eps import CPU_EP
from tests.conftest import MODELS

COMMANDS = {
    "devices": "",
    "run": "copy_bound.onnx --mode all --depth 3",
    "inspect": "copy_bound.onnx",
    "loop": "recurrent_cell.onnx --feedback hidden_out=hidden",
    "load": "tiny.onnx --concurrency 1,2 --duration 1",
}
NOT_TAKEN = {
    "devices": ("--ep", "--ep-option", "--iterations"),
    "inspect": ("--iterations",),
    "load": ("--iterations",),
}
TIMEOUT_S = 300


def modes_of(command: str, result: dict[str, Any]) -> tuple[str, list[str]]:
    """What a command's JSON says is possible or was measured, and why the rest was not."""
    if command == "devices":
        found = [
            (ep, [[mode for mode, why in it["modes"].items() if why is None] for it in ep["devices"]])
            for ep in result["eps"]
        ]
        shown = [
            f"{ep['name']}: {'; '.join(', '.join(modes) for modes in devices) or 'no device'}"
            for ep, devices in found
            if ep["name"] != CPU_EP
        ]
        return "<br>".join(shown), [f"{ep['name']}: {ep['problem']}" for ep, _ in found if ep["problem"]]
    if command == "inspect":
        return json.dumps(result["placement"]["nodes"]), []
    good = [
        named(case)
        + ("" if case["checks"].get("outputs") == {"verdict": "passed"} else " (not compared or other outputs)")
        for case in result["cases"]
        if case["status"] == "ok"
    ]
    bad = [case for case in result["cases"] if case["status"] != "ok"]
    return ", ".join(good), [f"{named(case)}: {case['status']}: {case['reason']}" for case in bad]


def named(case: dict[str, Any]) -> str:
    """A case by its mode and its place on the axes."""
    return " ".join([case["mode"], *(f"{axis}={value}" for axis, value in case["point"].items())])


def main(options: Sequence[str]) -> int:
    """Print every row; how many had a traceback, or no end."""
    bad = 0
    pairs = list(zip(options[::2], options[1::2], strict=True))
    with tempfile.TemporaryDirectory() as name:
        for command, given in COMMANDS.items():
            model, *others = given.split() or [""]
            target = [word for option in pairs if option[0] not in NOT_TAKEN.get(command, ()) for word in option]
            words = [*([str(MODELS / model)] if model else []), *others, "--json", "out.json", *target]
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "ortbench", command, *words],
                    cwd=name,
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                bad += 1
                print(f"| `{command}` | – | no end within {TIMEOUT_S} s | |", flush=True)
                continue
            bad += "Traceback" in done.stderr
            stored = Path(name, "out.json")
            good, lines = (
                modes_of(command, json.loads(stored.read_text()))
                if stored.exists()
                else ("", [done.stderr.strip()[-300:]])
            )
            stored.unlink(missing_ok=True)
            print(f"| `{command}` | {done.returncode} | {good} | {'<br>'.join(lines)} |", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
