"""The notebook of the documentation, carried out by a kernel such as Jupyter's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import MODELS, ROOT


@pytest.mark.wide
def test_the_notebook_of_the_pages_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "docs").mkdir()
    for name in ("tiny.onnx", "transformer_ids.onnx"):
        shutil.copy(MODELS / name, tmp_path / "models")
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    book = nbformat.read(ROOT / "docs" / "example.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in book.cells)  # a page's figures are of no machine
    place = {"metadata": {"path": str(tmp_path / "docs")}}
    NotebookClient(book, timeout=600, kernel_name="python3", resources=place).execute()
    outputs = [cell.outputs for cell in book.cells if cell.cell_type == "code"]
    assert all(len(found) == 1 for found in outputs), outputs  # what a cell gives, and nothing that was printed
    shown: list[dict[str, Any]] = [found[0].data for found in outputs]
    result, frame, samples, plot, verdict, compared, load, sweep = shown
    assert plot["image/png"]
    tables = (frame, "latency_median_ns"), (samples, "inference"), (verdict, "passed"), (compared, "#1, #2")
    assert all(words in it["text/html"] for it, words in tables)
    assert all("<svg" in it["text/html"] for it in (result, load, sweep))
    assert os.listdir(tmp_path / "docs") == []
