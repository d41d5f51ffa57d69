"""What changed from the nodes of one profile to those of another, and what each change takes; and which node of
one graph is which of another. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from ortbench.analysis.intervals import ABOVE, BELOW, MARGIN, verdict_of
from ortbench.analysis.node_times import COMPILED, faster, is_compiled, is_put_in
from ortbench.core.stats import FEWEST, MEAN, Rounds
from ortbench.model.schema import Nodes, ProfiledNode

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.int32]

ADDED, GONE, REPLACED, FUSED = "added", "gone", "replaced", "fused differently"
MOVED, CHANGED, SAME, REST = "on another EP", "other types or shapes", "same", "all other nodes"
_CONVERTING = ("Cast", "Transpose")  # which ONNX Runtime also puts in
_FEW = 0.02  # of the difference: what the same nodes of an operator take less is in one row with others
_NAMED = 3  # nodes of the model that stand for the one that was made of them
_MOST = 0.9  # of an operator's difference: nodes that make so much of it stand for it

Entry = tuple[ProfiledNode | None, ProfiledNode | None]


@dataclass(frozen=True)
class Change:
    """Something that changed: the nodes of it on either side, and what they take, ns per inference."""

    kind: str
    # base, own: the nodes that the baseline and the candidate have; the same number where they are the same nodes
    base: Sequence[ProfiledNode]
    own: Sequence[ProfiledNode]
    base_ns: float
    own_ns: float
    ci95: tuple[float, float] | None  # of the difference
    # where only some nodes of an operator make the difference, these: on the candidate's side
    mainly: Sequence[ProfiledNode] = field(default=())

    @property
    def ns(self) -> float:
        return self.own_ns - self.base_ns


def changes(base: Nodes, own: Nodes, is_supported: Callable[[float], bool] = lambda least: True) -> list[Change]:
    """What changed, what makes most of the whole difference first, with all else as the last one.

    The same nodes are a change of their own only where they take longer or less for certain, by more than profiles of two processes
    differ by, and where noise of the machine `leaves` that claim: that they take at least so many times as long on one side.
    """
    base, own = _faster(base, own)
    pairs = align(_traits(base["each"]), _traits(own["each"]))
    entries = [(None if a is None else base["each"][a], None if b is None else own["each"][b]) for a, b in pairs]
    rounds = len(base["rounds_ns"])
    alike: dict[Hashable, list[_Region]] = defaultdict(list)
    for region in _regions(entries):
        alike[region.signature].append(region)
    made = [_change(group[0].kind, [it for one in group for it in one.entries], rounds) for group in alike.values()]
    same = [(a, b) for a, b in entries if a is not None and b is not None and _kind(a, b) == SAME]
    every = sum(it.ns for it in made) + sum(_ns(b) - _ns(a) for a, b in same)
    least = _FEW * max(abs(every), 1.0)
    rest: list[Entry] = []
    by_op: dict[Hashable, list[Entry]] = defaultdict(list)
    for a, b in same:
        by_op[operator(b), b["ep"]].append((a, b))
    for group in by_op.values():
        change = _change(SAME, group, rounds)
        if abs(change.ns) < least or not _is_told(change, is_supported):
            rest += group
        else:
            made.append(_with_main(change))
    made.sort(key=lambda it: -_weight(it) if every >= 0 else _weight(it))
    return [*made, _change(REST, rest, rounds)] if rest else made


def _is_told(change: Change, is_supported: Callable[[float], bool]) -> bool:
    """Whether the same nodes differ beyond what rounds, processes and the machine make."""
    if change.ci95 is None or change.base_ns <= 0:
        return False
    low, high = (1 + end / change.base_ns for end in change.ci95)
    if (said := verdict_of((low, high), 1 + MARGIN)) not in (ABOVE, BELOW):
        return False
    return is_supported((low if said == ABOVE else 1 / max(high, 1e-9)) / (1 + MARGIN))


def whole(base: Nodes, own: Nodes) -> tuple[float, float, tuple[float, float] | None]:
    """A profiled inference of both, ns, and the interval of their difference over the rounds."""
    sums = [it["rounds_ns"] for it in _faster(base, own)]
    base_ns, own_ns = map(fmean, sums)
    return base_ns, own_ns, _interval(sums, own_ns - base_ns)


def _faster(*profiles: Nodes) -> list[Nodes]:
    """Profiles in the rounds in which each was faster: means over them add up to a run, which medians of nodes do not."""
    rounds = min(len(it["rounds_ns"]) for it in profiles)
    found: list[Nodes] = []
    for profile in profiles:
        kept = faster(profile["rounds_ns"][:rounds], FEWEST)
        each: list[ProfiledNode] = [{**it, "ns": [it["ns"][at] for at in kept]} for it in profile["each"]]
        found.append({**profile, "each": each, "rounds_ns": [profile["rounds_ns"][at] for at in kept]})
    return found


def _weight(change: Change) -> float:
    """By what a change is put in order: of the same nodes, whose times scatter too, what they take at least for certain."""
    if change.kind == SAME and change.ci95 is not None:
        return min(change.ci95, key=abs)
    return change.ns


def _ns(node: ProfiledNode) -> float:
    return fmean(node["ns"])


# Matching


def _traits(nodes: Sequence[ProfiledNode]) -> list[Traits]:
    readers: dict[str, list[str]] = defaultdict(list)
    givers: dict[str, str] = {}
    for node in nodes:
        for tensor in node["inputs"] or ():
            readers[tensor].append(node["op"])
        givers.update(dict.fromkeys(node["outputs"] or (), node["op"]))
    return [
        Traits(
            op=(operator(node), node["inside"] is None),
            gives=tuple(node["gives"]),
            reads=tuple(node["reads"][:1]),  # others may be weights, which are left out once they are packed
            before=tuple(givers.get(it) for it in node["inputs"] or ()),
            after=tuple(sorted(op for it in node["outputs"] or () for op in readers[it])),
            name=tuple(node["of"]) or node["name"],
            outputs=tuple(node["outputs"] or ()),
        )
        for node in nodes
    ]


def _kind(a: ProfiledNode, b: ProfiledNode) -> str:
    """What makes a node another one, though it is the same node."""
    if a["ep"] != b["ep"]:
        return MOVED
    if a["of"] and b["of"] and len(a["of"]) != len(b["of"]):
        return FUSED
    packed = len(a["reads"]) != len(b["reads"])
    return CHANGED if a["gives"] != b["gives"] or (not packed and a["reads"] != b["reads"]) else SAME


# Regions: what stands together


@dataclass
class _Region:
    kind: str
    entries: list[Entry]

    @property
    def signature(self) -> Hashable:
        """The same for changes that are alike, which are one row."""
        return self.kind, *(
            frozenset((operator(it), it["ep"]) for it in nodes) for nodes in _split_entries(self.entries)
        )


def _split_entries(entries: Iterable[Entry]) -> tuple[list[ProfiledNode], list[ProfiledNode]]:
    pairs = list(entries)
    return [a for a, _ in pairs if a is not None], [b for _, b in pairs if b is not None]


def _regions(entries: Sequence[Entry]) -> list[_Region]:
    """What is not the same on both sides. Nodes that only one side has and that run behind each other are one region, as far as
    they hang together; a node that changed takes the region beside it that came of its change."""
    gaps = _gaps(entries)
    taken: set[int] = set()
    found = []
    for at, (a, b) in enumerate(entries):
        if a is None or b is None or (kind := _kind(a, b)) == SAME:
            continue
        beside = [gap for gap in gaps if (gap[0] == at + 1 or gap[-1] == at - 1) and gap[0] not in taken]
        own = [gap for gap in beside if _came_with(kind, a, b, [entries[it] for it in gap])]
        taken.update(gap[0] for gap in own)
        members = sorted([at, *(it for gap in own for it in gap)])
        found.append(_Region(kind, [entries[it] for it in members]))
    for gap in gaps:
        if gap[0] not in taken:
            base_nodes, own_nodes = _split_entries(entries[it] for it in gap)
            kind = REPLACED if base_nodes and own_nodes else ADDED if own_nodes else GONE
            found.append(_Region(kind, [entries[it] for it in gap]))
    return found


def _came_with(kind: str, a: ProfiledNode, b: ProfiledNode, gap: Sequence[Entry]) -> bool:
    """Whether nodes beside one that changed came or went because it did."""
    base, own = _split_entries(gap)
    if all(is_put_in(it["op"], it["name"]) or it["op"] in _CONVERTING for it in (*base, *own)):
        return True
    split = len(a["of"]) > len(b["of"])
    return kind == FUSED and not (base if split else own)


def _gaps(entries: Sequence[Entry]) -> list[list[int]]:
    """The numbers of entries that only one side has, those in a row together."""
    found: list[list[int]] = []
    for at, (a, b) in enumerate(entries):
        if a is not None and b is not None:
            continue
        if found and found[-1][-1] == at - 1:
            found[-1].append(at)
        else:
            found.append([at])
    return found


def operator(node: ProfiledNode) -> str:
    """The operator of a node; an EP makes up another name for every graph that it compiles."""
    return COMPILED if is_compiled(node) else node["op"]


def name_node(node: ProfiledNode) -> str:
    """The name of a node in the model, or of those that it was made of, of many the first and the last."""
    of, name = node["of"], node["name"]
    if is_compiled(node):
        return COMPILED
    if len(of) <= _NAMED:
        return " + ".join(of) or name
    return name if name in of else f"{of[0]} + … + {of[-1]}"


# Times


def _change(kind: str, entries: Sequence[Entry], rounds: int) -> Change:
    base, own = _split_entries(entries)
    sums = [[sum(it["ns"][at] for it in nodes) for at in range(rounds)] for nodes in (base, own)]
    base_ns, own_ns = map(fmean, sums)
    return Change(kind, base, own, base_ns, own_ns, _interval(sums, own_ns - base_ns))


def _interval(sums: Sequence[Sequence[float]], difference: float) -> tuple[float, float] | None:
    """Of a difference, over the rounds; None where these are too few."""
    rounds = Rounds(range(len(sums[0])))
    if not rounds.are_enough:
        return None
    base, own = (rounds.figures({at: [value] for at, value in enumerate(values)}, MEAN) for values in sums)
    return rounds.interval(own - base, difference)


def _with_main(change: Change) -> Change:
    """The same, with the few nodes that make nearly all of the difference, where few do."""
    sign = 1 if change.ns >= 0 else -1
    each = [(sign * (_ns(b) - _ns(a)), b) for a, b in zip(change.base, change.own, strict=True)]
    each.sort(key=lambda it: -it[0])
    so_far, main = 0.0, list[ProfiledNode]()
    for ns, node in each:
        if so_far >= _MOST * abs(change.ns):
            break
        so_far += ns
        main.append(node)
    return replace(change, mainly=tuple(main) if len(main) <= max(1, len(each) // 2) else ())


# Which node is which: an alignment in the order in which they run.
#
# An exporter that numbers nodes gives every node behind an inserted one another name, so a name alone decides nothing. Two nodes
# can be the same one only if they have one operator; of all alignments the one with the highest score is taken (Needleman &
# Wunsch, J. Molecular Biology 48 (1970) 443), in which operators count most, then shapes, then neighbours, and names last.


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
_MOST_CELLS = 30_000_000  # cells of a table of scores: 120 MB


def align(one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    """The nodes of both in order, side by side where they are the same: each once, None on the side that lacks it."""
    shortest = min(len(one), len(other))
    head = next((at for at in range(shortest) if one[at] != other[at]), shortest)
    left = shortest - head
    tail = next((at for at in range(left) if one[-1 - at] != other[-1 - at]), left)
    middle = _align_scored(one[head : len(one) - tail], other[head : len(other) - tail])
    found: list[Pair] = [(at, at) for at in range(head)]
    found += [(None if a is None else a + head, None if b is None else b + head) for a, b in middle]
    found += [(len(one) - tail + at, len(other) - tail + at) for at in range(tail)]
    return _with_moved(found, one, other)


def _align_scored(one: Sequence[Traits], other: Sequence[Traits]) -> list[Pair]:
    if not one or not other or len(one) * len(other) > _MOST_CELLS:
        return [*((at, None) for at in range(len(one))), *((None, at) for at in range(len(other)))]
    import numpy as np

    codes: list[dict[Hashable, int]] = [{} for _ in Traits._fields]

    def encode(nodes: Sequence[Traits]) -> Scores:
        return np.array(
            [[code.setdefault(it, len(code)) for it, code in zip(node, codes, strict=True)] for node in nodes], np.int32
        )

    mine, theirs = encode(one), encode(other)
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
