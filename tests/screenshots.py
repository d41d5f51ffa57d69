"""The pages in reports/, and pictures of pages there and in docs/img/: ``python -m tests.screenshots`` makes them anew."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from tests import installed  # noqa: F401 - before anything of ortbench is

# isort: split
from ortbench.features.page.report.page import build_page
from ortbench.model.result_file import load
from tests import browser
from tests.conftest import ROOT

REPORTS, PICTURES = ROOT / "reports", ROOT / "docs" / "img"
NAMES = (
    "copy_bound-cpu", "copy_bound-webgpu-swiftshader", "copy_bound-openvino", "copy_bound-refdevice", "copy_bound-cuda-h100",
)  # fmt: skip
DESK, PHONE = 1100, 390  # CSS pixels
FIRST_CHART = "document.querySelector('figure').getBoundingClientRect().bottom + 24"  # the height of a page to its end


def save(picture: bytes, place: Path) -> None:
    """Save a PNG in 256 colours."""
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(256).save(place, optimize=True)


def main() -> None:
    """Make them."""
    path = browser.find()
    if path is None:
        sys.exit("no Chromium")
    with browser.Browser(path) as chromium, TemporaryDirectory() as folder:
        for name in NAMES:
            page = REPORTS / name / "report.html"
            page.write_text(build_page([load(page.with_name("result.json"))], [name]))
            chromium.look(DESK)
            chromium.open(page)
            save(chromium.picture(), page.with_suffix(".png"))
        # The last of them as a reader sees it first: on a desk, at night, on a phone.
        for kind, width, dark, scale in (
            ("light", DESK, False, 1.0), ("dark", DESK, True, 1.0), ("phone", PHONE, False, 1.5),
        ):  # fmt: skip
            chromium.look(width, dark, scale=scale)
            save(chromium.picture(chromium.run(FIRST_CHART)), PICTURES / f"report-{kind}.png")
        for name in ("sweep", "load"):
            page = Path(folder) / f"{name}.html"
            page.write_text(build_page([load(REPORTS / f"{name}-resnet50-cuda-h100" / "result.json")], [name]))
            chromium.look(DESK)
            chromium.open(page)
            save(chromium.picture(chromium.run(FIRST_CHART)), PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
