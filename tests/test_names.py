"""Names in the package say what a thing is, a noun, or what is done, a verb: the words that users read, none that need a second look."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.sources import nodes

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


def offences(place: Path, tree: list[ast.AST]) -> Iterator[str]:
    """Each as ``file:line: name``: of modules and functions vague words, of all that is named those that readers do not use."""
    names = [(1, place.stem, True)] if is_vague(place.stem) else []
    for node in tree:
        match node:
            case ast.FunctionDef(name=name, lineno=line):
                names.append((line, name, True))
            case ast.ClassDef(name=name, lineno=line) | ast.arg(arg=name, lineno=line):
                names.append((line, name, False))
            case ast.Name(id=name, ctx=ast.Store(), lineno=line):
                names.append((line, name, False))
    for line, name, is_called in names:
        is_other = _OTHER_WORDS & {*words(_TERMS.sub("", name.lower()))}
        if name not in _CONTRACT and (is_other or (is_called and is_vague(name))):
            yield f"{place}:{line}: {name}"


def its(place: Path, tree: list[ast.AST]) -> Iterator[str]:
    """``it`` where it outlives a line: of a loop, an assignment, a function, a comprehension of several lines."""
    for node in tree:
        match node:
            case ast.For(target=target) | ast.NamedExpr(target=target):
                targets: list[ast.AST] = [target]
            case ast.Assign(targets=several):
                targets = [*several]
            case ast.FunctionDef(args=arguments):
                targets = [arguments]
            case ast.Lambda(args=arguments) if node.end_lineno != node.lineno:
                targets = [arguments]
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() if node.end_lineno != node.lineno:
                targets = [generator.target for generator in node.generators]
            case _:
                continue
        names = {getattr(inner, "id", getattr(inner, "arg", "")) for target in targets for inner in ast.walk(target)}
        if "it" in names:
            yield f"{place}:{node.lineno}"


def test_names_are_nouns_and_verbs_and_it_is_used_within_a_line() -> None:
    found = [line for place, tree in nodes().items() for line in (*offences(place, tree), *its(place, tree))]
    assert found == []
