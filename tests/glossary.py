"""Writes docs/words.md, every word of reports: python -m tests.glossary > docs/words.md"""

from __future__ import annotations

from ortbench.report.glossary import Entry, Group, entries
from ortbench.report.markdown import escaped

HEAD = """\
# Words

What the words of reports mean. `ortbench explain` says the same: of one word, as in `ortbench explain sync`, or of several;
without any it lists them. Findings are in [actions.md](actions.md). This page is made from its entries: `python -m tests.glossary > docs/words.md`.
"""


def document() -> str:
    """The page."""
    parts = [HEAD]
    for group in (group for group in Group if group not in (Group.FINDINGS, Group.COMMANDS)):
        parts += [f"## {group.title}\n", "| word | meaning |\n|---|---|"]
        parts += [f"| {_cell(entry.word)} | {_meaning(entry)} |" for entry in entries() if entry.group is group]
        parts.append("")
    return "\n".join(parts)


def _meaning(entry: Entry) -> str:
    more = f" {_cell(entry.more)}" if entry.more else ""
    page = f" [More]({entry.page})" if entry.page else ""
    return f"{_cell(entry.sentence)}.{more}{page}"


def _cell(text: str) -> str:
    return escaped(text).replace("|", "\\|")


if __name__ == "__main__":
    print(document(), end="")
