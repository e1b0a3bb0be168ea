"""Wild graphs: any edges that go forward, any handles, containers in containers; not made of blocks."""

from __future__ import annotations

import random
from typing import Any

_TIMES = range(1, 2000)
_HANDLES = {
    "condition": ["a", "else"],
    "task": ["out"] * 6 + ["error"],
    "try": ["out", "out", "catch"],
    "loop": ["out", "out", "error"],
    "retry": ["out", "out", "error"],
}
_CONTAINERS = ("try", "retry", "loop")
_KINDS = ("task", "fork", "condition", "merge", *_CONTAINERS)
_ENDLESS = 40  # more often than anything is tried


class Wild:
    """`failures[task]` is how often it fails before it succeeds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._times = self._random.sample(_TIMES, 250)  # no two tasks end in the same instant
        self._count = 0
        self.nodes: list[dict[str, Any]] = [{"id": "S", "type": "start", "data": {}}]
        self.edges: list[dict[str, str]] = []
        self.durations: dict[str, int] = {}
        self.failures: dict[str, int] = {}
        self._grow("", 0, self._random.randint(4, 12), 0)

    def case(self) -> dict[str, Any]:
        graph = {"nodes": self.nodes, "edges": self.edges, "settings": {"maxExecutionMs": None}}
        script = {task: self._lines(task) for task in self.durations}
        return {"id": "wild", "graph": graph, "script": script}

    def _lines(self, task: str) -> list[dict[str, Any]]:
        took, often = self.durations[task], self.failures.get(task, 0)
        good = [] if often == _ENDLESS else [{"dur": took}]
        return [{"dur": took, "fail": f"E_{task}"}] * often + good

    def _grow(self, parent: str, depth: int, size: int, loops: int) -> None:
        here = [] if parent else [self.nodes[0]]
        for _ in range(size):
            node = self._node(parent, depth, loops, is_first=len(here) < 2)
            into = self._edges_into(node, here, parent)
            self._describe(node, len(into))
            self.nodes.append(node)
            self.edges.extend(into)
            here.append(node)
            if node["type"] in _CONTAINERS:
                self._grow(
                    node["id"], depth + 1, self._random.randint(1, 4), loops + (node["type"] == "loop")
                )

    def _node(self, parent: str, depth: int, loops: int, *, is_first: bool) -> dict[str, Any]:
        self._count += 1
        weights = [6, 1, 1, 0 if is_first else 4, 0.8, 0.8, 0.8 if loops < 2 else 0]
        if depth == 2:
            weights[4:] = [0, 0, 0]
        kind = self._random.choices(_KINDS, weights)[0]
        node: dict[str, Any] = {"id": f"{kind[0].upper()}{self._count}", "type": kind, "data": {}}
        return {**node, "parentId": parent} if parent else node

    def _edges_into(
        self, node: dict[str, Any], here: list[dict[str, Any]], parent: str
    ) -> list[dict[str, str]]:
        joins = node["type"] == "merge"
        if not here or (parent and not joins and self._random.random() < 0.25):
            return []
        found = {}
        for _ in range(self._random.randint(2, 4) if joins else self._random.choice([1, 1, 1, 2])):
            source = self._random.choice(here if joins else here[-5:])
            handle = self._random.choice(_handles(source))
            edge = {"source": source["id"], "sourceHandle": handle, "target": node["id"]}
            found[source["id"], handle] = edge
        return list(found.values())

    def _describe(self, node: dict[str, Any], edges: int) -> None:
        chance, data, kind = self._random, node["data"], node["type"]
        if kind == "task":
            self.durations[node["id"]] = self._times[self._count]
            if chance.random() < 0.3:
                self.failures[node["id"]] = chance.choice([1, 1, 2, _ENDLESS])
            if chance.random() < 0.25:
                data["retry"] = {"maxAttempts": 2, "delayMs": chance.randint(1, 500)}
        elif kind == "condition":
            data["branches"] = [{"id": "a", "when": chance.choice(["true", "false"])}]
        elif kind == "merge":
            self._describe_join(data, edges)
        elif kind == "retry":
            data.update(maxAttempts=chance.randint(1, 3), delayMs=chance.randint(1, 300))
        elif kind == "loop":
            data.update(times=chance.randint(0, 3), onItemError=chance.choice(["fail", "continue"]))
            if chance.random() < 0.5:
                data.update(mode="parallel", concurrency=chance.choice([1, 2, 5]))

    def _describe_join(self, data: dict[str, Any], edges: int) -> None:
        chance = self._random
        mode = data["mode"] = chance.choice(["all", "all", "any", "count", "timeout"])
        if mode == "count":
            data["count"] = chance.randint(1, edges)
            data["onUnsatisfied"] = chance.choice(["fail", "proceed", "skip"])
        if mode == "timeout" or chance.random() < 0.25:
            data["timeoutMs"] = chance.randint(1, 2500)
        if mode == "all":
            data["errorStrategy"] = chance.choice(["fail-fast", "collect-all", "best-effort"])
            data["requireAll"] = chance.random() < 0.15
        elif mode == "timeout":
            data["errorStrategy"] = chance.choice(["fail-fast", "best-effort"])
        elif chance.random() < 0.3:
            data["errorStrategy"] = "fail-fast"
        if chance.random() < 0.3:
            data["onLate"] = "ignore"


def _handles(node: dict[str, Any]) -> list[str]:
    if node["type"] == "merge":
        data = node["data"]
        timed = "timeoutMs" in data and data["mode"] != "timeout"
        return ["out", "out", "out", "error", *(["timeout"] if timed else [])]
    return _HANDLES.get(node["type"], ["out"])
