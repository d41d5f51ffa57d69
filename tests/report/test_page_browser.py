"""The page in a browser: it opens offline, fits a phone and paper, and no words lie upon each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import browser
from tests.browser import Browser
from tests.conftest import lacking
from tests.odd import page_of

pytestmark = pytest.mark.process

PHONE, DESK = 390, 1100  # CSS pixels

# What a reader would stumble over, of all that is visible.
PROBLEMS = """(() => {
  const shown = [...document.querySelectorAll("figure svg")].filter(svg => svg.getClientRects().length);
  const found = { wide: document.documentElement.scrollWidth - document.documentElement.clientWidth, small: [], outside: [], over: [] };
  for (const svg of shown) {
    const frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect(), text]);
    for (const [words, box, text] of texts) {
      if (parseFloat(getComputedStyle(text).fontSize) * scale < 10.9) found.small.push(words);
      if (box.left < frame.left - 4 || box.right > frame.right + 4 || box.top < frame.top - 4 || box.bottom > frame.bottom + 4)
        found.outside.push(words);
    }
    texts.forEach(([words, a], number) => {
      for (const [others, b] of texts.slice(number + 1))
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
          found.over.push(words + " | " + others);
    });
  }
  return found;
})()"""
NO_PROBLEM: dict[str, Any] = {"wide": 0, "small": [], "outside": [], "over": []}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = browser.find()
    if path is None:
        lacking("no Chromium")
    with Browser(path) as found:
        yield found


# Of every kind of picture the pages with the least and the most in it.
LOOKED_AT = (
    *("usual", "failed", "one-sample", "no-time-at-all", "far-apart", "many-samples", "swept", "evil", "loop", "long-loop"),
    *("generation", "chain-of-one-stage", "long-chain", "load", "load-of-many-levels", "several"),
)  # fmt: skip


@pytest.fixture
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file of a page by its name."""
    place = tmp_path / "page.html"
    place.write_text(page_of(request.param))
    return place


@pytest.mark.parametrize("page", LOOKED_AT, indirect=True)
def test_it_opens_offline_and_can_be_read_at_any_width(chromium: Browser, page: Path) -> None:
    chromium.look(PHONE)
    chromium.open(page)
    for width, dark in ((PHONE, False), (DESK, True), (800, False)):
        chromium.look(width, dark)
        assert chromium.run(PROBLEMS) == NO_PROBLEM, width
    methods = [event.get("method") for event in chromium.events]
    assert methods.count("Network.requestWillBeSent") == 1  # of the page itself
    assert not {"Log.entryAdded", "Runtime.exceptionThrown"} & {*methods}


BACKGROUND = "getComputedStyle(document.body).backgroundColor"
FILL = "getComputedStyle(document.querySelector('svg .fill-h2d')).fill"


@pytest.mark.parametrize("page", ["usual"], indirect=True)
class TestOnePage:
    def test_it_follows_the_readers_theme(self, chromium: Browser, page: Path) -> None:
        chromium.open(page)
        colours = []
        for dark in (False, True):
            chromium.look(DESK, dark)
            colours.append((chromium.run(BACKGROUND), chromium.run(FILL)))
        assert colours == [("rgb(255, 255, 255)", "rgb(0, 114, 178)"), ("rgb(20, 24, 28)", "rgb(86, 180, 233)")]

    def test_paper_is_light_and_shows_all_figures(self, chromium: Browser, page: Path) -> None:
        chromium.look(DESK, dark=True, media="print")
        chromium.open(page)
        assert chromium.run(BACKGROUND) == "rgb(255, 255, 255)"
        tables = "[...document.querySelectorAll('details table')]"
        heights = chromium.run(f"{tables}.map(it => it.getBoundingClientRect().height)")
        assert len(heights) == 3
        assert min(heights) > 50
        assert 3 <= len(re.findall(rb"/Type /Page\b", chromium.printed())) <= 7

    def test_without_any_style_it_is_still_a_report(self, chromium: Browser, page: Path) -> None:
        # As under a content security policy that forbids styles too, such as Jenkins' own.
        page.write_text(re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.DOTALL))
        chromium.look(DESK)
        chromium.open(page)
        pictures = "[...document.querySelectorAll('figure svg')]"
        widths = chromium.run(f"{pictures}.map(svg => svg.getClientRects().length ? svg.clientWidth : 0)")
        assert (widths, chromium.run(FILL)) == ([820] * 3, "rgb(0, 114, 178)")
