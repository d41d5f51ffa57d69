"""What ONNX Runtime chose of a model package."""

from __future__ import annotations

from typing import TypedDict

from ortbench.model.schema import Warned


class Selected(TypedDict):
    """A variant: its model's path, and the entries of the session's configuration and the options of its EP that come with it."""

    path: str
    session_config: dict[str, str]
    options: dict[str, str]
    note: Warned  # which variant, of which others
