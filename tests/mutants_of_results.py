"""Files of results in which a few values are wrong, and what every command that reads results makes of them.

`python -m tests.mutants_of_results --count 2000 reports/copy_bound-cpu/result.json …` prints what was found, and how often. Each
command is a fork of a process that has loaded everything (`tests.forks`), on Linux alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests import forks, hostile

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 20
_SCRIPT = "<script>mutant()</script>"
_MARKUP = "[bold red]mutant[/bold red]"
_MANY_ITEMS = 4  # of a long list so many may be changed: samples are many, and one is as good as another

# A file that is changed

Places = dict[tuple[object, ...], list[tuple[Any, Any]]]


def mutant(content: bytes, seed: int) -> tuple[bytes, str]:
    """A JSON file with one to four random changes, or a part of it, and what was done."""
    random = Random(seed)
    data = json.loads(content)
    done = []
    for _ in range(random.randint(1, 4)):
        places = _places(data)
        if not places:
            break
        # By the kind of place: each of the few keys at the top is as likely as one that every case has.
        path = random.choice(list(places))
        within, key = random.choice(places[path])
        change = random.choice(CHANGES)
        done.append(f"{change.__name__} {'.'.join(map(str, path))}")
        change(random, within, key)
    if random.random() < 0.05 and isinstance(data, dict):
        data["schema_version"] = random.choice([0, 3, 99, -1, 2.5, "2", None, [], True])
        done.append("schema_version")
    text = json.dumps(data, ensure_ascii=random.random() < 0.5)
    changed = text.encode(errors="surrogatepass")
    if random.random() < 0.05:
        changed = changed[: random.randrange(len(changed))]
        done.append("truncated")
    return changed, ", ".join(done)


def _places(data: Any) -> Places:
    """Where values are, by their paths without numbers of items."""
    found: Places = {}

    def walk(value: Any, path: tuple[object, ...]) -> None:
        if isinstance(value, dict):
            items: Iterable[tuple[Any, Any]] = value.items()
        elif isinstance(value, list):
            plain = len(value) > _MANY_ITEMS and not isinstance(value[0], (dict, list))
            items = enumerate(value[:_MANY_ITEMS] if plain else value)
        else:
            return
        for key, item in items:
            inner = (*path, "*" if isinstance(value, list) else key)
            found.setdefault(inner, []).append((value, key))
            walk(item, inner)

    walk(data, ())
    return found


def removed(random: Random, within: Any, key: Any) -> None:
    del within[key]


def replaced(random: Random, within: Any, key: Any) -> None:
    within[key] = random.choice([None, "x", "", 0, 1, 1.5, True, [], {}, [None], ["x"], [[]], {"a": 1}, [{}]])


def number(random: Random, within: Any, key: Any) -> None:
    infinite = float("inf")
    huge = [2**63, 2**64, -(2**63) - 1, 10**400, 1e308, 2**53 + 1]
    within[key] = random.choice([float("nan"), infinite, -infinite, -1, -5.5, -(10**9), 0, 1e-320, *huge])


def negated(random: Random, within: Any, key: Any) -> None:
    within[key] = -within[key] if isinstance(within[key], (int, float)) else -1


def scaled(random: Random, within: Any, key: Any) -> None:
    """Percentiles are unsorted then, and samples beyond their statistics."""
    value = within[key]
    within[key] = value * random.choice([0, 7, 1000]) if isinstance(value, (int, float)) else random.randrange(10**6)


def worded(random: Random, within: Any, key: Any) -> None:
    within[key] = _text(random)


def renamed(random: Random, within: Any, key: Any) -> None:
    if isinstance(within, dict):
        within[random.choice([_text(random), f"{key}x", str(key).upper()])] = within.pop(key)
    else:
        within.reverse()


def added(random: Random, within: Any, key: Any) -> None:
    value = random.choice([1, None, _text(random), {"a": [1, {"b": 2}]}, [[1, 2], [3]]])
    if isinstance(within, dict):
        within[_text(random)] = value
    else:
        within.insert(key, value)


def duplicated(random: Random, within: Any, key: Any) -> None:
    if isinstance(within, list):
        within += [json.loads(json.dumps(within[key]))] * random.choice([1, 3, 200])
    elif isinstance(within[key], list):
        within[key] = json.loads(json.dumps(within[key][:50])) * 2


def nested(random: Random, within: Any, key: Any) -> None:
    for _ in range(random.choice([3, 101, 600])):
        within[key] = random.choice([[within[key]], {"a": within[key]}])


CHANGES = (removed, replaced, number, negated, scaled, worded, renamed, added, duplicated, nested)


def _text(random: Random) -> str:
    others = [
        _SCRIPT,
        _MARKUP,
        f"{_SCRIPT}{_MARKUP}",
        "half\ud800",
        "x" * 400,
        "x" * 300_000,
        "../../up",
        "-",
        "[/]",
        "%s{0}",
        "'",
        '"',
    ]
    return random.choice([*others, *hostile.NAMES])


# Who reads it


@dataclass(frozen=True)
class Reader:
    """A command that reads the file; `mutant` and `good` are folders that hold it, changed and as it was.

    Attributes:
        name: what reports of it are called.
        line: its arguments.
        codes: what it may end with besides 0.
        main: module:function that is called in place of the command's.
    """

    name: str
    line: str
    codes: tuple[int, ...] = (2,)
    main: str = "ortbench.__main__:main"


_HERE = "tests.mutants_of_results"
READERS = [
    Reader("compare", "compare good mutant --markdown c.md --json c.json", (2, 5)),
    Reader("compare-back", "compare mutant good --force --markdown d.md", (2, 5)),
    Reader("report", "report mutant --html report.html"),
    Reader("gate", "gate mutant --max-copy-share 20% --max-cpu-nodes 0 --junit g.xml --json g.json --action-json b.json", (2, 3, 4, 5)),
    Reader("gate-baseline", "gate good --baseline mutant --force --junit h.xml", (2, 3, 4, 5)),
    Reader("api", "mutant", (2, 5), f"{_HERE}:use_api"),
]  # fmt: skip
BANDWIDTH = [Reader("bandwidth", "mutant/bandwidth.json", (2,), f"{_HERE}:use_bandwidth")]
SUITE = [
    Reader("merge", "suite merge mutant --out whole --junit m.xml --json m.json --action-json a.json", (1, 2, 3, 4, 5)),
    Reader("suite", "suite suite.toml --out mutant --junit s.xml --quiet", (1, 2, 3, 4, 5)),
    Reader("report-suite", "report mutant --html suite.html"),
]  # fmt: skip
_TOML = f"""suite.name = "mutants"
[[bench]]
model = "{ROOT}/models/tiny.onnx"
ep = "cpu"
iterations = 3
warmup = 1
"""


def use_api() -> None:
    """What the Python API does with a result that it reads."""
    import ortbench

    try:
        found = ortbench.read(sys.argv[1])
        print(repr(found), found.frame(), found.markdown())
        found.json()
        with contextlib.suppress(ortbench.BadInput):  # a load without its file of samples
            found.samples()
    except ortbench.OrtbenchError as error:
        _end(error)


def use_bandwidth() -> None:
    """What is done with a bandwidth file."""
    import ortbench
    from ortbench.model.result_file import load

    try:
        found = ortbench.Bandwidth.wrap(load(Path(sys.argv[1]), kind="bandwidth"))
        print(repr(found), found.frame(), found.markdown())
        found.json()
    except ortbench.OrtbenchError as error:
        _end(error)


def _end(error: Any) -> None:
    from ortbench.core.safe_text import complain

    complain(str(error))
    sys.exit(error.exit_code)


# What they make of it


def findings(reader: Reader, place: Path) -> Iterator[str]:
    """Carry a reader out in a folder, and say what is wrong with how it ends, prints and writes."""
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    streams = [place / f"{reader.name}.{stream}" for stream in ("out", "err")]
    code = _ended(reader, place, streams)
    out, err = (path.read_bytes().decode(errors="replace") for path in streams)
    if "Traceback (most recent call last)" in err:
        frames = re.findall(r'File "[^"]*?(ortbench/[^"]+)", line \d+, in (\w+)', err)
        yield f"traceback {':'.join(frames[-1]) if frames else ''} {err.strip().splitlines()[-1][:80]}"
    elif code == -signal.SIGALRM:
        yield f"hang: more than {LIMIT_S} s"
    elif code not in (0, *reader.codes):
        yield f"exit code {code}"
    elif code == 2 and (len(err.splitlines()) != 1 or not err.startswith("ortbench: ")):
        yield f"exit code 2 with {len(err.splitlines())} lines on stderr"
    yield from _let_through(out, "stdout", ".txt")
    yield from _let_through(err, "stderr", ".txt")
    for path in place.rglob("*"):
        if path not in before and path not in streams and path.suffix in _TEXTS:
            yield from _let_through(path.read_text("utf-8", "replace"), path.name, path.suffix)


_TEXTS = {".md", ".html", ".csv", ".xml", ".svg", ".json"}


def _let_through(text: str, where: str, suffix: str) -> Iterator[str]:
    """What nobody may see as it is, or what a medium would take for markup."""
    # Saved data keeps the true names; JSON escapes the controls.
    pattern = r"[\x00-\x09\x0b-\x1f]" if suffix == ".json" else hostile.UNSEEN.pattern
    if (found := re.search(pattern, text)) is not None:
        yield f"raw {found[0]!a} in {where}"
    if suffix in {".html", ".xml", ".svg"} and _SCRIPT in re.sub(r"<!\[CDATA\[.*?\]\]>", "", text, flags=re.DOTALL):
        yield f"HTML in {where}"
    if suffix == ".md" and re.search(rf"(?m)^[^`]*{re.escape(_SCRIPT)}", text):
        yield f"HTML in {where}"
    joined = re.sub(r"\s", "", text)
    if suffix == ".txt" and joined.count("mutant[/") > joined.count("[boldred]mutant"):
        yield f"markup in {where}"


def _ended(reader: Reader, place: Path, streams: Sequence[Path]) -> int:
    """The exit code of a reader, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        opened = [os.open(os.devnull, os.O_RDONLY), *(os.open(path, os.O_WRONLY | os.O_CREAT) for path in streams)]
        forks._be(partial(_carry_out, reader, place), opened)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _carry_out(reader: Reader, place: Path) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LIMIT_S)
    os.chdir(place)
    sys.argv = ["ortbench", *reader.line.split()]
    forks._call(reader.main)


@dataclass(frozen=True)
class Subject:
    """A file that is changed, in a folder as its readers find it, and those readers."""

    file: Path
    readers: Sequence[Reader]

    @property
    def folder(self) -> Path:
        """The folder that stands for the file: a suite's is the one above those of its cases."""
        is_case = self.readers is SUITE and (self.file.parent.parent / "suite.json").exists()
        return self.file.parent.parent if is_case else self.file.parent


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for a while; that of `tempfile.TemporaryDirectory` would be removed by the first fork that ends."""
    folder = tempfile.mkdtemp()
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


def tried(subject: Subject, seed: int) -> list[tuple[str, str, str]]:
    """Have all readers read a mutant: reader, what is wrong, and how to have it again."""
    content, done = mutant(subject.file.read_bytes(), seed)
    found = []
    with _folder() as place:
        name = subject.file.relative_to(subject.folder)
        for reader in subject.readers:
            shutil.rmtree(place / "mutant", ignore_errors=True)
            shutil.copytree(subject.folder, place / "mutant", ignore=_LEFT_OUT)
            (place / "mutant" / name).write_bytes(content)
            if not (place / "good").exists():
                (place / "good").symlink_to(subject.folder)
                (place / "suite.toml").write_text(_TOML)
            found += [
                (reader.name, wrong, f"{subject.file}, seed {seed}: {done[:300]}") for wrong in findings(reader, place)
            ]
    return found


_LEFT_OUT = shutil.ignore_patterns("*.html", "*.png", "*.svg", "*.md", "*.csv")


def subjects(files: Iterable[Path], suites: Path) -> list[Subject]:
    """Results and bandwidth files, and the files of a suite that is carried out in a folder for that."""
    found = [Subject(file.resolve(), BANDWIDTH if file.name == "bandwidth.json" else READERS) for file in files]
    (suites / "suite.toml").write_text(_TOML)
    out = [suites / "suite.out", suites / "suite.err"]
    code = _ended(Reader("suite", "suite suite.toml --out done"), suites, out)
    assert code == 0, out[1].read_text()
    return found + [Subject(file, SUITE) for file in sorted((suites / "done").rglob("*.json"))]


def _share(them: Sequence[Subject], seeds: range, into: Path, parent: int) -> None:
    """Try a mutant for each seed, of one file after the other, and write a line each: what was found."""
    with into.open("w") as file:
        for seed in seeds:
            if os.getppid() != parent:  # which was killed
                return
            print(json.dumps(tried(them[seed % len(them)], seed)), file=file, flush=True)


def carried_out(files: Iterable[Path], seeds: range, jobs: int = 1) -> Iterator[list[tuple[str, str, str]]]:
    """What was found with each mutant, in any order, by forks of this process, which are killed with it."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    forks._load()
    with _folder() as folder, contextlib.ExitStack() as running:
        them = subjects(files, folder)
        parent, waiting = os.getpid(), {}
        for job in range(jobs):
            into = folder / f"{job}.jsonl"
            into.touch()
            if (pid := os.fork()) == 0:
                code = 1
                try:
                    _share(them, seeds[job::jobs], into, parent)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                os._exit(code)
            waiting[pid] = running.enter_context(into.open())
            running.callback(_killed, pid, waiting)
        while waiting:
            time.sleep(0.1)
            for pid, lines in [*waiting.items()]:
                ended, code = os.waitpid(pid, os.WNOHANG)
                yield from map(json.loads, lines)
                if ended:
                    del waiting[pid]
                    assert code == 0, f"a fork ended with {code}"


def _killed(pid: int, waiting: Collection[int]) -> None:
    if pid in waiting:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def main(given: Sequence[str] | None = None) -> int:
    """Have mutants of some files read, and print what went wrong, each thing once with its number and an example."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=2000, help="mutants, of all files together")
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(given)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    kinds: Counter[tuple[str, str]] = Counter()
    seeds = range(asked.seed, asked.seed + asked.count)
    for number, found in enumerate(carried_out(asked.files, seeds, asked.jobs), 1):
        for reader, wrong, how in found:
            kinds[reader, wrong] += 1
            if kinds[reader, wrong] == 1:
                print(f"{reader}: {wrong}\n      {how!a}", flush=True)
        if number % 50 == 0:
            print(f"{number} of {asked.count} mutants, {kinds.total()} findings", file=sys.stderr, flush=True)
    for (reader, wrong), times in kinds.most_common():
        print(f"{times:5} {reader}: {wrong}")
    print(f"{kinds.total()} findings in {asked.count} mutants")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
