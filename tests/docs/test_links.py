"""The README and docs/: every link leads somewhere, and each page is found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ortbench
from tests.conftest import ROOT

DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = [
    *ROOT.glob("*.md"),
    *(path for folder in ("docs", "models", "tests", "reports") for path in (ROOT / folder).glob("**/README.md")),
    *(path for path in DOCS.glob("*.md") if path != INDEX),
]
MAX_LINES = 160
PACKAGE = Path(ortbench.__file__).parent


def text_of(page: Path) -> str:
    """A page without its code: what is in there is no link and no heading."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("](", "] ("), text)


def links_of(page: Path) -> list[str]:
    """Where the links and pictures of a page lead that stay inside this repository."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)) if not re.match(r"https?://", link)]


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ +(.+?) *$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def place_of(page: Path, link: str) -> Path:
    """The file or folder that a link leads to; the package may be elsewhere than beside the tests."""
    place = (page.parent / link).resolve() if link else page
    return PACKAGE / place.relative_to(ROOT / "ortbench") if place.is_relative_to(ROOT / "ortbench") else place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        place = place_of(page, path)
        assert place.exists(), link
        assert not anchor or anchor in anchors_of(place), link


def test_the_index_lists_every_page_once_and_the_map_of_the_code_every_room() -> None:
    pages = [path.name for path in DOCS.glob("*.md") if path != INDEX]
    assert sorted(link for link in links_of(INDEX) if "/" not in link) == sorted(pages)
    rows = re.findall(r"^\| \[\w+/\]\(\.\./ortbench/(\w+)/\)", text_of(DOCS / "contributing.md"), re.MULTILINE)
    assert {*rows} == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_the_readme_and_how_to_pages_are_short() -> None:
    group = INDEX.read_text(encoding="utf-8").partition("\n## How-to\n")[2].partition("\n## ")[0]
    pages = [DOCS / name for name in re.findall(r"\]\(([\w-]+\.md)\)", group)]
    assert len(pages) >= 20
    long = {page.name: len(page.read_text(encoding="utf-8").splitlines()) for page in (ROOT / "README.md", *pages)}
    assert {name: lines for name, lines in long.items() if lines > MAX_LINES} == {}


def test_the_path_of_a_run_names_functions_that_there_are() -> None:
    text = (DOCS / "contributing.md").read_text(encoding="utf-8")
    path = re.findall(r"^\| \[.*\]\(../ortbench/(\S+\.py)\) \| `(\S+)` \|", text, re.MULTILINE)
    assert len(path) > 20
    for file, function in path:
        source = (PACKAGE / file).read_text(encoding="utf-8")
        assert all(re.search(rf"(def|class) {name}\b", source) for name in function.split(".")), function
