"""The page in a browser: it opens offline, fits a phone and paper, and no words lie upon each other."""

from __future__ import annotations

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
