"""What commands left in their folders of reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ortbench.model.result import Result
from ortbench.model.result_file import load


def result_in(out: Path) -> Result:
    """The one result of a folder."""
    (path,) = out.glob("*/result.json")
    return load(path)


def json_in(out: Path) -> Any:
    """The same as it was written."""
    (path,) = out.glob("*/result.json")
    return json.loads(path.read_text())
