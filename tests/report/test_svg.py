"""Matplotlib's SVG made fit for a page."""

from __future__ import annotations

from ortbench.features.page.report.sheet import inline_svg

WRITTEN = """<?xml version="1.0" encoding="utf-8" standalone="no"?>
<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN"
  "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="80pt" height="40pt" viewBox="0 0 80 40"
 xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata><x/></metadata>
 <defs>
  <style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style>
 </defs>
 <g id="figure_1">
  <g id="tip-0">
   <path d="M 1.2345 2
L 10.06 20
z
" clip-path="url(#c)" style="fill: #0072b2; stroke: #123456; stroke-width: 1.25"/>
  </g>
  <g id="text_1">
   <text style="font-size: 12px; font-family: 'DejaVu Sans', sans-serif; text-anchor: middle; fill: #57606a"
    x="28.84" y="129.797656" transform="rotate(-0 28.84 129.797656)">a &lt; b</text>
  </g>
  <g id="line2d_1">
   <defs><path id="m" d="M 0 0 L 0 3.5"/></defs>
   <g clip-path="url(#c)"><use xlink:href="#m" x="1" y="2.0" style="stroke: #0072b2"/></g>
  </g>
  <g id="dots"><path d="M 1.26 2.26 L 1.26 2.26 M 3 4 L 3 4" style="fill: none"/></g>
 </g>
 <defs><clipPath id="c"><rect x="0" y="0" width="80" height="40"/></clipPath></defs>
</svg>
"""


def test_styles_become_attributes_and_colours_classes() -> None:
    palette = {"#0072b2": "h2d", "#57606a": "muted"}
    assert inline_svg(WRITTEN, palette, {"tip-0": 'a "bar" & more'}) == (
        '<svg viewBox="0 0 80 40" width="80" height="40" font-family="system-ui, sans-serif" stroke-linejoin="round">'
        '<g><title>a "bar" &amp; more</title>'
        '<path d="M 1.2 2 L 10.1 20 z" clip-path="url(#c)" fill="#0072b2" stroke="#123456" stroke-width="1.2"'
        ' class="fill-h2d" /></g>'
        '<text x="28.8" y="129.8" font-size="12px" text-anchor="middle" fill="#57606a" class="fill-muted">a &lt; b</text>'
        '<defs><path id="m" d="M 0 0 L 0 3.5" /></defs>'
        '<g clip-path="url(#c)"><use href="#m" x="1" y="2" stroke="#0072b2" class="stroke-h2d" /></g>'
        '<path d="M1.3 2.3h0 M3 4h0" fill="none" />'
        '<defs><clipPath id="c"><rect x="0" y="0" width="80" height="40" /></clipPath></defs>'
        "</svg>"
    )
