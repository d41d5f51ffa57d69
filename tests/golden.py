"""What every kind of command prints and writes, as text that is committed: a change of it shows in the change's own diff.

    python -m tests.golden [--only PATTERN]... [--write]

The scenarios are those of `tests.benchmarks.same`, measured in virtual time or read from stored results. Without ``--write``
what they leave now is compared with the files in tests/golden_files, as a test does for each; with it the files are written anew.
What depends on the machine or on versions of other packages is left out, long lists are shortened to their ends and their sum,
numbers have six digits, a part of JSON stands once, and of a page there is the text that a reader sees. Other files than `run`'s have
what is their kind's own: of a result nothing that is the same in run.txt, no figures of the machine, and nothing that has no value.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

from tests import refdevice, virtual
from tests.benchmarks.same import SCENARIOS, Install, Seen, difference

FOLDER = Path(__file__).parent / "golden_files"
# Keys of JSON.
_DROPPED = {
    "environment", "runtime", "onnxruntime", "variables", "seconds", "started", "load_average", "tool", "fingerprint", "file_sha256",
}  # fmt: skip
# Of the machine and of the scenario, in results and in tables.
_NOT_AGAIN = {
    "command", "noise", "host", "cpu_time", "cpu_user", "cpu_system", "cpu_cores", "page_faults", "involuntary_switches",
}  # fmt: skip
_TABLES_NOT_AGAIN = re.compile(r"## Resource usage: host CPU(?:.*\n)+?(?=`ortbench )")
# Pictures, samples in another form, and what a scenario was given.
_LEFT_OUT = (".svg", ".npz", "suite.toml", "chain.toml", ".gitignore")
# What `run` has too: tables of what is measured as it measures, and results of a scenario that has others too.
_AS_OF_RUN = re.compile(
    r"(run-(?!all)|gate-|suite |bandwidth reports/).*table\.(md|csv)|(suite|gate-slower|gate-limits) .*/result\.json|suite s/.*"
)
_MACHINE = re.compile(r"\nCPU \| (?:.*\n)*?(?=Command\n)")  # of a page, what it says of machine and packages
_HIDDEN = re.compile(r"<(style|script|svg|template)\b.*?</\1>", re.DOTALL)
_ONE_LINE = re.compile(r"<(code|tr)\b.*?</\1>", re.DOTALL)
_CELL, _TAGS = re.compile(r"<t[dh]\b[^>]*>"), re.compile(r"<[^>]*>")
_WIDTH = 220  # of a line of JSON that could be several: statistics fit one
_LONG = 200  # characters of a text, or of a part of JSON, that is not repeated
_WHOLE = 10_000  # the same of `run`, of whose result the others say what is their own
_LONGEST = 6  # items of a list of numbers that is written whole
_TEXTS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"(ONNX Runtime|onnxruntime|Python)( \| |[ \n])\d+\.\d+[\w.]*"), r"\1\2VERSION"),
    (re.compile(r"(?<=CPUExecutionProvider )1\.\d+\.\d+ on [^,]*"), "VERSION on CPU"),
    (re.compile(r"\d+ cores?(?=, ONNX Runtime)"), "CORES"),
    (re.compile(r"EP version: 1\.\d+\.\d+"), "EP version: VERSION"),
    (re.compile(r'\btime="[^"]*"'), 'time="…"'),
    (re.compile(r"librefdevice-[0-9a-f]+"), "librefdevice"),
    (re.compile(r"VERSION *\nbaseline: TIME *\ncandidate: TIME"), "VERSION; TIME"),  # which may be a second apart
    (re.compile(r"-?\d+\.\d{6,}(e[+-]?\d+)?"), lambda found: f"{float(found[0]):.6g}"),
]


def _text_of(page: str) -> str:
    """The text of a page that a reader sees, a line each; that of a command, or of a row of a table, is one."""
    page = _ONE_LINE.sub(lambda it: f"<>{_TAGS.sub('', _CELL.sub(' | ', it[0]))}<>", _HIDDEN.sub("", page))
    lines = (" ".join(unescape(text).split()).removeprefix("| ") for text in _TAGS.split(page))
    return "\n".join(filter(None, lines))


def carried_out(name: str, install: Install, folder: Path) -> Seen:
    """What a scenario left, without what depends on the machine, and without what it was given."""
    line = SCENARIOS[name]
    given = tuple(re.findall(r"\breports/[^\s*]+", line))
    found: Seen = {}
    parts: dict[str, str] = {}
    scenario = name
    for name, text in install.carry_out(line, folder).items():
        file = name.rpartition(" ")[0] or name
        if file.endswith(_LEFT_OUT) or _AS_OF_RUN.fullmatch(f"{scenario} {file}") or (given and file.startswith(given)):
            continue
        if "<html" in text[:400]:
            text = _MACHINE.sub("\n…\n", _text_of(text))
        elif scenario != "run":
            text = _TABLES_NOT_AGAIN.sub("…\n\n", text)
        for pattern, instead in _TEXTS:
            text = pattern.sub(instead, text)
            name = pattern.sub(instead, name)
        if text[:1] in ("{", "["):
            with suppress(ValueError):  # or it is a table that begins so
                value = _shortened(json.loads(text))
                if scenario != "run":
                    value = _beside(_said(value), _of_run()) if "schema_version" in value else _said(value)
                text = _laid_out(_once(value, file, parts, _WHOLE if scenario == "run" else _LONG))
        text = text.rstrip("\n")
        same = next((it for it, other in found.items() if other == text and len(text) > _LONG), None)
        found[re.sub(r" [0-7]{3}$", "", name)] = text if same is None else f"as {same}"
    return found


@cache
def _of_run() -> Any:
    """The result that `run` left, as it is committed."""
    return _said(json.loads(read((FOLDER / "run.txt").read_text(encoding="utf-8"))["r.json"]))


def _beside(value: Any, run: Any) -> Any:
    """A result, or a part of one, without what is the same in that of `run`, and without figures of the machine; what it lacks is ``not``."""
    if not isinstance(value, dict) or not isinstance(run, dict):
        return value
    own = {
        key: _beside(it, run.get(key))
        for key, it in value.items()
        if key not in _NOT_AGAIN and (key not in run or it != run[key])
    }
    if lost := [key for key in run if key not in value and key not in _NOT_AGAIN]:
        own["not"] = lost
    if "target" in value and "load" not in value:  # whose figures of the host are its load points' own
        modes = {case["mode"]: case for case in run["cases"]}
        cases = ((it, modes.get(it["mode"], run["cases"][0])) for it in value["cases"])
        own["cases"] = [{"mode": it["mode"], **_beside(it, of_run)} for it, of_run in cases]
    if "findings" in own and "findings" in run:
        facts = {(it["code"], it.get("mode")): it for it in run["findings"]}
        found = ((it, facts.get((it["code"], it.get("mode")))) for it in own["findings"])
        own["findings"] = [{"code": it["code"], **_beside(it, of_run)} for it, of_run in found]
    return own


def _said(value: Any) -> Any:
    """JSON without the keys of objects that have no value, or an empty one."""
    if isinstance(value, dict):
        return {key: _said(it) for key, it in value.items() if it not in (None, [], {})}
    return [_said(it) for it in value] if isinstance(value, list) else value


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "…" if key in _DROPPED else _shortened(it) for key, it in value.items()}
    if isinstance(value, list):
        if len(value) > _LONGEST and all(isinstance(it, (int, float)) for it in value):
            return [len(value), "numbers from", value[0], "to", value[-1], "sum", _rounded(sum(value))]
        if len(value) > 4 * _LONGEST:  # events and rounds
            return [*map(_shortened, value[:_LONGEST]), f"… {len(value) - _LONGEST} more"]
        return [_shortened(it) for it in value]
    return _rounded(value)


def _once(value: Any, file: str, parts: dict[str, str], longest: int) -> Any:
    """JSON without what this or another file has already, if it is longer: ``parts`` are the texts of those, with their files."""
    text = json.dumps(value)
    if not isinstance(value, (dict, list, str)) or len(text) <= longest:
        return value
    if text in parts:
        return f"as in {parts[text]}"
    if isinstance(value, dict):
        value = {key: _once(it, file, parts, longest) for key, it in value.items()}
    elif isinstance(value, list):
        value = [_once(it, file, parts, longest) for it in value]
    parts[text] = file
    return value


def _laid_out(value: Any, indent: str = "") -> str:
    """JSON with each part on a line where it fits one."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + len(indent) <= _WIDTH or not isinstance(value, (dict, list)):
        return flat
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_laid_out(it, inner)}" for key, it in value.items()]
    else:
        parts = [_laid_out(it, inner) for it in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{end}"


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def written(seen: Seen) -> str:
    """As it is committed."""
    return "".join(f"=== {name}\n{text}\n" for name, text in seen.items())


def read(text: str) -> Seen:
    """What `written` wrote."""
    parts = re.split(r"^=== (.*)\n", text, flags=re.MULTILINE)[1:]
    return {name: body.rstrip("\n") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def differences(name: str, install: Install, folder: Path) -> list[str]:
    """In lines of a diff, in what a scenario differs from its file."""
    now = read(written(carried_out(name, install, folder)))
    return difference(read((FOLDER / f"{name}.txt").read_text(encoding="utf-8")), now)


def main(given: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description="What every kind of command prints and writes.")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="scenarios whose names match; repeatable")
    parser.add_argument("--write", action="store_true", help="write the files anew")
    asked = parser.parse_args(given)
    different = 0
    with tempfile.TemporaryDirectory(prefix="golden-") as scratch:
        install = _install(Path(scratch))
        for name in _wanted(asked.only):
            if asked.write:
                FOLDER.mkdir(exist_ok=True)
                text = written(carried_out(name, install, Path(scratch) / "place"))
                (FOLDER / f"{name}.txt").write_text(text, encoding="utf-8")
                continue
            lines = differences(name, install, Path(scratch) / "place")
            different += bool(lines)
            print(
                f"{'differs' if lines else 'same   '} {name}", *(f"    {line}" for line in lines), sep="\n", flush=True
            )
    return 1 if different else 0


def _wanted(patterns: Sequence[str] | None) -> Iterator[str]:
    return (name for name in SCENARIOS if any(fnmatch(name, pattern) for pattern in patterns or ["*"]))


def _install(folder: Path) -> Install:
    clock = virtual.build(folder)
    return Install(Path(sys.executable), clock, refdevice.build(folder, clock=clock))


if __name__ == "__main__":
    sys.exit(main())
