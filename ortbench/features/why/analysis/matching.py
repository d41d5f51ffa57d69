"""Which node of one graph is which of another: an alignment in the order in which they run. Pure.

An exporter that numbers nodes gives every node behind an inserted one another name, so a name alone decides nothing. Two nodes
can be the same one only if they have one operator; of all alignments the one with the highest score is taken (Needleman &
Wunsch, J. Molecular Biology 48 (1970) 443), in which operators count most, then shapes, then neighbours, and names last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.int32]


class Traits(NamedTuple):
    """What tells a node: each is compared as a whole."""

    op: Hashable  # nodes of two are never the same
    gives: Hashable = None
    reads: Hashable = None
    before: Hashable = None  # the operators that it reads from
    after: Hashable = None  # those that read it
    name: Hashable = None
    outputs: Hashable = None


Pair = tuple[int | None, int | None]

_WEIGHTS = Traits(op=16, gives=4, reads=2, before=2, after=2, name=1, outputs=1)
_MOST = 30_000_000  # cells of a table of scores: 120 MB


def align(one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    """The nodes of both in order, side by side where they are the same: each once, None on the side that lacks it."""
    shortest = min(len(one), len(other))
    head = next((at for at in range(shortest) if one[at] != other[at]), shortest)
    left = shortest - head
    tail = next((at for at in range(left) if one[-1 - at] != other[-1 - at]), left)
    middle = _aligned(one[head : len(one) - tail], other[head : len(other) - tail])
    found: list[Pair] = [(at, at) for at in range(head)]
    found += [(None if a is None else a + head, None if b is None else b + head) for a, b in middle]
    found += [(len(one) - tail + at, len(other) - tail + at) for at in range(tail)]
    return _with_moved(found, one, other)


def _aligned(one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    if not one or not other or len(one) * len(other) > _MOST:
        return [*((at, None) for at in range(len(one))), *((None, at) for at in range(len(other)))]
    import numpy as np

    codes: list[dict[Hashable, int]] = [{} for _ in Traits._fields]

    def coded(nodes: Sequence[Traits]) -> Scores:
        return np.array(
            [[code.setdefault(it, len(code)) for it, code in zip(node, codes, strict=True)] for node in nodes], np.int32
        )

    mine, theirs = coded(one), coded(other)
    best = np.zeros((len(one) + 1, len(other) + 1), np.int32)
    for row, node in enumerate(mine, 1):
        scores = (theirs == node) @ np.array(_WEIGHTS, np.int32)
        matched = np.where(theirs[:, 0] == node[0], best[row - 1, :-1] + scores, 0)
        best[row, 1:] = np.maximum(best[row - 1, 1:], matched)
        np.maximum.accumulate(best[row], out=best[row])
    return _path(best, one, other)


def _path(best: Scores, one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    """The way to the highest score, from its end."""
    found: list[Pair] = []
    a, b = len(one), len(other)
    while a or b:
        if a and b and best[a, b] > max(best[a - 1, b], best[a, b - 1]):
            a, b = a - 1, b - 1
            found.append((a, b))
        elif b and (not a or best[a, b] == best[a, b - 1]):
            b -= 1
            found.append((None, b))
        else:
            a -= 1
            found.append((a, None))
    return found[::-1]


def _with_moved(found: Sequence[Pair], one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    """The same, where nodes that only run earlier or later are side by side too: those of one operator, name and shape."""
    gone: dict[Hashable, list[int]] = defaultdict(list)
    came: dict[Hashable, list[int]] = defaultdict(list)
    for a, b in found:
        if a is None and b is not None:
            came[_identity(other[b])].append(b)
        elif b is None and a is not None:
            gone[_identity(one[a])].append(a)
    moved = {gone[key][0]: came[key][0] for key in gone if len(gone[key]) == 1 == len(came.get(key, ()))}
    here = set(moved.values())
    kept = [(a, b) for a, b in found if a is not None or b not in here]
    return [(a, moved[a]) if a is not None and a in moved else (a, b) for a, b in kept]


def _identity(node: Traits) -> Hashable:
    return node.op, node.name, node.gives
