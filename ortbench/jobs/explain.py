"""What `ortbench explain` does: say what words of reports mean, or which there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from ortbench.core.errors import BadInput
from ortbench.report.glossary import Entry, Group, entries
from ortbench.report.terminal.console import Screen

_LONGEST = 5  # words that a term has at most


def explain(typed: Sequence[str]) -> None:
    """Print what words mean (``95 %`` may be one or two, and commas may stand between them), or without any the list of all;
    `BadInput` where there is no such word."""
    screen = Screen()
    if not typed:
        _list(screen)
        return
    found = [entry for name in _terms(typed) for entry in _known()[name]]
    for number, entry in enumerate(dict.fromkeys(found)):
        if number:
            screen.blank()
        screen.text(_name(entry), style="heading")
        for text in (f"{entry.sentence}.", entry.more, entry.page and f"More: docs/{entry.page}"):
            if text:
                screen.text(text, label="  ")


def _name(entry: Entry) -> str:
    return entry.word if entry.group is Group.WORDS else f"{entry.word}, {entry.group.one}"


def _list(screen: Screen) -> None:
    by_group = {group: [entry.word for entry in entries() if entry.group is group] for group in Group}
    for group, words in by_group.items():
        screen.text(group.title, style="heading")
        screen.text(", ".join(words), label="  ")
    screen.blank()
    screen.text("ortbench explain WORD says what one of them means.")


def _terms(typed: Sequence[str]) -> Iterator[str]:
    """The names of entries that are meant, the longest first: ``fastest mode`` is one, and not ``mode``."""
    rest = [word for word in " ".join(typed).replace(",", " ").split() if word != "…"]
    while rest:
        for count in range(min(_LONGEST, len(rest)), 0, -1):
            name = _plain(" ".join(rest[:count]))
            if name in _known():
                yield name
                del rest[:count]
                break
        else:
            raise BadInput(_unknown(rest[0] if len(rest) > 1 else " ".join(rest)))


def _unknown(word: str) -> str:
    near = get_close_matches(_plain(word), _known(), n=1)
    if near:
        return f"explain {word!r}: there is no such word; the nearest is {_known()[near[0]][0].word!r}"
    return f"explain {word!r}: there is no such word; 'ortbench explain' lists those that there are"


def _known() -> dict[str, list[Entry]]:
    """Every entry by all that it may be called; one name may be of several."""
    found: dict[str, list[Entry]] = {}
    for entry in entries():
        for name in (entry.word, *entry.also):
            found.setdefault(_plain(name), []).append(entry)
    return found


def _plain(word: str) -> str:
    return " ".join(word.casefold().replace(",", " ").split())
