"""What changed from the nodes of one profile to those of another, and what each change takes; and which node of
one graph is which of another. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import fmean

from ortbench.analysis.intervals import ABOVE, BELOW, MARGIN, verdict_of
from ortbench.analysis.node_times import faster, is_put_in, operator
from ortbench.core.stats import FEWEST, MEAN, Rounds
from ortbench.features.why.analysis.matching import (
    CONVERTING,
    align,
    describe_nodes,
    is_quantized,
    match_quantized,
)
from ortbench.model.schema import Nodes, ProfiledNode

ADDED, GONE, REPLACED, FUSED, QUANTIZED = "added", "gone", "replaced", "fused differently", "quantized"
MOVED, CHANGED, SAME, REST = "on another EP", "other types or shapes", "same", "all other nodes"
_FEW = 0.02  # of the difference: what the same nodes of an operator take less is in one row with others
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

    @property
    def signature(self) -> Hashable:
        """The same for rows that are alike, which are one change."""
        return self.kind, *(frozenset((operator(it), it["ep"]) for it in nodes) for nodes in (self.base, self.own))


def rows(base: Nodes, own: Nodes) -> list[Change]:
    """What stands for what, a row each: those that differ most first."""
    base, own = _faster(base, own)
    each, rounds = (base["each"], own["each"]), len(base["rounds_ns"])
    matched = match_quantized(*each)
    if matched is None:
        pairs = align(*map(describe_nodes, each))
        found = _regions([(None if a is None else each[0][a], None if b is None else each[1][b]) for a, b in pairs])
    else:
        found = [(_kind_of_row(*nodes), *nodes) for nodes in matched]
    return sorted((_change(*row, rounds) for row in found), key=lambda it: -abs(it.ns))


def changes(found: Sequence[Change], is_supported: Callable[[float], bool] = lambda least: True) -> list[Change]:
    """What changed, of `rows`: those that are alike together, what makes most of the whole difference first, all else as the last one.

    The same nodes are a change of their own only where they take longer or less for certain, by more than profiles of two processes
    differ by, and where noise of the machine `leaves` that claim: that they take at least so many times as long on one side.
    """
    rounds = next((len(it["ns"]) for row in found for it in (*row.base, *row.own)), 0)
    alike: dict[Hashable, list[Change]] = defaultdict(list)
    for row in found:
        alike[row.signature].append(row)
    groups = [
        _change(
            group[0].kind, [it for row in group for it in row.base], [it for row in group for it in row.own], rounds
        )
        for group in alike.values()
    ]
    every = sum(it.ns for it in groups)
    made, rest = list[Change](), list[Change]()
    for change in groups:
        if change.kind != SAME:
            made.append(change)
        elif abs(change.ns) < _FEW * max(abs(every), 1.0) or not is_told(change, is_supported):
            rest.append(change)
        else:
            made.append(_with_main(change))
    made.sort(key=lambda it: -_weight(it) if every >= 0 else _weight(it))
    left = _change(REST, [it for one in rest for it in one.base], [it for one in rest for it in one.own], rounds)
    return [*made, left] if rest else made


def is_told(change: Change, is_supported: Callable[[float], bool] = lambda least: True) -> bool:
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


def _kind(a: ProfiledNode, b: ProfiledNode) -> str:
    """What makes a node another one, though it is the same node."""
    if a["ep"] != b["ep"]:
        return MOVED
    if a["of"] and b["of"] and len(a["of"]) != len(b["of"]):
        return FUSED
    packed = len(a["reads"]) != len(b["reads"])
    return CHANGED if a["gives"] != b["gives"] or (not packed and a["reads"] != b["reads"]) else SAME


def _kind_of_row(base: Sequence[ProfiledNode], own: Sequence[ProfiledNode]) -> str:
    """What became of nodes of a model that was quantized, or that is the original of one."""
    if not base or not own:
        return ADDED if own else GONE
    if any(map(is_quantized, own)) != any(map(is_quantized, base)):
        return QUANTIZED if any(map(is_quantized, own)) else REPLACED
    if [*map(operator, base)] == [*map(operator, own)]:
        pairs = zip(base, own, strict=True)  # what was quantized has other nodes of the model around each
        return next((kind for a, b in pairs if (kind := _kind(a, {**b, "of": a["of"]})) != SAME), SAME)
    return REPLACED


# Regions: what stands together


_Region = tuple[str, list[ProfiledNode], list[ProfiledNode]]  # a kind, and the nodes of both


def _split_entries(entries: Iterable[Entry]) -> tuple[list[ProfiledNode], list[ProfiledNode]]:
    pairs = list(entries)
    return [a for a, _ in pairs if a is not None], [b for _, b in pairs if b is not None]


def _regions(entries: Sequence[Entry]) -> list[_Region]:
    """What stands for what. Nodes that only one side has and that run behind each other are one region, as far as they hang together; a
    node that changed takes the region beside it that came of its change."""
    gaps = _gaps(entries)
    taken: set[int] = set()
    found = list[_Region]()
    for at, (a, b) in enumerate(entries):
        if a is None or b is None:
            continue
        if (kind := _kind(a, b)) == SAME:
            found.append((SAME, [a], [b]))
            continue
        beside = [gap for gap in gaps if (gap[0] == at + 1 or gap[-1] == at - 1) and gap[0] not in taken]
        own = [gap for gap in beside if _came_with(kind, a, b, [entries[it] for it in gap])]
        taken.update(gap[0] for gap in own)
        members = sorted([at, *(it for gap in own for it in gap)])
        found.append((kind, *_split_entries(entries[it] for it in members)))
    for gap in gaps:
        if gap[0] not in taken:
            base_nodes, own_nodes = _split_entries(entries[it] for it in gap)
            kind = REPLACED if base_nodes and own_nodes else ADDED if own_nodes else GONE
            found.append((kind, base_nodes, own_nodes))
    return found


def _came_with(kind: str, a: ProfiledNode, b: ProfiledNode, gap: Sequence[Entry]) -> bool:
    """Whether nodes beside one that changed came or went because it did."""
    base, own = _split_entries(gap)
    if all(is_put_in(it["op"], it["name"]) or it["op"] in CONVERTING for it in (*base, *own)):
        return True
    split = len(a["of"]) > len(b["of"])
    return kind == FUSED and not (base if split else own)


def _gaps(entries: Sequence[Entry]) -> list[list[int]]:
    """The numbers of entries that only one side has, those in a row together."""
    in_a_row = groupby(range(len(entries)), lambda at: None in entries[at])
    return [[*numbers] for is_alone, numbers in in_a_row if is_alone]


def _change(kind: str, base: Sequence[ProfiledNode], own: Sequence[ProfiledNode], rounds: int) -> Change:
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
    each = [(sign * (fmean(b["ns"]) - fmean(a["ns"])), b) for a, b in zip(change.base, change.own, strict=True)]
    each.sort(key=lambda it: -it[0])
    so_far, main = 0.0, list[ProfiledNode]()
    for ns, node in each:
        if so_far >= _MOST * abs(change.ns):
            break
        so_far += ns
        main.append(node)
    return replace(change, mainly=tuple(main) if len(main) <= max(1, len(each) // 2) else ())
