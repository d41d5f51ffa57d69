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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests import installed  # before anything of ortbench is

# isort: split
from ortbench.core.units import duration
from ortbench.measure.environment import cpu_model, git_commit
from ortbench.measure.gpus import nvidia_gpus
from ortbench.model.modes import CPU, LATENCY
from tests.gpu import checks, subjects
from tests.gpu.checks import FAIL, NOT_RUN, PASS, Check
from tests.gpu.steps import BATCHED, COPY, FULL, IMAGE, QUICK, TRANSFORMER, Left, Show, Step, Steps, planned_s

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = (
    "onnxruntime-gpu", "numpy", "onnx", "nvtx", "nvidia-ml-py", "cupti-python", "cuda-bindings", "nvidia-cudnn-cu13",
    "tensorrt", "torch", "cupy-cuda13x",
)  # fmt: skip
_TO_SAVE_S = 20.0  # for a command that is interrupted to save what it has
_TOO_LATE_S = 5.0  # with less left no step is begun
# Where nsys lies that is not on the PATH: Nsight Systems, or its part in Nsight Compute; installed, or in the pack.
_TOOLS = (
    "nsight-systems*/target-linux-x64",
    "nsight-systems/*/target-linux-x64",
    "nsight-compute/*/host/target-linux-x64",
)
_FOR_A_GUI = ("*.nsys-rep", "*.sqlite")  # large, and what is in them is in the other files too


@dataclass
class Ran:
    """A step's command, and what came of it: `code` is None where it did not end by itself, and `said` says why."""

    step: Step
    command: str
    code: int | None
    seconds: float
    said: str


class Acceptance:
    """One run through steps, which fills a folder."""

    def __init__(self, title: str, out: Path, steps: Sequence[Step], minutes: float) -> None:
        self.title, self.out, self.steps = title, out, steps
        self.begun = time.monotonic()
        self.available_s = minutes * 60 - _TO_SAVE_S
        self.ran: list[Ran] = []
        self.checks: list[Check] = []
        self.results: dict[str, Any] = {}
        self.gpus = nvidia_gpus()

    @property
    def left_s(self) -> float:
        """For the next step."""
        return self.begun + self.available_s - time.monotonic()

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
                    if self._is_lost():
                        lost = f"NVML no longer shows the GPU of before; nothing follows {step.name}"
                        self._add(Check("the run", FAIL, lost))
                        break
            finally:
                link.unlink()

    def _is_lost(self) -> bool:
        """Whether a GPU that was there is gone: what came behind would say nothing, and cost its time."""
        names, now = ([gpu.get("name") for gpu in gpus] for gpus in (self.gpus, nvidia_gpus()))
        return names != now

    def _attempt(self, step: Step) -> None:
        """What goes wrong in a step is a check that failed; the next one goes on."""
        try:
            why = self._why_not(step)
            self._add(*([Check(step.title, NOT_RUN, why)] if why else self._checked(step)))
        except Exception as error:
            self._add(Check(f"{step.title}: the script itself", FAIL, f"{type(error).__name__}: {error}"))
        self.write_summary()

    def _add(self, *found: Check) -> None:
        self.checks += found
        for check in found:
            print(check.line, flush=True)

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
        return "no time was left" if self.left_s < _TOO_LATE_S else None

    def _checked(self, step: Step) -> list[Check]:
        """Run a step, and check what it left."""
        folder = self.out / step.name
        folder.mkdir()
        ran = self._run(step)
        data = _collect(folder, step)
        if data is None:
            return [checks.without_result(step.title, ran.code, ran.said, step.refusals)]
        self.results[step.name] = data
        left = Left(step.title, data, any(folder.glob("*.qdstrm")))
        shown = [_shown(show, left) for show in step.shows]
        if ran.code not in (*step.codes, None) and all(check.verdict == PASS for check in shown):
            shown.append(Check(f"{step.title}: exit code", FAIL, ran.said))
        return shown

    # Commands

    def _run(self, step: Step) -> Ran:
        """Run a step's command in the folder of the run, so that its paths are short and none of this machine's."""
        words, limit = _typed(step), min(step.limit_s, self.left_s)
        print(f"\n== {step.name}: {words}", flush=True)
        begun = time.monotonic()
        ended, said = self._wait([sys.executable, "-m", *step.line], limit)
        last = said.splitlines()[-1].removeprefix("ortbench: ") if said else ""
        if ended is None:
            last = f"it was stopped after {limit:.0f} s{': ' if last else ''}{last}"
        elif ended != 0 and not last:
            last = f"it ended with exit code {ended}"
        print(said, file=sys.stderr, flush=True)
        ran = Ran(step, words, ended, time.monotonic() - begun, last)
        self.ran.append(ran)
        return ran

    def _wait(self, line: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """Exit code and standard error; a command that is not done in time is interrupted, so that it saves what it has."""
        with tempfile.TemporaryFile() as errors:
            nowhere = subprocess.DEVNULL
            process = subprocess.Popen(
                line, cwd=self.out, env=_environment(), stderr=errors, stdout=nowhere, stdin=nowhere
            )
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

    # The summary

    def write_summary(self) -> None:
        """What was found so far, on one page."""
        (self.out / "summary.md").write_text("\n".join([self.findings(), *self._step_table()]))

    def findings(self) -> str:
        """The page without the commands."""
        return "\n".join([*self._heading(), *self._figures(), *self._check_table()])

    def _heading(self) -> list[str]:
        versions = ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name)))
        measured = [result["environment"] for result in self.results.values() if "environment" in result]
        runtime = f"ONNX Runtime {measured[0]['onnxruntime']}; " if measured else ""
        cards = [
            f"{gpu['name']}, driver {gpu['driver']}, {gpu['memory_bytes'] / 2**30:.0f} GiB"
            for gpu in self.gpus
            if "name" in gpu
        ]
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

    def _figures(self) -> list[str]:
        """The median of each mode and model, by batch where there are several, and how many times as fast as `cpu-tensors` it is."""
        columns: dict[str, dict[str, Any]] = {}
        for name in (COPY, IMAGE, TRANSFORMER, BATCHED, f"{BATCHED}-graph"):
            for case in self.results.get(name, {"cases": []})["cases"]:
                batch, graph = case["point"].get("batch"), ", CUDA graph" if name.endswith("-graph") else ""
                column = name.removesuffix("-graph") + (f", batch {batch}" if batch else "")
                columns.setdefault(column, {})[f"{case['mode']}{graph}"] = case
        modes = dict.fromkeys(mode for cases in columns.values() for mode in cases)
        rows = [
            f"| {mode} | {' | '.join(_figure(cases.get(mode), cases.get(CPU)) for cases in columns.values())} |"
            for mode in modes
        ]
        if not rows:
            return []
        return [f"| median latency, and speedup | {' | '.join(columns)} |", f"|---{'|---' * len(columns)}|", *rows, ""]

    def _check_table(self) -> list[str]:
        rows = [f"| {check.verdict} | {_cell(check.name)} | {_cell(check.figures)} |" for check in self.checks]
        return ["| | check | figures and limit, or why it was not run |", "|---|---|---|", *rows, ""]

    def _step_table(self) -> list[str]:
        rows = [
            f"| {ran.step.name} | {'stopped' if ran.code is None else ran.code} | {ran.seconds:.1f} s | "
            f"{ran.step.planned_s:.0f} s | `{_cell(ran.command)}` |"
            for ran in self.ran
        ]
        return ["| step | exit code | time | planned | command |", "|---|---|---|---|---|", *rows, ""]


def _typed(step: Step) -> str:
    """A step's command as it is typed."""
    return " ".join(["python", "-m", *step.line])


def _shown(show: Show, left: Left) -> Check:
    """A check; one that goes wrong itself has failed and costs no other."""
    try:
        return show(left)
    except Exception as error:
        return Check(f"{left.title}: the script itself", FAIL, f"{type(error).__name__}: {error}")


def _collect(folder: Path, step: Step) -> Any:
    """The main file of a step, parsed, when its folder has been put in order; None if there is none, or nothing in it."""
    for inner in [path.parent for path in folder.glob(f"*/{step.leaves}")]:
        for path in inner.glob("[!.]*"):  # out of the folder that ortbench has made for this run
            shutil.move(path, folder / path.name)
        shutil.rmtree(inner)
    for pattern in _FOR_A_GUI:
        for path in folder.glob(pattern):
            path.unlink()
    for path in folder.glob("*.json"):
        path.write_text(_without_places(path.read_text()))
    main = folder / step.leaves
    try:
        data = json.loads(main.read_text()) if main.is_file() else None
        return data if data is None or data.get("cases") != [] else None
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # if it is empty


def _without_places(text: str) -> str:
    """Text without the folders in which this machine keeps its packages."""
    for place in filter(None, sys.path):
        text = text.replace(f"{place}{os.sep}", "")
    return text


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [installed.importable, os.environ.get("PYTHONPATH")]))
    tools = (
        folder
        for pattern in _TOOLS
        for root in ("/opt/nvidia", *sys.path)
        for folder in Path(root or ".").glob(pattern)
    )
    found = os.pathsep.join([os.environ["PATH"], *(str(folder) for folder in tools)])
    return {**os.environ, "PATH": found, "PYTHONPATH": path, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


def _budget(steps: Sequence[Step], available_s: float) -> str:
    return f"{len(steps)} steps, planned to take {planned_s(steps):.0f} s of {max(available_s, 0):.0f} s at most"


def _figure(case: Any, cpu: Any) -> str:
    found = None if case is None else checks.median(case, LATENCY)
    if found is None or case["status"] != "ok":
        return "–" if case is None else case["status"]
    before = None if cpu is None else checks.median(cpu, LATENCY)
    ratio = case["speedup"]["value"] if case["speedup"] else before and before / max(found, 1)
    return f"{duration(found)}{f', {ratio:.2f}×' if ratio else ''}"


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


def _print_plan(parts: Mapping[str, Sequence[Step]], minutes: float) -> None:
    for part, steps in parts.items():
        print(f"part {part}: {_budget(steps, minutes * 60 - _TO_SAVE_S)}")
        for step in steps:
            print(f"{step.name:22} {step.planned_s:4.0f} s, at most {step.limit_s:4.0f} s  {_typed(step)}")


def main(given: Sequence[str] | None = None) -> int:
    """The whole run; returns the exit code."""
    arguments = _arguments(given)
    library = arguments.ep_library and str(Path(arguments.ep_library).resolve())
    made = Steps(arguments.ep if library is None else "auto", library, QUICK if arguments.quick else FULL).parts()
    wanted = arguments.only or ["*"]
    parts = {
        part: chosen
        for part, steps in made.items()
        if arguments.part in (part, None)
        and (chosen := [step for step in steps if any(fnmatch(step.name, pattern) for pattern in wanted)])
    }
    steps = [step for part in parts.values() for step in part]
    if not steps:
        print(f"accept: --only {' '.join(wanted)}: there is no such step; --plan prints them", file=sys.stderr)
        return 2
    if arguments.plan:
        _print_plan(parts, arguments.minutes)
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
