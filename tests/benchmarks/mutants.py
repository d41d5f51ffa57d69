"""Mutants of what measures and judges, each against the tests that cover it: one that lives is a missing test or dead code.

    python tests/benchmarks/mutants.py --tree TREE --python PYTHON --coverage DATABASE --times JUNIT_XML --out OUT.jsonl

PYTHON has TREE installed, not as editable. DATABASE and JUNIT_XML are those that lines.py has written. A mutant is written to
the tree and to where it is installed, and the fastest tests that cover its line run until one fails, those that start no process
first; a failure counts if the test passes without the mutant. OUT gets a line a mutant; those that it has are left out. ``--like
BEFORE.jsonl`` takes that file's mutants, for a later version of the tree, with lines of that version.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

GROUPS = {
    "core": (25, ["core/*.py"]),
    "timing and proofs": (40, ["worker/timing.py", "worker/sync.py", "worker/proofs.py"]),
    "worker": (25, ["worker/*.py"]),
    "measure": (30, ["measure/*.py"]),
    "comparison": (40, [f"analysis/{it}.py" for it in ("comparison", "comparable", "series", "intervals")]),
    "facts": (40, ["facts/*.py", "features/*/facts.py"]),
}
KINDS = ("operator", "constant", "condition", "statement")
PAIRS: list[tuple[type[ast.AST], type[ast.AST]]] = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq)]
PAIRS += [(ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)]
OTHER = {**dict(PAIRS), **{b: a for a, b in PAIRS}, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DROPPED = (ast.Assign, ast.AugAssign, ast.Return, ast.Raise, ast.Continue, ast.Break, ast.Delete, ast.Expr)
LEFT_OUT = (ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)
FOR_TYPES = ("annotation", "returns", "decorator_list", "bases")


@dataclass(frozen=True)
class Mutant:
    """What begins at a column (in bytes) of a line, `before`, becomes `after`; the line may have moved since: it is known by
    its text and by how many lines with that text are above it."""

    group: str
    kind: str
    file: str
    line: str
    occurrence: int
    column: int
    before: str
    after: str

    def number(self, source: bytes) -> int:
        """Of its line, from 1; an IndexError where the source has changed there."""
        lines = source.splitlines()
        found = [number for number, line in enumerate(lines, 1) if line.decode() == self.line][self.occurrence]
        if not b"\n".join(lines[found - 1 :])[self.column :].startswith(self.before.encode()):
            raise IndexError(self.line)
        return found

    def applied(self, source: bytes) -> bytes:
        """The source with it."""
        at = sum(map(len, source.splitlines(keepends=True)[: self.number(source) - 1])) + self.column
        return source[:at] + self.after.encode() + source[at + len(self.before.encode()) :]


def _nodes(node: ast.AST, called: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """What is carried out, and whether in a call: else when the module is loaded."""
    yield node, called
    for name, value in ast.iter_fields(node):
        if name in FOR_TYPES or isinstance(node, ast.Raise):
            continue
        inside = called or (name == "body" and isinstance(node, FUNCTIONS))
        for child in value if isinstance(value, list) else [value]:
            typing_only = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            if isinstance(child, ast.AST) and not typing_only and not isinstance(child, LEFT_OUT):
                yield from _nodes(child, inside)


def _changes(node: Any, called: bool) -> Iterator[tuple[str, Any, str]]:
    """The kind of each change at a node, what is replaced, and by what."""
    of_text = any(isinstance(getattr(it, "value", it), (str, ast.JoinedStr)) for it in ast.walk(node))
    alone = isinstance(node, (ast.BoolOp, ast.AugAssign)) or (isinstance(node, ast.BinOp) and not of_text)
    operators = [node.op] if alone else node.ops if isinstance(node, ast.Compare) else []
    for number, operator in enumerate(operators):
        if type(operator) in OTHER:
            changed, other = copy.deepcopy(node), OTHER[type(operator)]()
            changed.op, changed.ops = other, [*operators[:number], other, *operators[number + 1 :]]
            text = ast.unparse(changed)
            yield "operator", node, text if isinstance(node, ast.stmt) else f"({text})"
    value = getattr(node, "value", None)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield "constant", node, repr(value + 1 if isinstance(value, int) else value * 2 or 1.0)
    for test in [node.test] if isinstance(node, (ast.If, ast.IfExp, ast.While)) else getattr(node, "ifs", []):
        yield "condition", test, f"({ast.unparse(ast.UnaryOp(ast.Not(), test))})"
    comment = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if called and isinstance(node, DROPPED) and not comment:
        yield "statement", node, "pass"


def draw(package: Path, seed: int) -> list[Mutant]:
    """As many mutants of each group as it says, of all kinds in turn, no two in one line."""
    generator = random.Random(seed)
    drawn: list[Mutant] = []
    for group, (count, patterns) in GROUPS.items():
        found: dict[str, list[tuple[int, Mutant]]] = {kind: [] for kind in KINDS}
        for path in (path for pattern in patterns for path in sorted(package.glob(pattern))):
            source, file = path.read_bytes(), path.relative_to(package).as_posix()
            for kind, old, after in (it for place in _nodes(ast.parse(source)) for it in _changes(*place)):
                *above, line = source.splitlines()[: old.lineno]
                before = ast.get_source_segment(source.decode(), old) or ""
                mutant = Mutant(group, kind, file, line.decode(), above.count(line), old.col_offset, before, after)
                with contextlib.suppress(SyntaxError):
                    compile(mutant.applied(source), file, "exec")
                    found[kind].append((old.lineno, mutant))
        for kind in KINDS:
            generator.shuffle(found[kind])
        taken: dict[tuple[str, int], Mutant] = {}
        while len(taken) < count:
            kind = KINDS[len(taken) % len(KINDS)]
            number, mutant = found[kind].pop()
            taken.setdefault((mutant.file, number), mutant)
        drawn += taken.values()
    return drawn


def covering(database: Path, file: str, source: bytes, number: int) -> set[str]:
    """The tests that carry out the statement of a line; where that is done on loading, those that carry out any of its file."""
    nodes: list[Any] = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    around = [node for node in nodes if node.lineno <= number <= node.end_lineno]
    called = any(isinstance(node, FUNCTIONS[:2]) and node.body[0].lineno <= number for node in around)
    inner = max(around, key=lambda node: int(node.lineno))
    last = max(number, inner.body[0].lineno - 1) if hasattr(inner, "body") else inner.end_lineno
    wanted = sum(1 << line for line in range(inner.lineno, last + 1)) if called else -1
    query = "select context, numbits from line_bits join context on context.id = context_id"
    query += " join file on file.id = file_id where path like ?"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(query, [f"%/ortbench/{file}"]).fetchall()
    found = {context for context, bits in rows if int.from_bytes(bits, "little") & wanted}
    return {test for context in found for test in re.split(r"\|(?=tests/)", context) if "::" in test}


def fastest(tests: Collection[str], times: Path) -> list[str]:
    """By time, first one of each test function, then a second one of its parameters, and so on; those alone that passed."""
    passed = [case for case in ElementTree.parse(times).iter("testcase") if not len(case)]
    took = {f"{case.get('classname')}.{case.get('name')}": float(case.get("time", 0)) for case in passed}
    before: Counter[str] = Counter()
    timed, ranked = [], []
    for test in tests:
        function, bracket, parameters = test.partition("[")
        name = function.replace("/", ".").replace(".py::", ".").replace("::", ".") + bracket + parameters
        timed += [(took[name], test, function)] if name in took else []
    for seconds, test, function in sorted(timed):
        ranked.append((before[function], seconds, test))
        before[function] += 1
    return [test for *_, test in sorted(ranked)]


class Trial:
    """The tests of a tree and of an interpreter that has it installed; one that takes longer than `test_s` fails."""

    def __init__(self, tree: Path, python: str, test_s: int) -> None:
        self._tree, self._python = tree, python
        self._limits = ["-o", f"faulthandler_timeout={test_s}", "-o", "faulthandler_exit_on_timeout=true"]
        line = [python, "-P", "-c", "import ortbench; print(ortbench.__path__[0])"]
        found = subprocess.run(line, cwd=tempfile.gettempdir(), check=True, capture_output=True, text=True)
        self._packages = [tree / "ortbench", Path(found.stdout.strip())]
        self._stable: dict[str, bool] = {}

    def pytest(self, *arguments: str, limit_s: float | None = None) -> tuple[int | None, list[str]]:
        """Its exit code, None where the limit ended it, and what it printed."""
        line = [self._python, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *self._limits, *arguments]
        with tempfile.TemporaryFile("w+", errors="replace") as out:
            process = subprocess.Popen(line, cwd=self._tree, stdout=out, stderr=out, start_new_session=True)
            code: int | None = None
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(limit_s)
            finally:  # with what it has started
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            out.seek(0)
            return code, out.read().splitlines()

    def run(self, tests: Sequence[str], limit_s: float | None = None) -> tuple[str, str] | None:
        """The first test that fails, and how; None if none does in this time."""
        files = list(dict.fromkeys(test.split("::")[0] for test in tests))  # what a file's tests share is made once
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as chosen:
            chosen.writelines(f"{test}\n" for test in sorted(tests, key=lambda test: files.index(test.split("::")[0])))
            chosen.flush()
            code, lines = self.pytest("-xv", "--tb=no", "-m", "not timing", f"@{chosen.name}", limit_s=limit_s)
        if code in (0, None):
            return None
        begun = [(test, line) for line in lines for test in tests if line.startswith(f"{test} ")]
        if not begun:
            return "", next((line for line in lines if line.startswith("ERROR tests/")), "nothing can be loaded")
        test, line = begun[-1]
        return test, re.sub(r"\s*\[.*?%\]$", "", line.removeprefix(test).strip()) or "hung or ended"

    @contextlib.contextmanager
    def applied(self, mutant: Mutant) -> Iterator[None]:
        """Have it in the tree and where that is installed."""
        paths = [package / mutant.file for package in self._packages]
        sources = [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
        try:
            for path, source, modified in sources:
                path.write_bytes(mutant.applied(source))
                # Python takes bytecode for that of any source of the same size and second.
                os.utime(path, ns=(modified, modified - random.randrange(1, 10**6) * 10**9))
            yield
        finally:
            for path, source, modified in sources:
                path.write_bytes(source)
                os.utime(path, ns=(modified, modified))

    def killed(self, mutant: Mutant, tests: Sequence[str], limit_s: float) -> tuple[str, str] | None:
        """By which test that passes without the mutant, and how; None if by none in this time."""
        end = time.monotonic() + limit_s
        while (left := [test for test in tests if self._stable.get(test, True)]) and time.monotonic() < end:
            with self.applied(mutant):
                found = self.run(left, end - time.monotonic())
            if found is not None and found[0] and found[0] not in self._stable:
                self._stable[found[0]] = self.run([found[0]]) is None
            if found is None or self._stable.get(found[0], True):
                return found
        return None


def main() -> None:
    """Carry out the mutants that are not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("tree", "coverage", "times", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--like", type=Path)
    for name, usual, said in (
        ("seed", 1, "of the draw"), ("pure", 60, "tests without processes, before those with; the rest of them comes last"),
        ("process", 25, "tests with processes"), ("test-s", 60, "limit of a test"), ("limit-s", 150, "limit of a mutant"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=usual, help=said)
    chosen = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))  # with the tree as it was

    before = [json.loads(line) for line in chosen.like.read_text().splitlines()] if chosen.like else []
    killers = {Mutant(**it["mutant"]): (it["by"] or [""])[0] for it in before}  # which come first
    mutants = list(killers) or draw(chosen.tree / "ortbench", chosen.seed)
    chosen.out.touch()
    done = [json.loads(line)["mutant"] for line in chosen.out.read_text().splitlines()]
    trial = Trial(chosen.tree.resolve(), chosen.python, chosen.test_s)
    code, listed = trial.pytest("--collect-only", "-q", "-m", "pure")
    assert code == 0, "\n".join(listed)
    for mutant in (it for it in mutants if asdict(it) not in done):
        begun = time.monotonic()
        found: dict[str, Any] = {"mutant": asdict(mutant), "killed": None, "by": None}
        source = (chosen.tree / "ortbench" / mutant.file).read_bytes()
        with contextlib.suppress(IndexError):  # else it is gone: neither killed nor not
            ranked = fastest(covering(chosen.coverage, mutant.file, source, mutant.number(source)), chosen.times)
            ranked.sort(key=lambda test: test != killers.get(mutant))
            pure = [test for test in ranked if test in listed]
            process = [test for test in ranked if test not in listed]
            killer = None
            for tests in (pure[: chosen.pure], process[: chosen.process], pure[chosen.pure :]):
                killer = killer or trial.killed(mutant, tests, begun + chosen.limit_s - time.monotonic())
            found |= {"killed": killer is not None, "by": killer, "covering": len(ranked), "pure": len(pure)}
        found["seconds"] = round(time.monotonic() - begun, 1)
        with chosen.out.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(found["killed"], mutant.file, repr(mutant.before), "->", repr(mutant.after), found.get("by"), flush=True)


if __name__ == "__main__":
    main()
