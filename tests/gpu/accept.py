"""Everything that only a GPU can show, in one run: measures, checks, and writes a folder to keep.

    python -m tests.gpu.accept [--ep cuda] [--ep-library PATH] [--out DIR] [--minutes 9] [--part 1|2] [--only STEP] [--plan] [--quick]

It types the commands that users type, what matters most first (`tests.gpu.steps`), goes on after one that fails, and
keeps what it has when time runs out. Exit code: 0 if no check failed, 1 if one did, 2 for a folder that it cannot use.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from tests import installed  # before anything of ortbench is

# isort: split
from ortbench.measure.environment import cpu_model, git_commit
from ortbench.measure.gpus import nvidia_gpus
from tests.gpu import checks, subjects
from tests.gpu.checks import FAIL, NOT_RUN, PASS, Check
from tests.gpu.steps import FULL, QUICK, Step, Steps, planned_s

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = (
    "onnxruntime-gpu", "numpy", "onnx", "nvtx", "nvidia-ml-py", "cupti-python", "cuda-bindings", "nvidia-cudnn-cu13",
    "tensorrt", "torch", "cupy-cuda13x",
)  # fmt: skip
_TO_SAVE_S = 20.0  # for a command that is interrupted to save what it has
_TOO_LATE_S = 5.0  # with less left no step is begun
# Where nsys lies that is not on the PATH: Nsight Systems, or its part in Nsight Compute; installed, or in the pack.
_TOOLS = ("nsight-systems*", "nsight-systems/*", "nsight-compute/*/host")
_FOR_A_GUI = ("*.nsys-rep", "*.sqlite")  # large, and what is in them is in the other files too


class Ran(NamedTuple):
    """A step's command, and what came of it: `code` is None where it did not end by itself, and `said` says why."""

    step: Step
    code: int | None
    seconds: float
    said: str


class Acceptance:
    """One run through steps, which fills a folder."""

    def __init__(self, title: str, out: Path, steps: Sequence[Step], minutes: float) -> None:
        self.title, self.out, self.steps = title, out, steps
        self.begun = time.monotonic()
        self.available_s = minutes * 60 - _TO_SAVE_S
        self.ends = self.begun + self.available_s
        self.ran: list[Ran] = []
        self.checks: list[Check] = []
        self.results: dict[str, Any] = {}
        self.gpus = nvidia_gpus()

    def run(self, quick: bool) -> None:
        """All steps, in their order; the summary is written anew after each."""
        print(_budget(self.steps, self.available_s), flush=True)
        with tempfile.TemporaryDirectory(prefix="accept-") as models:
            link = self.out / "models"  # so that what is large is not kept, and paths in results are short
            link.symlink_to(models)
            try:
                subjects.write(Path(models), quick, decoder=any(step.generates for step in self.steps))
                for step in self.steps:
                    self._attempt(step)
            finally:
                link.unlink()

    def _attempt(self, step: Step) -> None:
        """What goes wrong in a step is a check that failed; the next one goes on."""
        try:
            if why := self._why_not(step):
                self._add(Check(step.title, NOT_RUN, why))
            else:
                self._run_and_check(step)
        except Exception as error:
            self._add(Check(f"{step.title}: the script itself", FAIL, f"{type(error).__name__}: {error}"))
        self.write_summary()

    def _add(self, found: Check) -> None:
        self.checks.append(found)
        print(found.line, flush=True)

    def _why_not(self, step: Step) -> str | None:
        """Why a step is not even tried."""
        basic = [ran.step.name for ran in self.ran if ran.step.basic]
        if basic and not step.basic and not set(basic) & set(self.results):
            return f"the EP ran nothing yet: {', '.join(basic)} left no result"
        modules = [name for name in step.modules if importlib.util.find_spec(name) is None]
        path = _environment()["PATH"]
        programs = [f"{name} on the PATH" for name in step.programs if shutil.which(name, path=path) is None]
        if modules or programs:
            return f"not installed: {', '.join(modules + programs)}"
        return "no time was left" if self.ends - time.monotonic() < _TOO_LATE_S else None

    def _run_and_check(self, step: Step) -> None:
        folder = self.out / step.name
        folder.mkdir()
        ran = self._run(step)
        data = _collect(folder, step)
        if data is None:
            self._add(checks.without_result(step.title, ran.code, ran.said, step.refusals))
            return
        self.results[step.name] = data
        for name, show in step.shows.items():
            self._add(show(name, data))
        if ran.code not in (0, None) and self.checks[-1].verdict == PASS:
            self._add(Check(f"{step.title}: exit code", FAIL, ran.said))

    def _run(self, step: Step) -> Ran:
        """Run a step's command in the folder of the run, so that its paths are short and none of this machine's."""
        begun = time.monotonic()
        limit = min(step.limit_s, self.ends - begun)
        print(f"\n== {step.name}: {_typed(step)}", flush=True)
        ended, said = self._wait([sys.executable, "-m", *step.line], limit)
        last = said.splitlines()[-1].removeprefix("ortbench: ") if said else ""
        if ended is None:
            last = f"it was stopped after {limit:.0f} s{': ' if last else ''}{last}"
        elif ended != 0 and not last:
            last = f"it ended with exit code {ended}"
        print(said, file=sys.stderr, flush=True)
        ran = Ran(step, ended, time.monotonic() - begun, last)
        self.ran.append(ran)
        return ran

    def _wait(self, line: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """Exit code and standard error; a command that is not done in time is interrupted, so that it saves what it has."""
        with tempfile.TemporaryFile() as errors:
            streams = {"stderr": errors, "stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
            process = subprocess.Popen(line, cwd=self.out, env=_environment(), **streams)  # type: ignore[call-overload]
            code: int | None = None
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_TO_SAVE_S)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            errors.seek(0)
            return code, errors.read().decode(errors="replace").strip()

    def write_summary(self) -> None:
        """What was found so far, on one page."""
        (self.out / "summary.md").write_text("\n".join([self.findings(), *self._step_table()]))

    def findings(self) -> str:
        """The page without the commands."""
        return "\n".join([*self._heading(), *self._check_table()])

    def _heading(self) -> list[str]:
        versions = ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name)))
        measured = [result["environment"] for result in self.results.values() if "environment" in result]
        runtime = f"ONNX Runtime {measured[0]['onnxruntime']}; " if measured else ""
        named = (it for it in self.gpus if "name" in it)
        cards = [f"{it['name']}, driver {it['driver']}, {it['memory_bytes'] / 2**30:.0f} GiB" for it in named]
        count = {verdict: sum(check.verdict == verdict for check in self.checks) for verdict in (PASS, FAIL, NOT_RUN)}
        return [
            f"# {self.title}: {count[PASS]} passed, {count[FAIL]} failed, {count[NOT_RUN]} not run",
            "",
            f"- GPU: {'; '.join(cards) or 'no NVIDIA GPU'}",
            f"- CPU: {cpu_model()}, {os.cpu_count()} cores; {platform.system()} {platform.release()}",
            f"- Python {platform.python_version()}; {runtime}{versions}",
            f"- ortbench at commit {_commit()}",
            f"- {datetime.now(UTC).isoformat(timespec='seconds')}, {time.monotonic() - self.begun:.0f} s in all; "
            f"{_budget(self.steps, self.available_s)}",
            "",
        ]

    def _check_table(self) -> list[str]:
        rows = [f"| {check.verdict} | {_cell(check.name)} | {_cell(check.figures)} |" for check in self.checks]
        return ["| | check | figures and limit, or why it was not run |", "|---|---|---|", *rows, ""]

    def _step_table(self) -> list[str]:
        rows = [
            f"| {ran.step.name} | {'stopped' if ran.code is None else ran.code} | {ran.seconds:.1f} s | "
            f"{ran.step.planned_s:.0f} s | `{_cell(_typed(ran.step))}` |"
            for ran in self.ran
        ]
        return ["| step | exit code | time | planned | command |", "|---|---|---|---|---|", *rows, ""]


def _typed(step: Step) -> str:
    """A step's command as it is typed."""
    return " ".join(["python", "-m", *step.line])


def _collect(folder: Path, step: Step) -> Any:
    """The main file of a step, parsed, when its folder has been put in order; None if there is none, or nothing in it."""
    for inner in [path.parent for path in folder.glob(f"*/{step.leaves}")]:
        for path in inner.glob("[!.]*"):  # out of the folder that ortbench has made for this run
            shutil.move(path, folder / path.name)
        shutil.rmtree(inner)
    for pattern in _FOR_A_GUI:
        for path in folder.glob(pattern):
            path.unlink()
    for path in folder.glob("*.json"):  # without the folders in which this machine keeps its packages
        text = path.read_text()
        for place in filter(None, sys.path):
            text = text.replace(f"{place}{os.sep}", "")
        path.write_text(text)
    main = folder / step.leaves
    try:
        data = json.loads(main.read_text()) if main.is_file() else {}
        streamed = {"streamed": True} if any(folder.glob("*.qdstrm")) else {}
        return {**data, **streamed} if data and data.get("cases") != [] else None
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # if it is empty


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [installed.importable, os.environ.get("PYTHONPATH")]))
    roots = [Path(root or ".") for root in ("/opt/nvidia", *sys.path)]
    tools = (str(it) for pattern in _TOOLS for root in roots for it in root.glob(f"{pattern}/target-linux-x64"))
    found = os.pathsep.join([os.environ["PATH"], *tools])
    return {**os.environ, "PATH": found, "PYTHONPATH": path, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


def _budget(steps: Sequence[Step], available_s: float) -> str:
    return f"{len(steps)} steps, planned to take {planned_s(steps):.0f} s of {max(available_s, 0):.0f} s at most"


def _cell(text: str) -> str:
    """Text in a cell of a table; where this checkout and its library lie is nobody's business."""
    return text.replace(f"{ROOT}{os.sep}", "").replace("|", "\\|")


def _commit() -> str:
    with contextlib.chdir(ROOT):
        return git_commit() or "unknown: not a checkout"


def _version(package: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.accept", description="Measure and check on a GPU.")
    parser.add_argument("--ep", default="cuda", help="execution provider, as for ortbench run")
    parser.add_argument("--ep-library", metavar="PATH", help="a plugin EP's library, in place of --ep")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder (default: reports/gpu-EP-TIME)")
    parser.add_argument("--minutes", type=float, default=9.0, help="for everything; what is done by then is kept")
    parser.add_argument("--only", action="append", metavar="STEP", help="only steps whose names match; repeatable")
    parser.add_argument("--part", choices=("1", "2"), help="of the run: 1 is worth most, 2 is everything else")
    parser.add_argument("--plan", action="store_true", help="print steps and minutes, and run none")
    parser.add_argument("--quick", action="store_true", help="small models and few runs, to try the script itself")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """The whole run; returns the exit code."""
    arguments = _arguments(given)
    library = arguments.ep_library and str(Path(arguments.ep_library).resolve())
    made = Steps(arguments.ep if library is None else "auto", library, QUICK if arguments.quick else FULL).parts()
    wanted = arguments.only or ["*"]
    steps = []
    for part, every in made.items():
        chosen = [step for step in every if any(fnmatch(step.name, pattern) for pattern in wanted)]
        if chosen and arguments.part in (part, None):
            steps += chosen
            if arguments.plan:
                print(f"part {part}: {_budget(chosen, arguments.minutes * 60 - _TO_SAVE_S)}")
                for step in chosen:
                    print(f"{step.name:22} {step.planned_s:4.0f} s, at most {step.limit_s:4.0f} s  {_typed(step)}")
    if not steps:
        print(f"accept: --only {' '.join(wanted)}: there is no such step; --plan prints them", file=sys.stderr)
        return 2
    if arguments.plan:
        return 0
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    out: Path = (arguments.out or ROOT / "reports" / f"gpu-{Path(library or arguments.ep).stem}-{stamp}").resolve()
    try:
        out.mkdir(parents=True)
    except OSError as error:
        print(f"accept: --out {out}: {error.strerror}", file=sys.stderr)
        return 2
    title = f"--ep {arguments.ep}" if library is None else Path(library).name
    run = Acceptance(title, out, steps, arguments.minutes)
    try:
        run.run(arguments.quick)
    except KeyboardInterrupt:
        run.checks.append(Check("the run", NOT_RUN, "it was interrupted; what is here was measured before"))
    finally:
        run.write_summary()
    print(f"\n{run.findings()}\nSaved in {out}")
    return int(any(check.verdict == FAIL for check in run.checks))


if __name__ == "__main__":
    sys.exit(main())
