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
from tests.odd import PAGES, page_of

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


@pytest.fixture
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file of a page by its name."""
    place = tmp_path / "page.html"
    place.write_text(page_of(request.param))
    return place


# Names of modes that no mode has make a page; that it looks well is not asked.
@pytest.mark.parametrize("page", [it for it in PAGES if it != "long-names"], indirect=True)
def test_it_opens_offline_and_can_be_read_at_any_width(chromium: Browser, page: Path) -> None:
    chromium.look(PHONE)
    chromium.open(page)
    for width, dark in ((PHONE, False), (DESK, True), (800, False)):
        chromium.look(width, dark)
        assert chromium.run(PROBLEMS) == NO_PROBLEM, width
    asked_for = [
        event["params"]["request"]["url"]
        for event in chromium.events
        if event.get("method") == "Network.requestWillBeSent"
    ]
    assert asked_for == [page.as_uri()]
    complaints = [
        event for event in chromium.events if event.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown")
    ]
    assert complaints == []


@pytest.mark.parametrize("page", ["usual"], indirect=True)
class TestOnePage:
    def test_it_follows_the_readers_theme(self, chromium: Browser, page: Path) -> None:
        chromium.open(page)
        seen = []
        for dark in (False, True):
            chromium.look(DESK, dark)
            seen.append(
                chromium.run(
                    "[getComputedStyle(document.body).backgroundColor,"
                    " getComputedStyle(document.querySelector('svg .fill-h2d')).fill]"
                )
            )
        assert seen == [["rgb(255, 255, 255)", "rgb(0, 114, 178)"], ["rgb(20, 24, 28)", "rgb(86, 180, 233)"]]

    def test_paper_is_light_and_shows_all_figures(self, chromium: Browser, page: Path) -> None:
        chromium.look(DESK, dark=True, media="print")
        chromium.open(page)
        assert chromium.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        heights = chromium.run(
            "[...document.querySelectorAll('details table')].map(it => it.getBoundingClientRect().height)"
        )
        assert len(heights) == 3
        assert min(heights) > 50
        pages = len(re.findall(rb"/Type /Page\b", chromium.printed()))
        assert 3 <= pages <= 7

    def test_without_any_style_it_is_still_a_report(self, chromium: Browser, page: Path) -> None:
        # As under a content security policy that forbids styles too, such as Jenkins' own.
        page.write_text(re.sub(r"<style>.*?</style>", "", page.read_text(), flags=re.DOTALL))
        chromium.look(DESK)
        chromium.open(page)
        seen = chromium.run(
            "[...document.querySelectorAll('figure svg')].map(svg => svg.getClientRects().length ? svg.clientWidth : 0)"
        )
        assert seen == [820] * 3
        assert chromium.run("getComputedStyle(document.querySelector('svg .fill-h2d')).fill") == "rgb(0, 114, 178)"
