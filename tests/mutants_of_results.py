"""Files of results in which a few values are wrong, and what every command that reads results makes of them.

`python -m tests.mutants_of_results --count 2000 reports/copy_bound-cpu/result.json …` prints what was found, and how often. Each
command is a fork of a process that has loaded everything (`tests.forks`), on Linux alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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

_ODD: list[Any] = [None, "x", "", 0, 1, 1.5, True, [], {}, [None], ["x"], [[]], {"a": 1}, [{}], {"a": [1, {"b": 2}]}]
_NUMBERS = [float("nan"), float("inf"), -1, -5.5, -(10**9), 0, 1e-320, 2**63, -(2**63) - 1, 10**400, 1e308, 2**53 + 1]
_TEXTS = [
    *(
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
    ),
    *hostile.NAMES,
]
_CHANGES = ("removed", "odd", "number", "scaled", "text", "renamed", "added", "repeated", "nested")


def mutant(content: bytes, seed: int) -> tuple[bytes, str]:
    """A JSON file with one to four random changes, or a part of it, and what was done."""
    random = Random(seed)
    data = json.loads(content)
    done = []
    for _ in range(random.randint(1, 4)):
        places: dict[tuple[object, ...], list[tuple[Any, Any]]] = {}
        _collect_places(data, (), places)
        if not places:
            break
        # By the kind of place: each of the few keys at the top is as likely as one that every case has.
        path = random.choice(list(places))
        change = random.choice(_CHANGES)
        done.append(f"{change} {'.'.join(map(str, path))}")
        _change(random, change, *random.choice(places[path]))
    if random.random() < 0.05 and isinstance(data, dict):
        data["schema_version"] = random.choice([0, 3, 99, -1, 2.5, "2", None, [], True])
        done.append("schema_version")
    changed = json.dumps(data, ensure_ascii=random.random() < 0.5).encode(errors="surrogatepass")
    if random.random() < 0.05:
        changed = changed[: random.randrange(len(changed))]
        done.append("truncated")
    return changed, ", ".join(done)


def _collect_places(
    value: Any, path: tuple[object, ...], into: dict[tuple[object, ...], list[tuple[Any, Any]]]
) -> None:
    """Where values are, by their paths without numbers of items."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        is_plain = len(value) > _MANY_ITEMS and not isinstance(value[0], (dict, list))
        items = enumerate(value[:_MANY_ITEMS] if is_plain else value)
    for key, item in items:
        inner = (*path, "*" if isinstance(value, list) else key)
        into.setdefault(inner, []).append((value, key))
        _collect_places(item, inner, into)


def _change(random: Random, change: str, within: Any, key: Any) -> None:
    value, text = within[key], random.choice(_TEXTS)
    if change == "removed":
        del within[key]
    elif change == "odd":
        within[key] = json.loads(json.dumps(random.choice(_ODD)))
    elif change == "number":
        within[key] = random.choice(_NUMBERS)
    elif change == "scaled":  # percentiles are unsorted then, and samples beyond their statistics
        within[key] = value * random.choice([-1, 0, 7, 1000]) if isinstance(value, (int, float)) else 10**6
    elif change == "text":
        within[key] = text
    elif change == "nested":
        for _ in range(random.choice([3, 101, 600])):
            within[key] = random.choice([[within[key]], {"a": within[key]}])
    elif isinstance(within, dict):
        if change == "renamed":
            within[random.choice([text, f"{key}x", str(key).upper()])] = within.pop(key)
        elif change == "added":
            within[text] = random.choice(_ODD)
        elif isinstance(value, list):
            within[key] = json.loads(json.dumps(value[:50])) * 2
    elif change == "renamed":
        within.reverse()
    else:
        within[key:key] = json.loads(json.dumps([value])) * random.choice([1, 3, 200])


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


_API = "tests.mutants_of_results:use_api"
READERS = [
    Reader("compare", "compare good mutant --markdown c.md --json c.json", (2, 5)),
    Reader("compare-back", "compare mutant good --force --markdown d.md", (2, 5)),
    Reader("report", "report mutant --html report.html"),
    Reader("gate", "gate mutant --max-copy-share 20% --max-cpu-nodes 0 --junit g.xml --json g.json --action-json b.json", (2, 3, 4, 5)),
    Reader("gate-baseline", "gate good --baseline mutant --force --junit h.xml", (2, 3, 4, 5)),
    Reader("api", "mutant", (2, 5), _API),
]  # fmt: skip
BANDWIDTH = [Reader("bandwidth", "mutant/bandwidth.json", (2,), _API)]
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
    """What the Python API does with a result, or a bandwidth curve, that it reads."""
    import ortbench
    from ortbench.core.safe_text import complain
    from ortbench.model.result_file import load

    path = Path(sys.argv[1])
    try:
        if path.name == "bandwidth.json":
            found: Any = ortbench.Bandwidth.wrap(load(path, kind="bandwidth"))
        else:
            found = ortbench.read(path)
            with contextlib.suppress(ortbench.BadInput):  # a load without its file of samples
                found.samples()
        print(repr(found), found.frame(), found.markdown(), found.json())
    except ortbench.OrtbenchError as error:
        complain(str(error))
        sys.exit(error.exit_code)


# What they make of it

_READ = {".md", ".html", ".csv", ".xml", ".svg", ".json"}


def findings(reader: Reader, place: Path) -> Iterator[str]:
    """Carry a reader out in a folder, and say what is wrong with how it ends, prints and writes."""
    before = {*place.rglob("*")}
    streams = [place / f"{reader.name}.{stream}" for stream in ("out", "err")]
    code = _run(reader, place, streams)
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
        if path not in before and path not in streams and path.suffix in _READ:
            yield from _let_through(path.read_text("utf-8", "replace"), path.name, path.suffix)


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


def _run(reader: Reader, place: Path, streams: Sequence[Path]) -> int:
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


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for a while; that of `tempfile.TemporaryDirectory` would be removed by the first fork that ends."""
    folder = tempfile.mkdtemp()
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


_LEFT_OUT = shutil.ignore_patterns("*.html", "*.png", "*.svg", "*.md", "*.csv")


def tried(file: Path, readers: Sequence[Reader], seed: int) -> list[tuple[str, str, str]]:
    """Have all readers read a mutant: reader, what is wrong, and how to have it again."""
    content, done = mutant(file.read_bytes(), seed)
    # A suite's folder is the one above those of its cases.
    above = readers is SUITE and (file.parent.parent / "suite.json").exists()
    folder = file.parent.parent if above else file.parent
    found = []
    with _folder() as place:
        (place / "good").symlink_to(folder)
        (place / "suite.toml").write_text(_TOML)
        for reader in readers:
            shutil.rmtree(place / "mutant", ignore_errors=True)
            shutil.copytree(folder, place / "mutant", ignore=_LEFT_OUT)
            (place / "mutant" / file.relative_to(folder)).write_bytes(content)
            how = f"{file}, seed {seed}: {done[:300]}"
            found += [(reader.name, wrong, how) for wrong in findings(reader, place)]
    return found


def carried_out(files: Iterable[Path], seeds: range, jobs: int = 1) -> Iterator[list[tuple[str, str, str]]]:
    """What was found with each mutant: of results and bandwidth curves, and of a suite that is carried out for that."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    forks._load()
    with _folder() as folder:
        subjects = [(file.resolve(), BANDWIDTH if file.name == "bandwidth.json" else READERS) for file in files]
        (folder / "suite.toml").write_text(_TOML)
        streams = [folder / "suite.out", folder / "suite.err"]
        code = _run(Reader("suite", "suite suite.toml --out done"), folder, streams)
        assert code == 0, streams[1].read_text()
        subjects += [(file, SUITE) for file in sorted((folder / "done").rglob("*.json"))]
        work = [(*subjects[seed % len(subjects)], seed) for seed in seeds]
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            yield from pool.imap_unordered(_tried, work)


def _tried(work: tuple[Path, Sequence[Reader], int]) -> list[tuple[str, str, str]]:
    return tried(*work)


def main(given: Sequence[str] | None = None) -> int:
    """Have mutants of some files read, and print what went wrong, each thing once with its number and an example."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=2000, help="mutants, of all files together")
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(given)
    kinds: Counter[tuple[str, str]] = Counter()
    seeds = range(asked.seed, asked.seed + asked.count)
    for reader, wrong, how in (it for found in carried_out(asked.files, seeds, asked.jobs) for it in found):
        kinds[reader, wrong] += 1
        if kinds[reader, wrong] == 1:
            print(f"{reader}: {wrong}\n      {how!a}", flush=True)
    for (reader, wrong), times in kinds.most_common():
        print(f"{times:5} {reader}: {wrong}")
    print(f"{kinds.total()} findings in {asked.count} mutants")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
