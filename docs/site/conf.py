"""The site: the README is its first page, and the groups and pages of docs/README.md are its contents.

The Markdown stays as GitHub and `ortbench explain --more` show it. What the site needs beside it is added here, while Sphinx reads.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
GROUP = re.compile(r"^## (.+)|^\| (\[.*?\)) \|", re.MULTILINE)  # a heading of the index, the first cell of a row
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)\)")
PAGE = re.compile(r"\((\w[\w-]*)\.md\)")

project = "ortbench"
html_title = project
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "docs/*.md",
    "models/*.md",
    "reports/*.md",
    "reports/**/*.md",
    "tests/**/README.md",
]
exclude_patterns = [".*", "build", "dist", "ortbench", "**/site-packages"]
myst_heading_anchors = 4
nitpicky = True
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False


def contents() -> str:
    """A table of contents for each group of the index."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for title, cell in GROUP.findall(index):
        if title:
            found[title] = []
        elif found:
            found[[*found][-1]] += PAGE.findall(cell)
    trees = []
    for title, pages in found.items():
        lines = "\n".join(f"docs/{page}" for page in pages)
        trees.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{lines}\n```\n")
    return "\n\n".join(trees)


def complete(_app: Sphinx, name: str, source: list[str]) -> None:
    """Make a page that is read one of the site: the first has the contents, pages beside docs/ are in none."""
    folder = (ROOT / name).parent

    def led(link: re.Match[str]) -> str:
        """A link to a folder of the checkout, which the site does not have, is its text."""
        return link[1] if (folder / link[2]).is_dir() else link[0]

    source[0] = LINK.sub(led, source[0])
    if name == root_doc:
        source[0] += "\n\n" + contents()
    elif not name.startswith("docs/") or name == "docs/README":
        source[0] = "---\norphan: true\n---\n" + source[0]


def first_page(app: Sphinx, error: Exception | None) -> None:
    """The first page is also what a browser shows of the folder."""
    if error is None:
        out = Path(app.outdir)
        (out / "index.html").write_bytes((out / f"{root_doc}.html").read_bytes())


def setup(app: Sphinx) -> None:
    app.connect("source-read", complete)
    app.connect("build-finished", first_page)
