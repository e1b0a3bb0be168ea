"""Random graphs, valid by construction: blocks of sequences, branches, races, waits and containers."""

from __future__ import annotations

import random
from typing import Any

from stepwell.testing.graphs.cases import Case


class Grower:
    def __init__(self, seed: int, *, only_all: bool = False) -> None:
        self._random = random.Random(seed)
        self._only_all = only_all
        self._count = 0
        self._times = self._random.sample(range(1, 500), 400)  # no two waits of the same length
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self.script: dict[str, list[dict[str, Any]]] = {}

    def case(self) -> Case:
        start = self._node("start", "")
        last = self._block(start, "", 0)
        end = self._node("end", "", output={"seen": "{{ctx}}"})
        self._edge(last, end)
        graph = {"name": "random", "nodes": self.nodes, "edges": self.edges, "settings": {"maxNodes": 500}}
        return Case.read({"id": "random", "graph": graph, "script": self.script, "input": {"flag": True}})

    def timed_anew(self, case: Case, seed: int) -> Case:
        """The same graph, its work done in other times."""
        other = random.Random(seed)
        script = {
            node: [{**line, "dur": other.randrange(30)} for line in lines]
            for node, lines in case.script.items()
        }
        return Case.read({"id": "again", "graph": case.graph, "script": script, "input": case.input})

    def _node(self, type: str, parent: str, **data: Any) -> str:
        self._count += 1
        id = f"{type[0].upper()}{self._count}"
        body: dict[str, Any] = {"id": id, "type": type, "data": data}
        if parent:
            body["parentId"] = parent
        self.nodes.append(body)
        return id

    def _edge(self, source: str | None, target: str, handle: str = "out") -> None:
        if source is not None:
            self.edges.append({"source": source, "sourceHandle": handle, "target": target})

    def _task(self, parent: str, *, handled: bool = False) -> str:
        """Some fail; with only `all` joins no failure may cancel anything, so those that are handled."""
        shared = self._random.random() < 0.3
        data: dict[str, Any] = {"outputVariable": "shared" if shared else f"v{self._count}"}
        if self._random.random() < 0.2:
            data["retry"] = {"maxAttempts": 2, "delayMs": self._random.randrange(1, 20)}
        id = self._node("task", parent, **data)
        # No two end in the same instant: whose turn it is then is nobody's promise.
        line: dict[str, Any] = {
            "dur": self._random.randrange(30) + self._count / 997,
            # What many write, and who has seen what of it: all that is told at the end.
            "out": self._count if shared else "=default(ctx?.shared, 0)",
        }
        if self._random.random() < (0.3 if handled else 0.0 if self._only_all else 0.1):
            line = {"dur": line["dur"], "fail": f"E{self._random.randrange(3)}"}
        self.script[id] = [line]
        return id

    def _block(self, before: str | None, parent: str, depth: int) -> str:
        last = before
        for _ in range(self._random.randrange(1, 4)):
            last = self._part(last, parent, depth)
        assert last is not None
        return last

    def _part(self, before: str | None, parent: str, depth: int) -> str:
        kinds = ["task", "wait", "fork", "choice", "handled"]
        if depth < 3:
            kinds += ["loop", "try", "retry"]
        kind = self._random.choice(kinds) if depth < 4 else "task"
        made: str = getattr(self, f"_{kind}_part")(before, parent, depth)
        return made

    def _task_part(self, before: str | None, parent: str, depth: int) -> str:
        id = self._task(parent)
        self._edge(before, id)
        return id

    def _handled_part(self, before: str | None, parent: str, depth: int) -> str:
        id = self._task(parent, handled=True)
        self._edge(before, id)
        return self._or_else(id, parent, "out", "error")

    def _fork_part(self, before: str | None, parent: str, depth: int) -> str:
        fork = self._node("fork", parent)
        self._edge(before, fork)
        ends = [self._block(fork, parent, depth + 1) for _ in range(self._random.randrange(2, 4))]
        data = self._join(len(ends))
        join = self._node("merge", parent, **data)
        for end in ends:
            self._edge(end, join)
        late = "timeoutMs" in data and data["mode"] != "timeout" and self._random.random() < 0.5
        return self._or_else(join, parent, "out", "timeout") if late else join

    def _wait_part(self, before: str | None, parent: str, depth: int) -> str:
        """A delay, or a question or event that nobody answers."""
        kind, long = self._random.choice(["delay", "wait_event", "approval"]), self._times.pop()
        if kind == "delay":
            wait = self._node("delay", parent, ms=long)
            self._edge(before, wait)
            return wait
        named = {"event": "e"} if kind == "wait_event" else {}
        wait = self._node(kind, parent, timeoutMs=long, **named)
        self._edge(before, wait)
        good = "out" if kind == "wait_event" else "approved"
        handled = self._only_all or self._random.random() < 0.7
        return self._or_else(wait, parent, good, "timeout" if handled else "error")

    def _or_else(self, node: str, parent: str, good: str, bad: str) -> str:
        """What follows it, straight or over a handler."""
        handler, after = self._task(parent), self._task(parent)
        self._edge(node, after, good)
        self._edge(node, handler, bad)
        self._edge(handler, after)
        return after

    def _join(self, inputs: int) -> dict[str, Any]:
        data: dict[str, Any] = {"mode": "all", "outputVariable": f"v{self._count}"}
        if not self._only_all:
            data["mode"] = self._random.choice(["all", "any", "count", "timeout"])
            if data["mode"] == "all":
                data["requireAll"] = self._random.random() < 0.1
            data["onLate"] = self._random.choice(["cancel", "ignore"])
            if data["mode"] == "timeout" or self._random.random() < 0.2:
                data["timeoutMs"] = self._random.randrange(1, 60)
            if data["mode"] == "count":
                data["count"] = self._random.randrange(1, inputs + 1)
                data["onUnsatisfied"] = self._random.choice(["fail", "proceed", "skip"])
            data["errorStrategy"] = self._random.choice(["fail-fast", "collect-all", "best-effort"])
            data["strategy"] = self._random.choice(["merge-all", "last-write", "first-write"])
        else:
            data["errorStrategy"] = self._random.choice(["collect-all", "best-effort"])
        return data

    def _choice_part(self, before: str | None, parent: str, depth: int) -> str:
        when = self._random.choice(["ctx.input.flag", "!ctx.input.flag"])
        choice = self._node("condition", parent, branches=[{"id": "yes", "when": when}])
        self._edge(before, choice)
        yes, no = self._block(None, parent, depth + 1), self._block(None, parent, depth + 1)
        # `_block(None)` begins with a node of its own: the edges lead to the first of each.
        self._edge(choice, self._first(yes), "yes")
        self._edge(choice, self._first(no), "else")
        after = self._task(parent)
        self._edge(yes, after)
        self._edge(no, after)
        return after

    def _first(self, last: str) -> str:
        """Back from the end of a block to where it begins."""
        found = last
        while True:
            source = next((e["source"] for e in self.edges if e["target"] == found), None)
            if source is None:
                return found
            found = source

    def _loop_part(self, before: str | None, parent: str, depth: int) -> str:
        data: dict[str, Any] = {"times": self._random.randrange(4)}
        if self._random.random() < 0.5:
            data |= {"mode": "parallel", "concurrency": self._random.randrange(1, 4)}
        data["onItemError"] = self._random.choice(["fail", "continue", "remove"])
        return self._container(before, parent, depth, "loop", data)

    def _try_part(self, before: str | None, parent: str, depth: int) -> str:
        box = self._container(before, parent, depth, "try", {})
        return self._or_else(box, parent, "out", "catch")

    def _retry_part(self, before: str | None, parent: str, depth: int) -> str:
        return self._container(before, parent, depth, "retry", {"maxAttempts": 2, "delayMs": 5})

    def _container(self, before: str | None, parent: str, depth: int, type: str, data: dict[str, Any]) -> str:
        box = self._node(type, parent, **data)
        self._edge(before, box)
        if self._deep(box) > 3:
            self._node("set", box, values={"deep": True})
        else:
            self._block(None, box, depth + 1)
        return box

    def _deep(self, id: str) -> int:
        parents = {node["id"]: node.get("parentId", "") for node in self.nodes}
        depth = 0
        while id:
            depth += 1
            id = parents[id]
        return depth
