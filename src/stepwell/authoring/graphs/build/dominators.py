"""Structure of one scope: order, dominators, post-dominators, and which nodes each join may cancel.

A scope is a graph without cycles, so one pass in topological order finds the dominators. The region
of a join J is the set of nodes that J's fork (its immediate dominator) leads to and from which every
path to an end of the scope passes through J: J alone is responsible for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Structure:
    order: tuple[int, ...]  # topological; shorter than the scope when there is a cycle
    idom: tuple[int, ...]  # -1: the opening of the scope
    regions: dict[int, tuple[int, ...]]  # of each join
    join_of: tuple[int, ...]  # by node: the join of the smallest region around it; -1: none


def topological(count: int, successors: Sequence[Sequence[int]]) -> list[int]:
    """Every node after its predecessors; nodes on a cycle or after one are missing."""
    waiting = [0] * count
    for targets in successors:
        for target in targets:
            waiting[target] += 1
    order = [node for node in range(count) if waiting[node] == 0]
    for node in order:
        for target in successors[node]:
            waiting[target] -= 1
            if waiting[target] == 0:
                order.append(target)
    return order


def ending_of(data: Any, edges: Iterable[Any]) -> frozenset[str]:
    """The ids of a try's finally: the node it names and all that follow."""
    first = getattr(data, "finally_", None)
    return frozenset() if first is None else reached(first, edges)


def reached(first: str, edges: Iterable[Any]) -> frozenset[str]:
    """Return the ids of a node and of all nodes that follow it."""
    after: dict[str, list[str]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)
    ids, waiting = {first}, [first]
    while waiting:
        new = [target for target in after.get(waiting.pop(), ()) if target not in ids]
        ids.update(new)
        waiting.extend(new)
    return frozenset(ids)


def analyse(count: int, edges: Sequence[tuple[int, int]], joins: Sequence[int]) -> Structure:
    successors: list[list[int]] = [[] for _ in range(count)]
    predecessors: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        successors[source].append(target)
        predecessors[target].append(source)
    order = topological(count, successors)
    if len(order) < count:
        return Structure(tuple(order), (-1,) * count, {}, (-1,) * count)
    idom = _dominators(order, predecessors)
    after = _dominators(order[::-1], successors)
    regions, join_of = _regions(order, idom, after, joins)
    return Structure(tuple(order), tuple(idom), regions, tuple(join_of))


def _dominators(order: Sequence[int], before: Sequence[Sequence[int]]) -> list[int]:
    """The immediate dominator of each node; -1 stands for the scope's opening (or its end)."""
    idom = [-1] * len(order)
    depth = [0] * (len(order) + 1)  # the last one is for -1
    depth[-1] = -1
    for node in order:
        meet: int | None = None
        for other in before[node]:
            meet = other if meet is None else _meet(meet, other, idom, depth)
        idom[node] = -1 if meet is None else meet
        depth[node] = depth[idom[node]] + 1
    return idom


def _meet(one: int, other: int, idom: Sequence[int], depth: Sequence[int]) -> int:
    while one != other:
        if depth[one] >= depth[other]:
            one = idom[one]
        else:
            other = idom[other]
    return one


def _regions(
    order: Sequence[int], idom: Sequence[int], after: Sequence[int], joins: Sequence[int]
) -> tuple[dict[int, tuple[int, ...]], list[int]]:
    is_join = [False] * len(order)
    for join in joins:
        is_join[join] = True
    # The joins that a node must pass, nearest first, linked: next_join[n], next_join[next_join[n]] ...
    next_join = [-1] * (len(order) + 1)
    for node in reversed(order):
        next_node = after[node]
        next_join[node] = next_node if next_node >= 0 and is_join[next_node] else next_join[next_node]
    enter, leave = _intervals(order, idom)
    members: dict[int, list[int]] = {join: [] for join in joins}
    for node in range(len(order)):
        join = next_join[node]
        while join >= 0:
            fork = idom[join]
            if fork < 0 or (fork != node and enter[fork] <= enter[node] < leave[fork]):
                members[join].append(node)
            join = next_join[join]
    join_of = [-1] * len(order)
    for join, inside in sorted(members.items(), key=lambda region: -len(region[1])):
        for node in inside:
            join_of[node] = join
    return {join: tuple(inside) for join, inside in members.items()}, join_of


def _intervals(order: Sequence[int], idom: Sequence[int]) -> tuple[list[int], list[int]]:
    """Numbers such that a dominates n iff enter[a] <= enter[n] < leave[a]."""
    children: list[list[int]] = [[] for _ in range(len(order) + 1)]
    for node in order:
        children[idom[node]].append(node)
    enter, leave = [0] * len(order), [0] * len(order)
    count = 0
    stack = [(node, False) for node in reversed(children[-1])]
    while stack:
        node, left = stack.pop()
        if left:
            leave[node] = count
            continue
        enter[node] = count
        count += 1
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(children[node]))
    return enter, leave
