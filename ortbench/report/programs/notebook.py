"""A program as a Jupyter notebook, a cell for each of its parts.

Four keys of nbformat 4 are all that it takes, so that this is written here and no library is needed for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ortbench.report.programs.program import Part


def notebook(title: str, parts: Sequence[Part]) -> str:
    """The notebook: https://nbformat.readthedocs.io/en/latest/format_description.html

    Args:
        title: of it, with what is to be said of all, as Markdown.
        parts: of the program.
    """
    cells = [_cell(0, "markdown", title), *(_cell(number, "code", part.text) for number, part in enumerate(parts, 1))]
    made = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": f"part-{number}", "metadata": {}}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return {**cell, "source": text.strip("\n").splitlines(keepends=True)}
