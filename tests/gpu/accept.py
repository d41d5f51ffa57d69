"""Everything that only a GPU can show, in one run: measures, checks, and writes a folder to keep.

    python -m tests.gpu.accept [--ep cuda] [--ep-library PATH] [--out DIR] [--minutes 8] [--quick]

It types the commands that users type, goes on after a step that fails, and keeps what it has when time runs out. Exit
code: 0 if no check failed, 1 if one did, 2 for a folder that it cannot use.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ortbench.environment import cpu_model, git_commit
from ortbench.gpus import nvidia_gpus
from tests.gpu import checks, subjects
from tests.gpu.checks import FAIL, NOT_RUN, PASS, Check

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("onnxruntime-gpu", "onnxruntime", "numpy", "onnx", "nvtx", "cupti-python")
# The EPs that NVIDIA's CUPTI sees, as they are typed.
NVIDIA_EPS = ("cuda", "tensorrt", "nv-tensorrt-rtx")
_TO_SAVE_S = 20.0  # for a command that is interrupted to save what it has
_TOO_LATE_S = 10.0  # with less left no step is begun


@dataclass(frozen=True)
class Scale:
    """How much is measured; limits are those of one step, in seconds, and fit into eight minutes together."""

    run: tuple[str, ...]
    sweep: tuple[str, ...]
    direct_s: float
    run_limit_s: float = 95.0
    sweep_limit_s: float = 80.0
    direct_limit_s: float = 70.0
    short_limit_s: float = 30.0


FULL = Scale(run=("--duration", "8"), sweep=("--duration", "20"), direct_s=16.0)
QUICK = Scale(run=("--iterations", "12", "--warmup", "2"), sweep=("--max-size", "1MB", "--duration", "2"), direct_s=2.0)


@dataclass
class Step:
    """A command that was run, and what came of it: `code` is None where it was not, and `said` says why."""

    name: str
    command: str
    code: int | None
    seconds: float
    said: str


class Acceptance:
    """One run.

    Args:
        ep: as it is typed.
        library: of a plugin EP that is no package, or None.
        out: the folder to fill.
        scale: how much is measured.
        minutes: for all of it.
        work: a folder for what is not kept.
    """

    def __init__(self, ep: str, library: str | None, out: Path, scale: Scale, minutes: float, work: Path) -> None:
        self.target = ["--ep", ep] if library is None else ["--ep-library", library]
        self.ep, self.library = ep if library is None else "auto", library
        self.out, self.scale, self.work = out, scale, work
        self.begun = time.monotonic()
        self.ends = self.begun + minutes * 60
        self.steps: list[Step] = []
        self.checks: list[Check] = []
        self.gpus = nvidia_gpus()

    def run(self, quick: bool) -> None:
        """All steps, in the order of their weight; the summary is written anew after each."""
        models = subjects.write(self.work, quick)
        for subject in models:
            self._attempt(lambda subject=subject: self._measure(subject))  # type: ignore[misc]
        tiny = str(ROOT / "models" / "tiny.onnx")
        # A real model, so that launching it is nothing beside it; one whose arithmetic is slow would drown in noise.
        self._attempt(lambda: self._direct(tiny if quick else models[1].arguments[0], tiny))
        self._attempt(self._sweep)
        self._attempt(self._page)

    def _attempt(self, step: Callable[[], None]) -> None:
        """What goes wrong in a step is a check that failed; the next one goes on."""
        try:
            step()
        except Exception as error:
            self._add(Check("the script itself", FAIL, f"{type(error).__name__}: {error}"))
        self.write_summary()

    def _add(self, *found: Check) -> None:
        self.checks += found
        for check in found:
            print(check.line, flush=True)

    # The steps

    def _measure(self, subject: subjects.Subject) -> None:
        """`ortbench run`, and the checks of its result."""
        cupti = ["--measure-copies"] if self.library is None and self.ep in NVIDIA_EPS else []
        arguments = [*subject.arguments, *self.target, *self.scale.run, *cupti]
        step = self._ortbench(subject.name, "run", arguments, self.scale.run_limit_s)
        path = self.out / subject.name / "result.json"
        found = json.loads(path.read_text()) if path.is_file() else None
        if found is None or not found["cases"]:
            # It ended by itself and has no result: the EP does not load, say. Without time it was never tried.
            verdict = NOT_RUN if step.code is None else FAIL
            self._add(Check(f"{subject.name}: outputs equal in all modes", verdict, step.said))
            return
        self._add(checks.outputs(subject.name, found))
        if subject.name == subjects.COPY:
            self._add(
                checks.zero_copy(found),
                checks.cupti_phases(found),
                checks.derived_copies(found),
                checks.published_sample(found),
            )

    def _direct(self, model: str, tiny: str) -> None:
        """The fence and the loop, in a process of their own."""
        arguments = [model, tiny, self.ep, self.library or "", self.scale.direct_s]
        line = [sys.executable, "-m", "tests.gpu.direct", *map(str, arguments)]
        output = self.work / "direct.json"
        step = self._command("fence and loop", line, self.scale.direct_limit_s, self.work, output)
        if step.code != 0:
            verdict = NOT_RUN if step.code is None else FAIL
            self._add(Check("the fence holds", verdict, step.said), Check("loop cost", verdict, step.said))
            return
        found = json.loads(output.read_text().splitlines()[-1])
        (self.out / "fence-and-loop.json").write_text(json.dumps(found, indent=2) + "\n")
        self._add(checks.fence(found["fence"]), checks.loop_cost(found["loop"]))

    def _sweep(self) -> None:
        """`ortbench bandwidth`, where this version has it."""
        self._optional(
            "copy bandwidth over sizes", "bandwidth", [*self.target, *self.scale.sweep], self.scale.sweep_limit_s
        )

    def _page(self) -> None:
        """`ortbench report`, where this version has it and its packages are installed."""
        results = [f"{name}/result.json" for name in (subjects.COPY, subjects.IMAGE, subjects.TRANSFORMER)]
        there = [path for path in results if (self.out / path).is_file()]
        if not there:
            self._add(Check("the HTML page", NOT_RUN, "there is no result to make it of"))
            return
        missing = [name for name in ("jinja2", "matplotlib") if not _is_installed(name)]
        if missing and self._offers("report"):
            self._add(Check("the HTML page", NOT_RUN, f"not installed: {', '.join(missing)}"))
            return
        self._optional("the HTML page", "report", [*there, "--html", "report.html"], self.scale.short_limit_s)

    def _optional(self, name: str, command: str, arguments: Sequence[str], limit_s: float) -> None:
        if not self._offers(command):
            self._add(Check(name, NOT_RUN, f"this version has no `ortbench {command}`"))
            return
        step = self._ortbench(command, command, arguments, limit_s)
        verdict = NOT_RUN if step.code is None else PASS if step.code == 0 else FAIL
        self._add(Check(name, verdict, step.said or f"done in {step.seconds:.1f} s"))

    # Commands

    def _offers(self, command: str) -> bool:
        """Whether this version of ortbench has a command."""
        line = [sys.executable, "-m", "ortbench", command, "--help"]
        done = subprocess.run(line, cwd=ROOT, env=self._environment(), capture_output=True, text=True)
        return done.returncode == 0

    def _ortbench(self, name: str, command: str, arguments: Sequence[str], limit_s: float) -> Step:
        """A command of ortbench; the folder that it makes is kept as `name`."""
        line = [sys.executable, "-m", "ortbench", command, *arguments]
        if command == "report":
            return self._command(name, line, limit_s, self.out)
        step = self._command(name, [*line, "--out", "out"], limit_s, self.work)
        place = self.work / "out"
        for folder in place.iterdir() if place.is_dir() else ():
            shutil.move(folder, self.out / name)
        return step

    def _command(
        self, name: str, line: Sequence[str], limit_s: float, folder: Path, output: Path | None = None
    ) -> Step:
        """Run a command in a folder, so that its paths are short and none of this machine gets into a result."""
        left = self.ends - time.monotonic()
        words = " ".join(["python", *line[1:]])
        print(f"\n== {name}: {words}", flush=True)
        if left < _TOO_LATE_S:
            step = Step(name, words, None, 0.0, "no time was left")
        else:
            errors = self.work / "errors.txt"
            begun = time.monotonic()
            ended, in_time = self._wait(line, min(limit_s, left), folder, output, errors)
            said = errors.read_text(errors="replace").strip()
            print(said, file=sys.stderr, flush=True)
            last = ""
            if not in_time:
                last = f"it was stopped after {min(limit_s, left):.0f} s"
            elif ended != 0:
                last = said.splitlines()[-1] if said else f"it ended with exit code {ended}"
            step = Step(name, words, ended if in_time else None, time.monotonic() - begun, last)
        self.steps.append(step)
        return step

    def _wait(
        self, line: Sequence[str], limit_s: float, folder: Path, output: Path | None, errors: Path
    ) -> tuple[int, bool]:
        """Exit code, and whether it ended by itself in time; one that did not is interrupted, so that it saves what it has."""
        with errors.open("wb") as stderr, (output or Path(os.devnull)).open("wb") as stdout:
            process = subprocess.Popen(
                line, cwd=folder, env=self._environment(), stderr=stderr, stdout=stdout if output else None
            )
            try:
                return process.wait(limit_s), True
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
                try:
                    return process.wait(_TO_SAVE_S), False
                except subprocess.TimeoutExpired:
                    return -1, False
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()

    @staticmethod
    def _environment() -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}

    # The summary

    def write_summary(self) -> None:
        """What was found so far, on one page."""
        (self.out / "summary.md").write_text("\n".join([*self._heading(), *self._check_table(), *self._step_table()]))

    def _heading(self) -> list[str]:
        versions = ", ".join(f"{name} {version}" for name in PACKAGES if (version := _version(name)))
        cards = [
            f"{gpu['name']}, driver {gpu['driver']}, {gpu['memory_bytes'] / 2**30:.0f} GiB"
            for gpu in self.gpus
            if "name" in gpu
        ]
        count = {verdict: sum(check.verdict == verdict for check in self.checks) for verdict in (PASS, FAIL, NOT_RUN)}
        return [
            f"# {self._subject()}: {count[PASS]} passed, {count[FAIL]} failed, {count[NOT_RUN]} not run",
            "",
            f"- GPU: {'; '.join(cards) or 'no NVIDIA GPU'}",
            f"- CPU: {cpu_model()}, {os.cpu_count()} cores; {platform.system()} {platform.release()}",
            f"- Python {platform.python_version()}, {versions}",
            f"- ortbench at commit {_commit()}",
            f"- {datetime.now(UTC).isoformat(timespec='seconds')}, {time.monotonic() - self.begun:.0f} s in all",
            "",
        ]

    def _subject(self) -> str:
        return Path(self.library).name if self.library else f"--ep {self.ep}"

    def _check_table(self) -> list[str]:
        rows = [f"| {check.verdict} | {_cell(check.name)} | {_cell(check.figures)} |" for check in self.checks]
        return ["| | check | figures and limit, or why it was not run |", "|---|---|---|", *rows, ""]

    def _step_table(self) -> list[str]:
        rows = [
            f"| {step.name} | {'–' if step.code is None else step.code} | {step.seconds:.1f} s | `{_cell(step.command)}` |"
            for step in self.steps
        ]
        return ["| step | exit code | time | command |", "|---|---|---|---|", *rows, ""]


def _cell(text: str) -> str:
    """Text in a cell of a table; where this checkout and its library lie is nobody's business."""
    return text.replace(f"{ROOT}{os.sep}", "").replace("|", "\\|")


def _commit() -> str:
    here = Path.cwd()
    os.chdir(ROOT)
    try:
        return git_commit() or "unknown: not a checkout"
    finally:
        os.chdir(here)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.accept", description="Measure and check on a GPU.")
    parser.add_argument("--ep", default="cuda", help="execution provider, as for ortbench run")
    parser.add_argument("--ep-library", metavar="PATH", help="a plugin EP's library, in place of --ep")
    parser.add_argument("--out", type=Path, metavar="DIR", help="a new folder (default: reports/gpu-EP-TIME)")
    parser.add_argument("--minutes", type=float, default=8.0, help="for everything; what is done by then is kept")
    parser.add_argument("--quick", action="store_true", help="small models and few runs, to try the script itself")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """The whole run; returns the exit code."""
    arguments = _arguments(given)
    library = arguments.ep_library and str(Path(arguments.ep_library).resolve())
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    out: Path = (arguments.out or ROOT / "reports" / f"gpu-{Path(library or arguments.ep).stem}-{stamp}").resolve()
    try:
        out.mkdir(parents=True)
    except OSError as error:
        print(f"accept: --out {out}: {error.strerror}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="accept-") as work:
        scale = QUICK if arguments.quick else FULL
        run = Acceptance(arguments.ep, library, out, scale, arguments.minutes, Path(work))
        try:
            run.run(arguments.quick)
        except KeyboardInterrupt:
            run.checks.append(Check("the run", NOT_RUN, "it was interrupted; what is here was measured before"))
        finally:
            run.write_summary()
    print(f"\n{(out / 'summary.md').read_text()}\nSaved in {out}")
    return checks.exit_code(run.checks)


if __name__ == "__main__":
    sys.exit(main())
