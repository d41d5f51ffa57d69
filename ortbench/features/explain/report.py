"""The pages of docs/, which an installed package has too, and their sections, named as links name them: ``modes.md#limits``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

INDEX = "README.md"
_PACKAGE = Path(__file__).parent.parent.parent
_PLACES = (_PACKAGE / "docs", _PACKAGE.parent / "docs")  # as it is installed, and in a source tree
_HEADING = re.compile(r"(#+) +(.+?) *$")
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")


def names() -> list[str]:
    """The files of all pages."""
    return sorted(path.name for path in _folder().glob("*.md"))


def page_of(typed: str) -> str | None:
    """The page or section that is meant by a word: ``modes``, ``modes.md#limits``; None where there is none."""
    file, mark, anchor = typed.removeprefix("docs/").partition("#")
    name = f"{file.removesuffix('.md')}.md"
    if name not in names() or (mark and anchor not in _anchors(name)):
        return None
    return f"{name}{mark}{anchor}"


def section(page: str) -> str:
    """The Markdown of a page, or of one of its sections: from its heading to the next one of its level or above.

    Links lead to other pages; of those that lead elsewhere in a checkout only the text is left.

    Raises:
        KeyError: there is no such section.
    """
    name, _, anchor = page.partition("#")
    lines, begins, level = [], not anchor, 0
    for line, heading in _lines(name):
        if heading and level and len(heading[1]) <= level:
            break
        if heading and not begins and _anchor(heading[2]) == anchor:
            begins, level = True, len(heading[1])
        if begins:
            lines.append(line)
    if not lines:
        raise KeyError(page)
    return _LINK.sub(lambda link: _linked(link, name), "\n".join(lines)).strip()


def _folder() -> Path:
    return next(filter(Path.is_dir, _PLACES))


def _lines(name: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """The lines of a page, and those that are headings as such."""
    in_code = False
    for line in (_folder() / name).read_text(encoding="utf-8").splitlines():
        in_code ^= line.lstrip().startswith("```")
        yield line, None if in_code else _HEADING.match(line)


def _anchors(name: str) -> list[str]:
    return [_anchor(heading[2]) for _, heading in _lines(name) if heading]


def _anchor(heading: str) -> str:
    """What GitHub makes of a heading, so that links can lead there."""
    kept = (sign for sign in heading.lower() if sign in " -_" or unicodedata.category(sign)[0] in "LN")
    return "".join(kept).replace(" ", "-")


def _linked(link: re.Match[str], name: str) -> str:
    text, target = link.groups()
    if target.startswith("#"):
        return f"[{text}]({name}{target})"
    return link[0] if "://" in target or page_of(target) else str(text)
