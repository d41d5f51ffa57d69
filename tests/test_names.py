"""Names in the package say what a thing is, a noun, or what is done, a verb: the words that users read, none that need a second look."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

# In place of these: configuration, check, load point, memory.
_OTHER_WORDS = {"side", "sides", "contest", "contests", "jury", "juries", "level", "levels", "place", "places"}
_TERMS = re.compile(r"opt(imization)?_levels?|log_level|severity_level|side_by_side")  # of the field
_CONTRACT = {"in_place", "passed", "pipelined", "place", "places"}  # keys of results, the Python interface, a mode
# Prepositions; pronouns; verbs that need an object, and participles.
_VAGUE = re.compile(
    "about|above|after|as|at|before|behind|below|beneath|beside|between|beyond|by|for|from|in|into|near|of|off|on|onto|out|over|since|than|"
    "till|to|toward|under|until|up|upon|via|with|within|without|"
    "what|where|when|which|who|whose|why|how|there|then|here|"
    "begun|built|chosen|cut|done|drawn|fits|given|goes|gone|has|held|holds|kept|known|lacks|leaves|left|lost|made|met|moves|needs|put|said|says|"
    "seen|sent|shown|spent|takes|taken|told|wants|written|[a-z]+ed"
)
_NOUNS = {"bed", "embed", "feed", "need", "red", "seed", "speed"}


def is_vague(name: str) -> bool:
    """Whether a name is one word that is no noun and no verb to a reader: a participle, a preposition, a pronoun."""
    word = name.strip("_")
    return _VAGUE.fullmatch(word) is not None and word not in _NOUNS


def words(name: str) -> list[str]:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")


def offences(path: Path) -> Iterator[str]:
    """Each as ``file:line: name``."""
    where = path.relative_to(ROOT)
    if is_vague(path.stem) and path.stem not in _CONTRACT:
        yield f"{where}: {path.stem}"
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name, lineno=line):
                names, functions = [name], [name]
            case ast.ClassDef(name=name, lineno=line) | ast.arg(arg=name, lineno=line):
                names, functions = [name], []
            case ast.Name(id=name, ctx=ast.Store(), lineno=line):
                names, functions = [name], []
            case _:
                continue
        for name in names:
            vague = any(map(is_vague, functions)) or _OTHER_WORDS & {*words(_TERMS.sub("", name.lower()))}
            if vague and name not in _CONTRACT:
                yield f"{where}:{line}: {name}"


def its(path: Path) -> Iterator[str]:
    """``it`` where it outlives a line: of a loop, an assignment, a function, a comprehension of several lines."""
    for node in ast.walk(ast.parse(path.read_text())):
        targets: list[ast.AST] = []
        if isinstance(node, (ast.For, ast.NamedExpr)):
            targets = [node.target]
        elif isinstance(node, ast.Assign):
            targets = [*node.targets]
        elif isinstance(node, ast.FunctionDef) or (isinstance(node, ast.Lambda) and node.end_lineno != node.lineno):
            targets = [node.args]
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            targets = [] if node.end_lineno == node.lineno else [each.target for each in node.generators]
        names = {getattr(inner, "id", getattr(inner, "arg", "")) for target in targets for inner in ast.walk(target)}
        if "it" in names:
            yield f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]


def test_names_are_nouns_and_verbs() -> None:
    assert [found for path in sorted((ROOT / "ortbench").rglob("*.py")) for found in offences(path)] == []


def test_it_is_used_within_a_line() -> None:
    assert [found for path in sorted((ROOT / "ortbench").rglob("*.py")) for found in its(path)] == []
