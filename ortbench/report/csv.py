"""Statistics as CSV. Python's own writer: pandas takes longer to import than a short benchmark takes to run."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from csv import DictWriter
from typing import Any


def csv_text(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Flat records as CSV; None and what is not there is left empty, what no column is for is left out."""
    text = io.StringIO()
    writer = DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
