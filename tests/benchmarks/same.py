"""What commands print and write in virtual time: scenarios, and what each left, byte for byte.

What they measure is the reference device in virtual time (`tests.virtual`), so that figures too are the same to the nanosecond;
commands are forks (`tests.forks`). Left out is what tells when and where it was: dates, ids, and the environment's own paths.
`tests.golden` compares them with committed texts.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from functools import cache
from pathlib import Path

from tests import virtual
from tests.forks import server
from tests.virtual import Clock

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 300.0
Seen = dict[str, str]  # what a scenario left: exit codes, streams and files, by name

# `|` is between commands that share a folder, a word with `*` is what it matches there, DEVICE is the reference device. What measures
# as `run` does has the same samples, so that its files differ from those of `run` in what is its own.
TINY, A, B = "models/tiny.onnx", "reports/copy_bound-cpu", "reports/copy_bound-refdevice"
RUN, TWO = f"run {TINY} --ep-library DEVICE --duration 0.02", "--mode cpu-tensors --mode device-resident"
SCENARIOS = {
    "run": f"{RUN} --html page.html --json r.json",
    "run-all": f"{RUN} --mode all --depth 2",
    "run-failing": f"{RUN} --ep-option wrong_run=3+:default --junit j.xml --json r.json",
    "run-sides": f"{RUN} --opt-level basic,all",
    "run-trace": f"{RUN} --mode cpu-tensors --mode device-tensors --trace t.json --action-json a.json",
    # How far outputs are from expected ones hangs on the CPU.
    "loop": "loop models/recurrent_cell.onnx --ep-library DEVICE --feedback hidden_out=hidden --steps 6 --iterations 8"
    f" --input models/recurrent_cell.loop.inputs.npz {TWO} --json -",
    "chain": "chain chain.toml --iterations 5 --json -",
    "load": f"load {TINY} --ep-library DEVICE --concurrency 1 --duration 0.05 --mode device-resident --json -",
    "sweep": f"sweep models/multi_output.onnx --ep-library DEVICE --dim batch=1,4 --iterations 5 {TWO} --json -",
    "bandwidth": f"bandwidth --ep-library DEVICE --max-size 16kB --iterations 5 --json - --out b | {RUN} --quiet --bandwidth b/band*",
    "gate-live": f"gate --model {TINY} --baseline-model {TINY} --ep-library DEVICE --duration 2 {TWO} --json g.json",
    "gate-slower": f"gate --model {TINY} --ep-library DEVICE --ep-option compute_us=900 --baseline-set ep-option=compute_us=500"
    " --mode device-resident --duration 15 --no-why --json -",  # node times are real ones
    "gate-limits": f"gate --model {TINY} --ep-library DEVICE --duration 1 --min-speedup device-tensors=1.5 --max-copy-share 10%",
    "suite": "suite suite.toml --json s.json --junit j.xml | suite suite.toml | suite suite.toml --list"
    " | suite suite.toml --shard 1/2 --out s/1 | suite suite.toml --shard 2/2 --out s/2 | suite merge s/1 s/2 --out all --json -",
    "gate-stored": f"gate {A} --max-cpu-nodes 0 | gate {B} --baseline {A} --force --mode device-resident --json gate.json --quiet | gate {B} --max-copy-share"
    f" 20% --min-speedup device-resident=1.5 --require-mode host-accessible --junit g.xml | gate {B} --baseline {B}",
    "compare": f"compare {A} {B} | compare {A} {B} --force {TWO} --json - | compare {B} {B} --metric latency --markdown -"
    " --equivalence-margin 10%",
}  # fmt: skip
SUITE = """
[defaults]
iterations = 7
warmup = 1
ep = [{name = "device", ep = "DEVICE"}]
[[bench]]
model = ["models/tiny.onnx", "models/cpu_island.onnx"]
mode = ["cpu-tensors", "device-resident"]
gate = {max-cpu-nodes = 3, require-mode = ["device-resident"]}
[[bench]]
model = "models/multi_output.onnx"
shapes = [{name = "usual"}, {name = "other"}]
mode = ["cpu-tensors"]
"""
# When and where.
_WHEN = [
    (re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z| UTC)?"), "TIME"),
    (re.compile(r"-20\d{6}-\d{6}(-\d+)?(?!\d)"), "-STAMP"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "RUN"),
    (re.compile(r"/tmp/(?:[\w.-]|\\_)+"), "TEMPORARY"),
    (re.compile(r"((?:took|after|  run) +)[\d.]+ m?s\b"), r"\1A WHILE"),
    (re.compile(r"(,(?:passed|failed|measured),\d*,[^,]*,)[\d.]+"), r"\1SECONDS"),
    (re.compile(r"(\[\d+, \d+, )10\d{11}\]"), r'\1"BEGUN"]'),  # a block of a load, for which another thread waits
    (re.compile(r"(\[\d+, )10\d{11}((?:, \d+){5}\])"), r'\1"BEGUN"\2'),  # the same, in a row of noise
    (re.compile(r'("at_ns": )10\d{11}'), r'\1"READ"'),
    # Results of one second share the line that tells when; those of two have a line each.
    (re.compile(r"; TIME(?=\n)|\n[^\n]+  TIME(?=\n)"), ""),
]


def normalised(text: str, places: Sequence[str] = ()) -> str:
    """A text without what tells when and where it was, and without paths that are an environment's own."""
    for place in places:
        text = text.replace(place, "INSTALL")
    for pattern, instead in _WHEN:
        text = pattern.sub(instead, text)
    return text


def difference(before: Seen, after: Seen) -> list[str]:
    """The lines of a unified diff of what two environments left; none where it is the same."""
    lines: list[str] = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            lines.append(f"{name}: only {'after' if name in after else 'before'}")
        elif before[name] != after[name]:
            # Split at \n alone: what else ends a line is text here. No text is equal to one that lacks its last line end.
            a, b = (text.split("\n") for text in (before[name], after[name]))
            lines += unified_diff(a, b, f"before {name}", f"after {name}", lineterm="", n=0)
    return lines


class Install:
    """An environment with ortbench in it, by its interpreter, and the libraries of `tests.virtual.build` and `tests.refdevice.build`."""

    def __init__(self, python: Path, clock: Path, device: Path) -> None:
        self._python, self._device = python.absolute(), str(_linked(device))
        self._server = server(clock, self._python)

    def carry_out(self, line: str, folder: Path) -> Seen:
        """Carry out a scenario in an empty folder, and say what it left."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "home").mkdir(parents=True)
        (folder / "models").symlink_to(ROOT / "models")
        for name in set(re.findall(r"\breports/[^\s*]+", line)):
            shutil.copytree(ROOT / name, folder / name)
        chain = (ROOT / "models" / "text_to_image.toml").read_text()
        chain = re.sub('^((?:model|input) = ")', r"\1models/", chain, flags=re.MULTILINE)
        for name, text in (("suite.toml", SUITE), ("chain.toml", f'[defaults]\nep = "DEVICE"\n{chain}')):
            (folder / name).write_text(text.replace("DEVICE", self._device))
        clock = Clock(folder.parent / "clock")
        seen: Seen = {}
        for number, command in enumerate(line.replace("DEVICE", self._device).split(" | ")):
            words = list(_matched(shlex.split(command), folder))
            environment = {
                "PATH": os.defpath, "HOME": str(folder / "home"), "MPLCONFIGDIR": str(folder.parent),
                virtual.VARIABLE: str(clock.path),
            }  # fmt: skip
            clock.restart()
            if number and "run" in words:  # two runs are of two seconds: what is printed of them depends on it
                time.sleep(1 - time.time() % 1)
            code, out, err = self._server.run(words, folder, environment, TIMEOUT_S)
            seen |= {f"{number} code": str(code), f"{number} stdout": out.decode(), f"{number} stderr": err.decode()}
        places = (str(self._python.parent.parent), str(folder))
        clean: Seen = {}
        for name, text in [*seen.items(), *_files(folder)]:
            key = normalised(name)
            while key in clean:  # two runs within a second have stamps that differ
                key += "+"
            clean[key] = normalised(text, places)
        return clean


@cache
def _linked(device: Path) -> Path:
    """The library under a path of one length everywhere: what is printed is cut to lines."""
    place = tempfile.mkdtemp(prefix="ortbench-", dir="/tmp")
    atexit.register(shutil.rmtree, place)
    link = Path(place, "librefdevice.so")
    link.symlink_to(device)
    return link


def _matched(words: Sequence[str], folder: Path) -> Iterator[str]:
    for word in words:
        paths = folder.glob(word) if "*" in word and "=" not in word else ()
        yield from sorted(str(path.relative_to(folder)) for path in paths) or [word]


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).parts[0] not in ("models", "home"):
            text = path.read_bytes().decode("utf-8", "backslashreplace")
            yield f"{path.relative_to(folder)} {path.stat().st_mode & 0o777:o}", text
