"""What `ortbench explain` does: say what words of reports and commands mean, or which there are; and which page of docs/,
which an installed package has too, or which section, as links name them (``modes.md#limits``), says more."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from ortbench.core.errors import BadInput
from ortbench.facts.sentences import sentences
from ortbench.report.glossary import Entry, Group, entries
from ortbench.report.terminal import Screen, show_markdown

_LONGEST = 5  # words that a term has at most
_OPTION = re.compile(r"\| `--(([a-z0-9-]+)[^`]*)` \| ([^|]*) \|.* \| (.+)\. \|")  # a row of the page of options
_Named = Mapping[str, Sequence[Entry]]  # entries by all that they may be called
INDEX = "README.md"
_PACKAGE = Path(__file__).parent.parent.parent
_FOLDERS = (_PACKAGE / "docs", _PACKAGE.parent / "docs")  # as it is installed, and in a source tree
_HEADING = re.compile(r"(#+) +(.+?) *$")
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")


def explain(typed: Sequence[str], commands: tuple[Entry, ...]) -> None:
    """Print what words of reports, or `commands`, mean (``95 %`` may be one or two, and commas may stand between them), or without
    any the list of all; `BadInput` where there is no such word."""
    screen, by_name = Screen(), _by_name(commands)
    if not typed:
        all_entries = (*entries(), *_findings(), *commands)
        for group in Group:
            screen.text(group.title, style="heading")
            screen.text(", ".join(entry.word for entry in all_entries if entry.group is group), label="  ")
        screen.blank()
        screen.text("ortbench explain WORD says what one of them means; ortbench explain --more lists the pages.")
        return
    names = [*_terms(typed, by_name)]
    for name in names:
        words = dict.fromkeys(entry.word for entry in _find_entries(name, by_name))
        if _plain(name) not in map(_plain, words):
            screen.text(f"{name}: see {', '.join(words)}")
            screen.blank()
    for number, entry in enumerate(_entries(names, by_name)):
        if number:
            screen.blank()
        what = "" if entry.group is Group.WORDS else f", {entry.group.one}"
        screen.text(f"{entry.word}{what}", style="heading")
        # A word that a shell would not take as it stands has its page.
        more = entry.word if shlex.join(entry.word.split()) == entry.word else entry.page
        for text in (
            f"{entry.sentence}.",
            *entry.more.splitlines(),
            entry.page and f"More: ortbench explain --more {more}",
        ):
            if text:
                screen.text(text, label="  ")


def show_pages(typed: Sequence[str], commands: tuple[Entry, ...]) -> None:
    """Print the sections of the documentation that say more of words, or pages by their names; without any the list of pages;
    `BadInput`: there is no such word or page, or no page says more of it."""
    found = [it for it in map(page_of, typed) if it is not None]
    if not typed:
        found = [INDEX]
    elif len(found) < len(typed):
        by_name = _by_name(commands)
        found = [entry.page for entry in _entries(_terms(typed, by_name), by_name) if entry.page]
        if not found:
            word = " ".join(typed)
            raise BadInput(f"explain --more {word}: no page says more than 'ortbench explain {word}'")
    show_markdown("\n\n".join(map(section, dict.fromkeys(found))))


def _entries(names: Iterable[str], by_name: _Named) -> list[Entry]:
    return list(dict.fromkeys(entry for name in names for entry in _find_entries(name, by_name)))


def _terms(typed: Sequence[str], by_name: _Named) -> Iterator[str]:
    """The names of entries that are meant, the longest first: ``fastest mode`` is one, and not ``mode``."""
    rest = [word for word in " ".join(typed).replace(",", " ").split() if word != "…"]
    while rest:
        for count in range(min(_LONGEST, len(rest)), 0, -1):
            name = " ".join(rest[:count])
            if _find_entries(name, by_name):
                yield name
                del rest[:count]
                break
        else:
            raise BadInput(_unknown(rest[0] if len(rest) > 1 else " ".join(rest), by_name))


def _unknown(word: str, by_name: _Named) -> str:
    near = get_close_matches(_plain(word), by_name, n=1)
    if near:
        return f"explain {word!r}: there is no such word; the nearest is {near[0]!r}"
    return f"explain {word!r}: there is no such word; 'ortbench explain' lists the words"


def _find_entries(name: str, by_name: _Named) -> list[Entry]:
    """The entries of a name, else the option of it."""
    plain = _plain(name)
    return [*by_name.get(plain, ())] or _options(plain.removeprefix("--"))


def _options(name: str) -> list[Entry]:
    """The option of a name, with what it means to which commands; as there are many, words of reports come first."""
    rows = [row for line in section("options.md").splitlines() if (row := _OPTION.match(line)) and row[2] == name]
    if not rows:
        return []
    by_text = {row[4]: ", ".join(it[3] for it in rows if it[4] == row[4]) for row in rows}
    first, *more = (f"{text} ({commands})" for text, commands in by_text.items())
    return [Entry(f"--{name}", Group.WORDS, first, " ".join(f"{it}." for it in more), also=(name,))]


def _findings() -> list[Entry]:
    """Findings by their codes, with a line for each verdict: what the report says, names of figures in capitals, and what to do."""
    found: dict[str, Entry] = {}
    for (code, verdict), finding in sentences().items():
        text = re.sub(r"\{(\w+)(?::[^}]*)?\}", lambda figure: figure[1].upper(), finding.text)
        said = f"{verdict}: {text} To do: {finding.action}."
        if code in found:
            found[code] = found[code]._replace(more=f"{found[code].more}\n{said}".lstrip())
        else:
            found[code] = Entry(
                code, Group.FINDINGS, said.removesuffix("."), page=finding.page and f"{finding.page}.md"
            )
    return [*found.values()]


def _by_name(commands: tuple[Entry, ...]) -> _Named:
    """Every entry by all that it may be called; one name may be of several."""
    found: dict[str, list[Entry]] = {}
    for entry in (*entries(), *_findings(), *commands):
        for name in (entry.word, *entry.also):
            found.setdefault(_plain(name), []).append(entry)
    return found


def _plain(word: str) -> str:
    return " ".join(word.casefold().replace(",", " ").split())


def page_names() -> list[str]:
    return sorted(path.name for path in _folder().glob("*.md"))


def page_of(typed: str) -> str | None:
    """The page or section that is meant by a word: ``modes``, ``modes.md#limits``; None where there is none."""
    file, mark, anchor = typed.removeprefix("docs/").partition("#")
    name = f"{file.removesuffix('.md')}.md"
    if name not in page_names() or (mark and all(_anchor(it[2]) != anchor for _, it in _lines(name) if it)):
        return None
    return f"{name}{mark}{anchor}"


def section(page: str) -> str:
    """The Markdown of a page, or of one of its sections: from its heading to the next one of its depth or above.

    Links lead to other pages; of those that lead elsewhere in a checkout only the text is left.
    """
    name, _, anchor = page.partition("#")
    lines, begins, depth = [], not anchor, 0
    for line, heading in _lines(name):
        if heading and depth and len(heading[1]) <= depth:
            break
        if heading and not begins and _anchor(heading[2]) == anchor:
            begins, depth = True, len(heading[1])
        if begins:
            lines.append(line)
    return _LINK.sub(lambda link: _keep_link(link, name), "\n".join(lines)).strip()


def _folder() -> Path:
    return next(filter(Path.is_dir, _FOLDERS))


def _lines(name: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """The lines of a page, and those that are headings as such."""
    in_code = False
    for line in (_folder() / name).read_text(encoding="utf-8").splitlines():
        in_code ^= line.lstrip().startswith("```")
        yield line, None if in_code else _HEADING.match(line)


def _anchor(heading: str) -> str:
    """What GitHub makes of a heading, so that links can lead there."""
    kept = (sign for sign in heading.lower() if sign in " -_" or unicodedata.category(sign)[0] in "LN")
    return "".join(kept).replace(" ", "-")


def _keep_link(link: re.Match[str], name: str) -> str:
    text, target = link.groups()
    if target.startswith("#"):
        return f"[{text}]({name}{target})"
    return link[0] if "://" in target or page_of(target) else str(text)
