"""A second opinion on data: what every node sees, by GR-K1 and GR-M1 to GR-M3, read literally.

Flat graphs with any edges that go forward, so that branches overlap; tasks write few variables, often the
same. Every last node has an end that tells its whole context.
"""

from __future__ import annotations

import random
from typing import Any

from stepwell.authoring.graphs.templates.json_equality import equal
from stepwell.testing.graphs.cases import Case

_VARIABLES = ("v", "o")
Written = dict[str, tuple[Any, str]]  # variable: its value, and who wrote it
Edge = tuple[str, str, str]


class Tangle:
    """A random graph."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.kinds: dict[str, str] = {"S": "start"}
        self.data: dict[str, dict[str, Any]] = {"S": {}}
        self.edges: list[Edge] = []
        self.script: dict[str, list[dict[str, Any]]] = {}
        count = self._random.randint(6, 14)
        self._times = self._random.sample(range(1, 900), count)
        for number in range(count):
            self._grow(number)
        self._random.shuffle(self.edges)
        for last in [id for id in self.kinds if not any(id == source for source, _, _ in self.edges)]:
            self._add(f"Z{last}", "end", {"output": {last: "{{ctx}}"}}, [last])

    def case(self) -> Case:
        nodes = [{"id": id, "type": kind, "data": self.data[id]} for id, kind in self.kinds.items()]
        edges = [{"source": a, "sourceHandle": handle, "target": b} for a, handle, b in self.edges]
        graph = {"nodes": nodes, "edges": edges}
        return Case.read({"id": "tangle", "graph": graph, "script": self.script, "input": {"i": 1}})

    def _grow(self, number: int) -> None:
        chance, before = self._random, list(self.kinds)[-6:]
        kind = chance.choices(["task", "fork", "condition", "merge"], [6, 1, 1, 3])[0] if number else "task"
        id = f"{kind[0].upper()}{number}"
        data: dict[str, Any] = {}
        several = chance.choice([2, 2, 3]) if kind == "merge" else chance.choice([1, 1, 1, 2])
        if kind == "task":
            if chance.random() < 0.8:
                data["outputVariable"] = chance.choice(_VARIABLES)
            self.script[id] = [{"dur": self._times[number], "out": self._value(number)}]
        elif kind == "condition":
            data["branches"] = [{"id": "y", "when": chance.choice(["true", "false"])}]
        elif kind == "merge":
            data["strategy"] = chance.choice(["merge-all", "merge-all", "last-write", "first-write"])
            if chance.random() < 0.3:
                data["outputVariable"] = chance.choice(["j", *_VARIABLES])
        self._add(id, kind, data, chance.sample(before, min(several, len(before))))

    def _value(self, number: int) -> Any:
        deep = [{"a": "same", "c": {"d": number}}, {"c": {"e": number}}, {"a": number}, {"b": number}]
        return self._random.choice([number, "same", None, [number], *deep, *deep])

    def _add(self, id: str, kind: str, data: dict[str, Any], sources: list[str]) -> None:
        for source in sources:
            handles = ["y", "else"] if self.kinds[source] == "condition" else ["out"]
            self.edges.append((source, self._random.choice(handles), id))
        self.kinds[id], self.data[id] = kind, data


class DataOpinion:
    """What should come out. `is_open`: arrivals in one instant at a join that goes by their order."""

    def __init__(self, tangle: Tangle) -> None:
        self._tangle = tangle
        self._forks = self._dominators()
        self._behind: dict[str, Written] = {"S": {"input": ({"i": 1}, "S")}}
        self._live = {"S": {"out"}}
        self._ended = {"S": 0}
        self.steps = {"S": "completed"}
        self.output: dict[str, Any] = {}
        self.conflicts = 0
        self.is_open = False
        for id in list(tangle.kinds)[1:]:
            self._step(id)

    def _into(self, id: str) -> list[Edge]:
        return [edge for edge in self._tangle.edges if edge[2] == id]

    def _dominators(self) -> dict[str, str]:
        over: dict[str, set[str]] = {}
        nearest = {}
        for id in self._tangle.kinds:
            sources = [over[source] for source, _, _ in self._into(id)]
            over[id] = {id} | (set.intersection(*sources) if sources else set())
            if sources:
                nearest[id] = max(over[id] - {id}, key=lambda d: len(over[d]))
        return nearest

    def _step(self, id: str) -> None:
        edges = self._into(id)
        arrived = [source for source, handle, _ in edges if handle in self._live[source]]
        self._ended[id] = max(self._ended[source] for source, _, _ in edges)
        self._live[id] = set()
        self.steps[id] = "completed" if arrived else "skipped"
        if arrived:
            self._complete(id, arrived)

    def _complete(self, id: str, arrived: list[str]) -> None:
        data, seen = self._tangle.data[id], self._seen(id, arrived)
        self._live[id] = {"out"}
        output: Any = None
        if id in self._tangle.script:
            line = self._tangle.script[id][0]
            output, self._ended[id] = line["out"], self._ended[id] + line["dur"]
        elif "branches" in data:
            self._live[id] = {"y" if data["branches"][0]["when"] == "true" else "else"}
        elif "strategy" in data:
            output = {"arrived": list(dict.fromkeys(arrived)), "errors": [], "timedOut": False}
        elif "output" in data:
            self.output.update({name: {v: seen[v][0] for v in seen} for name in data["output"]})
        variable = data.get("outputVariable")
        self._behind[id] = {**seen, variable: (output, id)} if variable else seen

    def _seen(self, id: str, arrived: list[str]) -> Written:
        base, strategy = self._behind[self._forks[id]], self._tangle.data[id].get("strategy", "merge-all")
        sources = list(dict.fromkeys(arrived))
        if strategy != "merge-all":
            self.is_open |= len({self._ended[source] for source in sources}) < len(sources)
            sources.sort(key=lambda source: self._ended[source], reverse=strategy == "first-write")
        written: Written = {}
        for source in sources:
            for name, (value, writer) in self._behind[source].items():
                if base.get(name, (None, ""))[1] == writer:
                    continue
                if strategy == "merge-all" and name in written and written[name][1] != writer:
                    both = self._together(written[name][0], value)
                    written[name] = (both, writer if both is value else id)
                else:
                    written[name] = (value, writer)
        return {**base, **written}

    def _together(self, one: Any, other: Any) -> Any:
        if isinstance(one, dict) and isinstance(other, dict):
            return one | {k: self._together(one[k], v) if k in one else v for k, v in other.items()}
        self.conflicts += not equal(one, other)
        return other
