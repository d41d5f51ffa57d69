"""Files of results in which a few values are wrong are answered in a line, by every command that reads results.

With ``ORTBENCH_TESTS_MUTANTS=2000`` the wide test tries as many of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tests import forks, hostile
from tests.conftest import ROOT, clock_library, ortbench, ortbench_here

COUNT, PARTS = int(os.environ.get("ORTBENCH_TESTS_MUTANTS", "60")), 6
LIMIT_S = 20
_SCRIPT = "<script>mutant()</script>"
_MARKUP = "[bold red]mutant[/bold red]"
_MANY_ITEMS = 4  # of a long list so many may be changed: samples are many, and one is as good as another

# A file that is changed

_ODD: list[Any] = [None, "x", "", 0, 1, 1.5, True, [], {}, [None], ["x"], [[]], {"a": 1}, [{}], {"a": [1, {"b": 2}]}]
_NUMBERS = [float("nan"), float("inf"), -1, -5.5, -(10**9), 0, 1e-320, 2**63, -(2**63) - 1, 10**400, 1e308, 2**53 + 1]
_TEXTS = [
    _SCRIPT, _MARKUP, f"{_SCRIPT}{_MARKUP}", "half\ud800", "x" * 400, "x" * 300_000, "../../up", "-", "[/]", "%s{0}", "'", *hostile.NAMES,
]  # fmt: skip
_CHANGES = ("removed", *["replaced"] * 3, "scaled", "renamed", "added", "repeated", "nested")


def mutant(content: bytes, seed: int) -> tuple[bytes, str]:
    """A JSON file with one to four random changes, or a part of it, and what was done."""
    random = Random(seed)
    data = json.loads(content)
    done = []
    for _ in range(random.randint(1, 4)):
        if not (places := _places(data)):
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


def _places(data: Any) -> dict[tuple[object, ...], list[tuple[Any, Any]]]:
    """Where values are, by their paths without numbers of items."""
    found: dict[tuple[object, ...], list[tuple[Any, Any]]] = {}
    waiting: list[tuple[tuple[object, ...], Any]] = [((), data)]
    for path, value in waiting:  # which grows
        items: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, list):
            is_plain = len(value) > _MANY_ITEMS and not isinstance(value[0], (dict, list))
            items = enumerate(value[:_MANY_ITEMS] if is_plain else value)
        for key, item in items:
            inner = (*path, "*" if isinstance(value, list) else key)
            found.setdefault(inner, []).append((value, key))
            waiting.append((inner, item))
    return found


def _change(random: Random, change: str, within: Any, key: Any) -> None:
    value, text = within[key], random.choice(_TEXTS)
    if change == "removed":
        del within[key]
    elif change == "replaced":
        within[key] = deepcopy(random.choice(random.choice([_ODD, _NUMBERS, _TEXTS])))
    elif change == "scaled":  # percentiles are unsorted then, and samples beyond their statistics
        within[key] = value * random.choice([-1, 0, 7, 1000]) if isinstance(value, (int, float)) else 10**6
    elif change == "nested":
        for _ in range(random.choice([3, 101, 300])):
            within[key] = random.choice([[within[key]], {"a": within[key]}])
    elif isinstance(within, list):
        within[key:key] = [deepcopy(value) for _ in range(random.choice([1, 3, 200]))]
    elif change == "renamed":
        within[random.choice([text, f"{key}x", str(key).upper()])] = within.pop(key)
    elif change == "added":
        within[text] = deepcopy(random.choice(_ODD))
    elif isinstance(value, list):
        within[key] = deepcopy(value[:50]) * 2


class Reader(NamedTuple):
    """A command that reads the file: its arguments, where `mutant` and `good` are folders that hold it, changed and as it was; what
    it may end with besides 0; and what is called in place of the command's main."""

    line: str
    codes: tuple[int, ...] = (2,)
    main: str = "ortbench.__main__:main"


_API = f"{__name__}:use_api"
READERS = [
    Reader("compare good mutant --markdown c.md --json c.json", (2, 5)),
    Reader("compare mutant good --force --markdown d.md", (2, 5)),
    Reader("report mutant --html report.html"),
    Reader("gate mutant --max-copy-share 20% --max-cpu-nodes 0 --junit g.xml --json g.json --action-json b.json", (2, 3, 4, 5)),
    Reader("gate good --baseline mutant --force --junit h.xml", (2, 3, 4, 5)),
    Reader("mutant", (2, 5), _API),
]  # fmt: skip
BANDWIDTH = [Reader("mutant/bandwidth.json", (2,), _API)]
SUITE = [
    Reader("suite merge mutant --out whole --junit m.xml --json m.json --action-json a.json", (1, 2, 3, 4, 5)),
    Reader("suite suite.toml --out mutant --junit s.xml --quiet", (1, 2, 3, 4, 5)),
    Reader("report mutant --html suite.html"),
]
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
        json.loads(found.json())  # which keeps names as they are
        print(repr(found), found.frame(), found.markdown())
    except ortbench.OrtbenchError as error:
        complain(str(error))
        sys.exit(error.exit_code)


# What they make of it


def findings(reader: Reader, place: Path) -> Iterator[str]:
    """Carry a reader out in a folder, and say what is wrong with how it ends, prints and writes."""
    before = {*place.rglob("*")}
    environment = {**os.environ, forks.MAIN: reader.main}
    code, *printed = forks.server(clock_library()).run(reader.line.split(), place, environment, LIMIT_S)
    out, err = (text.decode(errors="replace") for text in printed)
    if "Traceback (most recent call last)" in err:
        yield f"traceback: {err[-2000:]}"
    elif code not in (0, *reader.codes):
        yield f"exit code {code}"
    elif code == 2 and (len(err.splitlines()) != 1 or not err.startswith("ortbench: ")):
        yield f"exit code 2 with {len(err.splitlines())} lines on stderr"
    yield from _let_through(out, "stdout", ".txt")
    yield from _let_through(err, "stderr", ".txt")
    for path in {*place.rglob("*")} - before:
        if path.suffix in {".md", ".html", ".csv", ".xml", ".svg", ".json"}:
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


@pytest.mark.process
def test_wrong_results_are_answered_in_a_line(undrawn: None, tmp_path: Path) -> None:
    content = (ROOT / "reports" / "copy_bound-refdevice" / "result.json").read_bytes()
    for seed in range(12):
        (tmp_path / "result.json").write_bytes(mutant(content, seed)[0])
        ran = ortbench_here("report", tmp_path, "--html", "-")
        assert ran.code == 0 or (ran.code == 2 and ran.error_line), seed


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path, list[Reader]]]:
    """Files with the folders that stand for them, and their readers: all that are stored, and those of a suite."""
    place = tmp_path_factory.mktemp("suite")
    (place / "suite.toml").write_text(_TOML)
    assert ortbench("suite", "suite.toml", "--out", "done", cwd=place).code == 0
    stored = sorted(it for name in ("result.json", "bandwidth.json") for it in (ROOT / "reports").rglob(name))
    found = [(it, it.parent, BANDWIDTH if it.name == "bandwidth.json" else READERS) for it in stored]
    return found + [(it, place / "done", SUITE) for it in sorted((place / "done").rglob("*.json"))]


@pytest.mark.wide
@pytest.mark.skipif(not forks.POSSIBLE, reason="forks of a loaded process are for Linux")
@pytest.mark.parametrize("part", range(PARTS))
def test_readers_answer_wrong_files_in_a_line(
    part: int, subjects: Sequence[tuple[Path, Path, list[Reader]]], tmp_path: Path
) -> None:
    left_out = shutil.ignore_patterns("*.html", "*.png", "*.svg", "*.md", "*.csv")
    for seed in range(3000 + part, 3000 + COUNT, PARTS):
        file, folder, readers = subjects[seed % len(subjects)]
        content, done = mutant(file.read_bytes(), seed)
        place = tmp_path / str(seed)
        place.mkdir()
        (place / "good").symlink_to(folder)
        (place / "suite.toml").write_text(_TOML)
        for reader in readers:
            shutil.rmtree(place / "mutant", ignore_errors=True)
            shutil.copytree(folder, place / "mutant", ignore=left_out)
            (place / "mutant" / file.relative_to(folder)).write_bytes(content)
            assert [*findings(reader, place)] == [], f"{reader.line}: {file}, seed {seed}: {done[:300]}"
