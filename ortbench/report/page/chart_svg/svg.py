"""Matplotlib's SVG made fit for the inside of a page: small, themed by classes, right without any style sheet too. Pure.

Matplotlib writes styles as `style` attributes with fixed colours and a sheet of its own that would hold for the whole
page. Here styles become presentation attributes, which every rule of the page's sheet outweighs and which no content
security policy forbids, and each colour of the palette also becomes a class, so that the page can give it another value
in dark mode.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_FRACTION = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_DOT = re.compile(r"M (\S+ \S+) L \1(?= |$)")
_NUMBERS = ("d", "x", "y", "width", "height", "transform", "points", "font-size", "stroke-width", "stroke-dasharray")
_PAINTS = ("fill", "stroke")
_FONT = "system-ui, sans-serif"
MARGIN = (
    16  # px, of a picture by itself: on a page what is written beyond the edge is shown, elsewhere it would be cut off
)


def inline(text: str, palette: Mapping[str, str], tips: Mapping[str, str]) -> str:
    """The `svg` element of a page.

    Args:
        text: what Matplotlib's SVG backend wrote.
        palette: for each colour (``#rrggbb``, lower case) its name; it gets the classes ``fill-<name>`` and
            ``stroke-<name>``.
        tips: for the id of a group the text that a pointer over it shows.
    """
    root = ElementTree.fromstring(text)
    _, _, width, height = root.attrib["viewBox"].split()
    _clean(root, palette, tips)
    root.attrib = {
        "viewBox": f"0 0 {width} {height}",
        "width": width,
        "height": height,
        "font-family": _FONT,
        "stroke-linejoin": "round",
    }
    return ElementTree.tostring(root, encoding="unicode")


def standalone(svg: str, palette: Mapping[str, tuple[str, str]]) -> str:
    """An `svg` element of a page as a file of its own, on paper, with the second of each pair of colours for dark mode."""
    rules = "".join(f".{paint}-{name}{{{paint}:{dark}}}" for name, (_, dark) in palette.items() for paint in _PAINTS)
    style = f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style>"
    root = ElementTree.fromstring(svg)
    wide, high = (float(root.attrib[name]) + 2 * MARGIN for name in ("width", "height"))
    at = f"{-MARGIN} {-MARGIN} {wide:g} {high:g}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{at}" width="{wide:g}" height="{high:g}" font-family="{_FONT}">'
    paper = f'<rect x="{-MARGIN}" y="{-MARGIN}" width="100%" height="100%" class="fill-paper" fill="{palette["paper"][0]}" />'
    return f"{head}{style}{paper}{svg.partition('>')[2]}\n"


def _clean(element: Element, palette: Mapping[str, str], tips: Mapping[str, str]) -> None:
    element.tag = element.tag.rpartition("}")[2]
    element.tail = None
    children: list[Element] = []
    for child in element:
        _clean(child, palette, tips)
        if child.tag in ("metadata", "style") or (child.tag in ("g", "defs") and len(child) == 0):
            continue
        children += [*child] if child.tag == "g" and not child.attrib and child[0].tag != "title" else [child]
    element[:] = children
    if children or not (element.text or "").strip():
        element.text = None
    tip = tips.get(element.attrib.get("id", ""))
    element.attrib = _attributes(element, palette)
    if tip is not None:
        title = Element("title")
        title.text = tip
        element.insert(0, title)


def _attributes(element: Element, palette: Mapping[str, str]) -> dict[str, str]:
    """The element's attributes in their final form: no style, no namespace, no id that nothing refers to."""
    given = {name.rpartition("}")[2]: value for name, value in element.attrib.items() if name != "style"}
    if element.tag == "g":
        given.pop("id", None)
    if given.get("transform", "").startswith("rotate(-0 "):
        del given["transform"]
    given |= _style(element.attrib.get("style", ""))
    classes = [f"{name}-{palette[given[name]]}" for name in _PAINTS if given.get(name) in palette]
    if classes:
        given["class"] = " ".join(classes)
    return {name: _rounded(value) if name in _NUMBERS else value for name, value in given.items()}


def _style(text: str) -> dict[str, str]:
    """Declarations as presentation attributes. The page chooses the typeface."""
    declared = dict(part.strip().split(": ", 1) for part in text.split(";") if ": " in part)
    declared.pop("font-family", None)
    return declared


def _rounded(text: str) -> str:
    """Numbers to a tenth of a pixel, no line breaks, dots in a short form: the same picture in a third of the bytes."""
    text = _FRACTION.sub(lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), text)
    return _DOT.sub(r"M\1h0", " ".join(text.split()))
