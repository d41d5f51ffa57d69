"""The page of one or many results: what it says, that it needs nothing else, that nothing from outside gets into its markup."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from ortbench.features.page.report.page import build_page
from ortbench.features.page.report.sheet import PALETTE, WIDTH
from ortbench.model.result import Result
from ortbench.model.result_file import save
from ortbench.report.model import Report
from tests.conftest import MODELS, ONCE, ortbench
from tests.hostile import UNSEEN
from tests.odd import ODD, PAGES, page_of, without_samples
from tests.results import measured, result_of, steady


class Page:
    """A page taken apart as XML, which has balanced tags; `tags` are all with their attributes, in order."""

    def __init__(self, text: str) -> None:
        assert "/>" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.DOTALL), "it does not end a tag in HTML"
        text = re.sub("<span>(.*?)</span>", r"\1", text)  # those of options only keep lines from ending within them
        text = re.sub(r"<((?:meta|br)\b[^>]*)>", r"<\1/>", text.removeprefix("<!DOCTYPE html>"))
        self.root = ET.fromstring(f"<page>{text}</page>")
        self.tags = [(it.tag, it.attrib) for it in self.root.iter()]

    def text(self, tag: str) -> list[str]:
        """What is directly in tags of a name."""
        parts = (part for it in self.root.iter(tag) for part in (it.text, *(inner.tail for inner in it)))
        return [" ".join(part.split()) for part in parts if part is not None and part.strip()]

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of all tags of a name."""
        return [it.attrib for it in self.root.iter(tag)]


def page(*results: Result, names: list[str] | None = None, errors: tuple[str, ...] = ()) -> Page:
    return Page(build_page(results, names or [f"r{number}" for number in range(len(results))], errors))


# Pages much like others, which take as long to draw.
ALIKE = {
    *("on-host", "three-samples", "all-the-same", "nanoseconds", "interrupted", "outlier", "chain", "chain-of-one-stage"),
    *("chain-that-failed", "loop", "loop-of-one-step", "generation", "long-names", "without-samples"),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.wide) if name in ALIKE else name for name in PAGES]
)
def test_every_page(name: str) -> None:
    odd = page_of(name)
    found = Page(odd)
    assert not UNSEEN.search(odd)
    # It loads nothing.
    kinds = {tag for tag, _ in found.tags}
    assert not kinds & {"script", "link", "img", "iframe", "object", "embed", "image", "base"}
    for _, attributes in found.tags:
        assert not any(name.startswith("on") or name in ("src", "srcset", "style") for name in attributes)
        assert attributes.get("href", "#").startswith("#")
    assert all(inner.startswith("#") for inner in re.findall(r"url\(([^)]*)\)", odd))
    assert "@import" not in odd
    assert "://" not in odd
    (policy,) = [attributes["content"] for attributes in found.all("meta") if "http-equiv" in attributes]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"
    # Ids are unique, and what is referred to is there.
    ids = Counter(attributes["id"] for _, attributes in found.tags if "id" in attributes)
    assert set(ids.values()) <= {1}
    assert set(re.findall(r'(?:url\(#|href="#)([^)"]+)', odd)) <= ids.keys()
    # Every picture has its text and its figures.
    pictures = [attributes["aria-label"] for attributes in found.all("div") if attributes.get("role") == "img"]
    captions = found.text("figcaption")
    assert len(pictures) == len(captions) == len(found.all("figure")) == len(found.all("details"))
    assert len(found.all("svg")) == len(pictures)
    for picture, caption in zip(pictures, captions, strict=True):
        assert caption in " ".join(picture.split())
    assert len(found.root.findall(".//details//table")) == len(pictures)
    # Drawings are legible.
    widths = re.findall(r'<svg viewBox="0 0 ([\d.]+) ', odd)
    assert widths == [str(WIDTH)] * len(pictures)
    assert all(float(size) >= 11 for size in re.findall(r'font-size="([\d.]+)px"', odd))
    for drawing in re.findall(r"<svg.*?</svg>", odd, re.DOTALL):
        used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', drawing))
        assert used <= {light for light, _ in PALETTE.values()} | {"#ffffff"}, "a colour that has no dark form"
        assert re.findall(r'(?:fill|stroke)="#[0-9a-f]{6}"(?![^>]* class=")', drawing) == []
    # Headings go down one by one.
    levels = [int(tag[1]) for tag, _ in found.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert levels.count(1) == 1
    assert len(odd.encode()) < 400_000


# What it says


@pytest.mark.usefixtures("undrawn")
def test_what_went_wrong_is_said_in_a_word_not_by_colour_alone() -> None:
    result = ODD["failed"]()
    result.stopped = {"reason": "interrupted"}
    result.warn("x", "mind this")
    result.placement = {"nodes": None, "memcpy_nodes": None, "cpu_operators": {}}
    found = page(result)
    classes = [it.get("class") for it in found.all("li")]
    said = dict(zip(found.text("li"), classes, strict=False))
    assert said["interrupted: what was measured until then is shown"] == "warn"
    assert said["device-tensors failed: output y differs: 3 of 10 values"] == "bad"
    assert said["warning: mind this"] == "warn"
    assert "device-tensors (failed)" in found.text("th")
    unknown = "This ONNX Runtime or model format does not report where nodes are placed."
    assert unknown in found.text("p")


@pytest.mark.usefixtures("undrawn")
def test_several_results_have_an_overview_with_links() -> None:
    results = [without_samples(), ODD["nothing"](), without_samples(ODD["failed"]())]
    found = page(*results, names=["a", "b", "c"], errors=("cuda: does not load",))
    assert found.text("h1") == ["Copies take ≈60% to ≈60% of the latency of cpu-tensors in 3 results"]
    links = {text: attributes["href"] for text, attributes in zip(found.text("a"), found.all("a"), strict=True)}
    assert links == {"a": "#result-1", "b": "#result-2", "c": "#result-3"}
    assert [it["id"] for it in found.all("section") if "id" in it] == ["result-1", "result-2", "result-3"]
    assert "cuda: does not load" in " ".join(found.text("li"))
    assert found.text("td")[:6] == ["Some", "≈60%", "device-tensors", "1.05×", "device-resident", "2.50×"]


@pytest.mark.usefixtures("undrawn")
def test_the_best_configuration_stands_first_unless_a_verdict_does() -> None:
    results = [result_of(measured("cpu-tensors", latency=steady([ns] * 12)), run_id="one") for ns in (100_000, 80_000)]
    best = "two has the lowest latency with cpu-tensors, 80.0 µs: one takes 1.25× as much"
    assert page(*results, names=["one", "two"]).text("h1") == [best]
    assert Page(build_page(results, "ab", first=Report("Gate: cannot tell", []))).text("h1") == ["Gate: cannot tell"]


@pytest.mark.usefixtures("undrawn")
def test_results_are_compared_where_they_may_be() -> None:
    old, new = without_samples(), without_samples()
    new.environment["onnxruntime"] = "1.29.0"
    found = page(old, new, names=["old", "new"])
    assert found.text("li")[0].startswith("Cannot tell whether new or old is faster with cpu-tensors, device-tensors")
    assert "Side by side" in found.text("h2")
    assert "old → new: ONNX Runtime: 1.28.0 → 1.29.0" in found.text("li")
    other = result_of(measured("cpu-tensors", latency=steady([1])), model__sha256="b" * 64, environment__gpus=[])
    found = page(old, other)
    assert "Side by side" not in found.text("h2")
    assert "ratios compare modes of one result; other results differ in model, GPUs" in found.text("li")


# The commands


@pytest.mark.process
@pytest.mark.parametrize(  # the latter is a process of its own, where nothing can be cached
    "environment", [{}, pytest.param({"PYTHONHASHSEED": "1", "HOME": "/nowhere"}, marks=pytest.mark.wide)]
)
def test_a_report_lies_beside_its_result_and_is_the_same_each_time(environment: dict[str, str], tmp_path: Path) -> None:
    save(without_samples(), tmp_path / "result.json")
    ran = ortbench("report", tmp_path, **environment)
    assert (ran.code, ran.out, ran.err) == (0, f"Saved in {tmp_path / 'report.html'}\n", "")
    text = (tmp_path / "report.html").read_text()
    assert Page(text).text("h1") == [
        "Copies take ≈60% of the latency of cpu-tensors: ≈12.0 ms (11.7–12.3 ms) of 20.0 ms"
    ]
    assert ortbench("report", tmp_path / "result.json", "--html", "-").out == text


@pytest.mark.process
def test_a_run_of_several_eps_leaves_one_page_also_of_what_failed(tmp_path: Path) -> None:
    arguments = ["--ep", "cpu", "--ep", "qnn", *ONCE, "--mode", "cpu-tensors", "--out", tmp_path / "out", "--html", "-"]
    ran = ortbench("run", MODELS / "tiny.onnx", *arguments)
    assert ran.code == 1
    found = Page(ran.out)
    assert any(text.startswith("qnn failed: ") for text in found.text("li"))
