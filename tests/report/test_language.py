"""People read the words of the field: no text of the package, of docs/ or of the README has a phrase of the table below.

The table has private words of the past and what to say instead; plain words such as "run" are not in it. Docstrings are not
looked at, except those that docs/ shows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ortbench.model.metrics import METRICS
from ortbench.model.modes import ALL_MODES
from ortbench.report.glossary import entries
from tests.conftest import ROOT
from tests.sources import PACKAGE, nodes

# A pattern, and what to say instead.
INSTEAD = {
    # synchronization
    r"\bfences?\b|\bfenced\b": "synchronization (sync)",
    r"\bprov(e|es|ed|ing)\b|\bproofs? of\b": "verified, verifies",
    # copies
    r"\bhands? (your |the )?arrays\b|\barrays( on)? as they are\b": "passes arrays through without a copy",
    r"\b(up|down)load(s|ed|ing)?\b(?!-artifact)": "H2D copy, D2H copy, host to device copy",
    r"\bat the edges\b|\bedge copies\b": "I/O copies",
    r"\bcop(y|ies|ied) inside (the|a) graph\b": "Memcpy nodes",
    r"\bislands?\b": "CPU fallback, subgraph",
    r"\bsweeps? of 'ortbench bandwidth'|\bbandwidth sweeps?\b": "bandwidth curve",
    # comparing
    r"\b(held|hold|holds|holding) (\S+ ){0,5}against\b": "compared with, compares with",
    r"\b(held|hold|holds) (it |them )?to (the |its |a |no )?(limits?|SLOs?)\b": "checked against limits",
    r"\bvs cpu\b": "speedup",
    r"(?<!both )\bsides\b": "configurations",
    r"\bcontests?\b|\bjur(y|ies)\b": "check, sequential test",
    r"\bSLOs? (is|are|was|were) (kept|broken)\b|\b(keeps?|kept|breaks?|broke) (the|its|an|this) (SLOs?|limits?)\b": "met, violated",
    r"\bsteps? (up|down|back)\b(?! load)": "change point",
    # load
    r"\bcallers?\b": "clients (closed loop), workers (open loop)",
    r"(?<!opt-)(?<!up to a )(?<!any )(?<!opt-level )\blevels?\b": "load point; segment of a history; horizontal line",
    r"\bPython's lock\b|\bwait(s|ed|ing)? for the lock\b": "GIL",
    # times and rates
    r"\bruns/s\b|\bruns/J\b|\bruns a second\b": "inf/s, inf/J",
    r"\bsubmit(s|ted|ting)?\b|\bsubmission\b": "enqueue",
    r"\bcaches? of keys and values\b": "KV cache",
    # the rest
    r"\bmade[- ]up (inputs?|data|values)\b|\brandom inputs?\b": "synthetic",
    r"\bthinned\b": "downsampled",
    r"\bwhat else it costs\b|\bcosts besides\b": "resource usage",
    r"\bheld back\b|\bhold(s|ing)? (it|the \w+) back\b": "throttled",
    r"\b(graphics )?cards?\b": "GPU",
    r"\blanes?\b": "series, track, copies of a mode",
    r"\bordinary (host )?memory\b": "pageable memory, host memory",
    r"(?<![\w-])(cpu|device)-pinned\b": "cpu-tensors-pinned, device-tensors-pinned",
}
PATTERNS = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in INSTEAD.items()]

# Strings that as a whole are keys of result files and of tables for programs, a chart's kind of line, or an option's placeholder.
KEYS = {
    *("callers", "caller", "card", "cards", "island", "islands", "uploads", "downloads", "level", "levels", "LEVEL"),
}  # fmt: skip
QUOTED_KEYS = re.compile(rf"""[`"]({"|".join(KEYS)})[`"]""")
OLD_WORDS = {
    *("total", "upload", "download", "submit", "vs cpu", "95 %", "runs", "runs/s", "callers", "lock", "wait", "service", "late"),
    *("cpu", "device", "cpu-pinned", "device-pinned", "fence", "island", "islands", "level", "levels", "card", "side", "thinned"),
}  # fmt: skip


def faults(text: str) -> Iterator[str]:
    """What a text has to say differently."""
    flat = " ".join(QUOTED_KEYS.sub("", text).split())
    for pattern, instead in PATTERNS:
        for hit in pattern.finditer(flat):
            yield f"{flat[max(0, hit.start() - 40) : hit.end() + 40]!r}: say {instead!r}"


def strings(tree: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings, with their lines."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(it.body[0].value) for it in tree if isinstance(it, documented) and isinstance(it.body[0], ast.Expr)
    }
    for it in tree:
        if isinstance(it, ast.Constant) and isinstance(it.value, str) and id(it) not in docstrings:
            yield it.lineno, it.value


def texts() -> Iterator[tuple[str, str]]:
    """Every text, after the place where it stands."""
    for path, tree in nodes().items():
        yield from ((f"{path}:{line}", text) for line, text in strings(tree) if text not in KEYS)
    for name in [*ROOT.glob("docs/*.md"), ROOT / "README.md", *PACKAGE.rglob("*.j2")]:
        whole = name.read_text(encoding="utf-8")
        printed = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "", whole, flags=re.DOTALL) if name.suffix == ".j2" else whole
        for number, text in enumerate(printed.split("\n\n"), 1):
            yield f"{name.relative_to(ROOT)}, paragraph {number}", text
    for entry in entries():
        yield f"the entry of {entry.word!r}", " ".join((entry.word, entry.sentence, entry.more))


def test_no_text_has_a_private_word() -> None:
    found = [f"{place}: {fault}" for place, text in texts() for fault in faults(text)]
    assert not found, "\n".join(found)


def test_no_column_mode_or_metric_has_an_old_name() -> None:
    named = {entry.word for entry in entries()} | {*METRICS} | {*ALL_MODES}
    assert not named & OLD_WORDS


def test_private_words_are_found_and_plain_ones_are_not() -> None:
    private = (
        *("the mode's fence", "reading\n  back was proved", "inputs are uploaded", "held to its limits", "mode cpu-pinned"),
        *("2 callers at each level", "54.2× vs cpu", "GB/s of a bandwidth sweep", "the card is held back"),
    )  # fmt: skip
    assert all([*faults(text)] for text in private)
    for text in ("--measure-spin", "cpu-tensors-pinned", "--opt-level all", "a run of 2 s", "both sides", "discards"):
        assert not [*faults(text)], text
