"""Parts of a suite, for machines that carry it out together. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from ortbench.core.errors import BadInput


def parse_shard(text: str) -> tuple[int, int]:
    """``2/4`` as (2, 4): the second of four parts; `BadInput` where it is not of that form."""
    found = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
    number, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= number <= count:
        raise BadInput(f"--shard {text!r}: write it as i/n, from 1/n to n/n", "--shard")
    return number, count


def shard(ids: Sequence[str], number: int, count: int) -> set[str]:
    """One of `count` parts, of about equal size: every id is in exactly one of them.

    Which one does not go by the order of the file, where every second case may be on the same EP.
    """
    mixed = sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())
    return set(mixed[number - 1 :: count])
