"""Statistics as CSV. Python's own writer: pandas takes longer to import than a short benchmark takes to run.

Spreadsheets take a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula, quoted or not, and some run what it
says. An apostrophe before it, which they take for "this is text", keeps it a text. Names as they are stand in result.json.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from csv import DictWriter
from typing import Any

from ortbench.core.safe_text import visible_lines

_FORMULA = ("=", "+", "-", "@")


def csv_text(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Flat records as CSV; None and what is not there is left empty, what no column is for is left out.

    Texts are `ortbench.core.safe_text.visible_lines`, and none is a formula.
    """
    text = io.StringIO()
    writer = DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in record.items()} for record in records)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    shown = visible_lines(value)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown
