"""Who forces the copies inside a graph, and the islands on the CPU."""

from __future__ import annotations

from ortbench.analysis.placement import FROM_HOST, TO_HOST, Copy, Node, layout, position, with_copies
from ortbench.core.eps import CPU_EP

GPU = "SomeExecutionProvider"


def node(
    name: str, reads: str, gives: str, ep: str | None = GPU, inside: int | None = None, branch: str = "", op: str = "Op"
) -> Node:
    """A node; its tensors are separated by spaces."""
    return Node(name, op, ep, tuple(reads.split()), tuple(gives.split()), inside, branch)


def to_host(tensor: str, name: str = "Memcpy", inside: int | None = None) -> Node:
    return node(name, f"{tensor}@device", tensor, None, inside, op=TO_HOST)


def from_host(tensor: str, name: str = "Memcpy", inside: int | None = None) -> Node:
    return node(name, tensor, f"{tensor}@device", None, inside, op=FROM_HOST)


def test_nodes_that_are_one_island() -> None:
    graph = [
        node("0", "x", "a@device"), to_host("a"), node("2", "a", "b", CPU_EP), node("3", "a", "c", CPU_EP),
        node("4", "weights", "d", CPU_EP),
    ]  # fmt: skip
    found = layout(graph)
    assert found.islands == ((2, 3), (4,))
    assert found.copies == (Copy(1, True, "a", (2, 3), 0),)
    graph = [node("0", "x w", "a", CPU_EP), node("1", "x w", "b", CPU_EP)]
    assert layout(graph).islands == ((0,), (1,))
    graph = [
        node("0", "p", "a", CPU_EP), node("1", "q", "b", CPU_EP), node("2", "r", "c", CPU_EP),
        node("3", "b c", "d", CPU_EP), node("4", "a d", "e", CPU_EP),
    ]  # fmt: skip
    assert layout(graph).islands == ((0, 1, 2, 3, 4),)


def test_who_forces_a_copy() -> None:
    graph = [from_host("x"), node("1", "x@device", "y"), node("2", "x", "z", CPU_EP)]
    assert layout(graph).copies == (Copy(0, False, "x", (2,), 0),)
    graph = [node("0", "x", "shape@device"), to_host("shape"), node("2", "x shape", "y")]
    found = layout(graph)
    assert found.islands == ()
    assert found.copies == (Copy(1, True, "shape", (2,), None),)
    assert layout([node("0", "x", "a@device"), to_host("a")]).copies == (Copy(1, True, "a", (), None),)


def test_where_an_island_stands() -> None:
    graph = [
        node("0", "x", "a", CPU_EP), from_host("a"), node("2", "a@device", "b@device"), to_host("b"),
        node("4", "b", "c", CPU_EP), from_host("c"), node("6", "c@device", "d@device"), to_host("d"),
        node("8", "d", "e", CPU_EP), node("9", "x", "f", CPU_EP), node("10", "x", "g", CPU_EP, inside=6),
    ]  # fmt: skip
    assert [position(graph, [index]) for index in (0, 4, 8, 9, 10)] == ["start", "middle", "end", "apart", "middle"]


def test_copies_are_predicted_where_tensors_cross_in_the_order_of_their_names() -> None:
    graph = [
        node("0", "x", "p"), node("1", "p w", "q", CPU_EP), node("2", "x", "b", CPU_EP), node("3", "q b", "y"),
        node("4", "p", "z"), node("5", "only", "unread", CPU_EP),
    ]  # fmt: skip
    wired = with_copies(graph, ["x", "only"])
    assert wired[6:] == [
        node("", "x", "x@device", None, op=FROM_HOST),
        node("", "b", "b@device", None, op=FROM_HOST),
        node("", "q", "q@device", None, op=FROM_HOST),
        node("", "p@device", "p", None, op=TO_HOST),
    ]
    assert [(it.inputs, it.outputs) for it in wired[:5]] == [
        (("x@device",), ("p@device",)),
        (("p", "w"), ("q",)),
        (("x",), ("b",)),
        (("q@device", "b@device"), ("y",)),
        (("p@device",), ("z",)),
    ]
    assert [(copy.tensor, copy.forced_by) for copy in layout(wired).copies] == [
        ("x", (2,)), ("b", (2,)), ("q", (1,)), ("p", (1,)),
    ]  # fmt: skip
    graph = [
        node("0", "x", "a"),
        node("if", "c inner/b", "y", CPU_EP, op="If"),
        node("2", "a", "inner/p", CPU_EP, inside=1, branch="then_branch"),
        node("3", "inner/p", "inner/b", inside=1, branch="then_branch"),
    ]
    assert with_copies(graph, ["x", "c"])[4:] == [node("", "inner/p", "inner/p@device", None, inside=1, op=FROM_HOST)]
