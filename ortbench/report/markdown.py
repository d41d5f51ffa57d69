"""Reports as Markdown: files beside results, and the job summary of a CI system.

Every text of a report is taken for words: what GitHub's Markdown, its HTML and its formulas included, would take for markup
is escaped, and what nobody sees is shown by `ortbench.core.safe_text.visible`. Names that hold neither stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ortbench.analysis.advice import Finding
from ortbench.core.safe_text import visible
from ortbench.report import model

_MARKUP = re.compile(
    r"""
    [`*$]                               # code, emphasis, formulas
    | \\(?=[!-/:-@[-`{-~])              # what would escape what follows it
    | <(?=[a-zA-Z/!?])                  # tags, comments, links
    | &(?=\#?\w+;)                      # characters by name or number
    | (?<![^\W_])_ | _(?![^\W_])        # emphasis, which cannot begin or end inside a word
    | ~(?![/\s])                        # struck out; a home folder is not
    | (?<=[ ])\#(?=\#*$)                # the end of a heading
    | !(?=\[) | \[(?=[\^ xX]) | \](?=[\[(])  # pictures, footnotes, boxes to tick, links
    """,
    re.VERBOSE,
)
# Where a line begins: headings, quotes, lists, rules, and what links would lead to.
_OPENING = re.compile(r"(?:[#>+=-]|\d+[.)])(?=[\s#>+=-]|$)|\[(?=[^\]]*\]:)")


def escape(text: str) -> str:
    """A text as Markdown that shows it word for word, on one line."""
    words = _MARKUP.sub(r"\\\g<0>", visible(text).strip())
    opening = _OPENING.match(words)
    return words if opening is None else f"{words[: opening.end() - 1]}\\{words[opening.end() - 1 :]}"


def _code(text: str) -> str:
    """A text as code, word for word: between as many backticks as it has not in a row."""
    text = visible(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in (text[:1], text[-1:]) else ""
    return f"{fence}{space}{text}{space}{fence}"


def markdown(report: model.Report) -> str:
    """A report as Markdown: every block is followed by an empty line, so that nothing runs into the next one."""
    shown = [block for part in report.parts for block in part if model.Medium.MARKDOWN in block.media]
    return "\n".join(line for block in (model.Title(report.title, 1), *shown) for line in (*_lines(block), ""))


def _lines(block: model.Block) -> list[str]:
    match block:
        case model.Title():
            return [f"{'#' * block.depth} {escape(block.text)}"]
        case model.Heading():
            return _break_lines(block.lines)
        case model.Paragraph():
            return [escape(block.text)]
        case model.Table():
            return table_lines(block)
        case model.ComparedResults():
            pairs = zip(block.names, block.headings, strict=True)
            lines = _break_lines([*block.shared, *(f"{name}: {line}" for name, heading in pairs for line in heading)])
            lines += ["", *table_lines(block.table)] if block.table is not None and block.table.rows else []
            return lines + [line for it in block.more[:1] for line in ("", f"## {it.title}", "", *table_lines(it))]
        case model.Notes():
            return [f"- {escape(note.text)}" for note in block.notes]
        case model.Findings():
            return [line for it in block.findings for line in (f"- {escape(it.text)}", *_next(it))]
        case model.Command():
            return [_code(" ".join(block.words))] if block.words else []
    raise TypeError(block)


def _next(found: Finding) -> list[str]:
    """What to do next: a command as code, to be copied."""
    return [f"  - Next: {(_code if found.is_command else escape)(found.next)}"] if found.next else []


def _break_lines(lines: Iterable[str]) -> list[str]:
    """Lines that do not run together."""
    return [f"{escape(line)}  " for line in lines]


def table_lines(table: model.Table) -> list[str]:
    """A table, line by line, and what was left out of it after an empty one."""
    rule = ["---" if at == 0 or column.kind in _LEFT else "---:" for at, column in enumerate(table.columns)]
    rows, rest = [*map(_line, table.cut_rows())], " |" * len(table.columns)
    for at, title in reversed(table.groups):
        rows.insert(at, f"| *{escape(title)}*{rest}")
    lines = [_line(table.headings), "| " + " | ".join(rule) + " |", *rows]
    return [*lines, "", escape(table.rest)] if table.rest else lines


_LEFT = {model.Kind.WORDS, model.Kind.LONG_NAME}


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape(" ".join(cell.split())).replace("|", "\\|") for cell in cells) + " |"
