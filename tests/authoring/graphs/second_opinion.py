"""A second opinion: the rules of scheduling written down once more, naively and from their text alone.

Slow and short: regions by searching paths, everything asked again after each fact. It knows tasks, forks,
conditions, merges, tries, retries and loops; data and waits are not its matter.
"""

from __future__ import annotations

import heapq
import re
from typing import Any

from tests.authoring.graphs.wild_graphs import Wild

_ROOT = "@"  # in front of all entries of a scope
_ATTEMPT = re.compile(r"#\d+(?=/)")


def _reached(ways: dict[str, list[str]], start: str, without: str = "") -> set[str]:
    seen: set[str] = set()
    todo = [start]
    while todo:
        at = todo.pop()
        if at not in seen and at != without:
            seen.add(at)
            todo += ways[at]
    return seen


class Body:
    """The nodes of one scope, with what follows from their edges alone: forks and regions."""

    def __init__(self, wild: Wild, parent: str) -> None:
        self.nodes = {n["id"]: n for n in wild.nodes if n.get("parentId", "") == parent}
        self.edges = [
            (e["source"], e["sourceHandle"], e["target"]) for e in wild.edges if e["source"] in self.nodes
        ]
        targets = {target for _, _, target in self.edges}
        ways: dict[str, list[str]] = {id: [] for id in self.nodes}
        ways[_ROOT] = [id for id in self.nodes if id not in targets]
        for source, _, target in self.edges:
            ways[source].append(target)
        over = {
            id: {d for d in [_ROOT, *self.nodes] if d != id and id not in _reached(ways, _ROOT, d)}
            for id in self.nodes
        }
        ends = [id for id in self.nodes if not ways[id]]
        self.fork: dict[str, str] = {}
        self.region: dict[str, list[str]] = {}
        for join in (id for id, node in self.nodes.items() if node["type"] == "merge"):
            fork = max(over[join], key=lambda d: len(over.get(d, ())))
            self.fork[join] = fork
            self.region[join] = [
                id
                for id in self.nodes
                if id not in (fork, join)
                and fork in over[id]
                and join in _reached(ways, id)
                and not any(end != join and end in _reached(ways, id, join) for end in ends)
            ]
        self.join = {
            id: min((j for j in self.region if id in self.region[j]), key=lambda j: len(self.region[j]))
            for id in self.nodes
            if any(id in region for region in self.region.values())
        }

    def has(self, source: str, handle: str) -> bool:
        return any(edge[:2] == (source, handle) for edge in self.edges)


class Opinion:
    """How the run ends (`end`), when (`now`), and how each of its steps does."""

    def __init__(self, wild: Wild) -> None:
        self.wild = wild
        self.now = 0
        self.end: tuple[str, str | None] | None = None
        self.steps: dict[str, str] = {}
        self.begun: dict[str, int] = {}
        self.scopes: list[Scope] = []
        self._bodies: dict[str, Body] = {}
        self._queue: list[tuple[int, int, Any, tuple[Any, ...]]] = []
        self._count = 0
        self.open("", "", None)
        self._decide()
        while self.end is None:
            self.now, _, what, about = heapq.heappop(self._queue)
            what(*about)
            self._decide()

    def open(self, parent: str, prefix: str, owner: Container | None) -> Scope:
        if parent not in self._bodies:
            self._bodies[parent] = Body(self.wild, parent)
        scope = Scope(self, self._bodies[parent], prefix, owner)
        self.scopes.append(scope)
        return scope

    def later(self, milliseconds: int, what: Any, *about: Any) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + milliseconds, self._count, what, about))

    def _decide(self) -> None:
        """Nodes first: a cascade of dead paths is over before a join is asked."""
        while self.end is None:
            scopes = [scope for scope in self.scopes if not scope.closed]
            self.scopes = scopes
            if not (
                any(s.begin_one() for s in scopes)
                or any(s.ask_joins() for s in scopes)
                or any(s.is_over() for s in scopes)
            ):
                return


class Scope:
    def __init__(self, run: Opinion, body: Body, prefix: str, owner: Container | None) -> None:
        self.run, self.body, self.prefix, self.owner = run, body, prefix, owner
        self.settled: dict[str, tuple[str, ...]] = {}  # node -> its live handles
        self.begun: set[str] = set()
        self.containers: dict[str, Container] = {}
        self.errors: dict[str, int] = dict.fromkeys(body.region, 0)
        self.late: set[str] = set()
        self.closed = False
        self._start_clocks(_ROOT)

    def settle(self, id: str, status: str, *handles: str) -> None:
        self.settled[id] = handles
        self.run.steps[self.prefix + id] = status
        if handles:
            self._start_clocks(id)

    def _start_clocks(self, fork: str) -> None:
        for join, its_fork in self.body.fork.items():
            limit = self.body.nodes[join]["data"].get("timeoutMs")
            if its_fork == fork and limit is not None and join not in self.settled:
                self.run.later(limit, self._ran_out, join)

    def _ran_out(self, join: str) -> None:
        if not self.closed and join not in self.settled:
            self.late.add(join)
            self._ask(join)

    def _edges(self, id: str) -> list[str]:
        found = []
        for source, handle, target in self.body.edges:
            if target == id:
                settled = self.settled.get(source)
                found.append("open" if settled is None else "live" if handle in settled else "dead")
        return found

    # Nodes

    def begin_one(self) -> bool:
        for id, node in self.body.nodes.items():
            if node["type"] == "merge" or id in self.settled or id in self.begun or self.closed:
                continue
            edges = self._edges(id)
            if "open" in edges:
                continue
            if edges and "live" not in edges:
                self.settle(id, "skipped")
            else:
                self._begin(id, node)
            return True
        return False

    def _begin(self, id: str, node: dict[str, Any]) -> None:
        kind = node["type"]
        if kind == "task":
            self.begun.add(id)
            self._attempt(id, 1)
        elif kind == "condition":
            self.settle(id, "completed", "a" if node["data"]["branches"][0]["when"] == "true" else "else")
        elif kind in ("try", "retry", "loop"):
            self.begun.add(id)
            self.run.steps[self.prefix + id] = "running"
            self.containers[id] = Container(self, id, node)
            self.containers[id].begin()
        else:
            self.settle(id, "completed", "out")

    def _attempt(self, id: str, attempt: int) -> None:
        if self.closed or id in self.settled:
            return
        place = _ATTEMPT.sub("", self.prefix) + id
        time = self.run.begun[place] = self.run.begun.get(place, 0) + 1
        fails = time <= self.run.wild.failures.get(id, 0)
        self.run.later(self.run.wild.durations[id], self._worked, id, attempt, fails)

    def _worked(self, id: str, attempt: int, fails: bool) -> None:
        if self.closed or id in self.settled:
            return
        policy = self.body.nodes[id]["data"].get("retry")
        if not fails:
            self.settle(id, "completed", "out")
        elif policy is not None and attempt < policy["maxAttempts"]:
            self.run.later(policy["delayMs"] * 2 ** (attempt - 1), self._attempt, id, attempt + 1)
        else:
            self.fail(id, f"E_{id}")

    # Failing and cancelling

    def fail(self, id: str, code: str) -> None:
        if self.body.has(id, "error"):
            self.settle(id, "failed", "error")
            return
        self.settle(id, "failed")
        join = self.body.join.get(id)
        if join is None:
            self.cancel()
            if self.owner is not None:
                self.owner.failed(self, code)
            else:
                self.run.end = ("failed", code)
        elif join not in self.settled:
            self.errors[join] += 1
            if self._strategy(join) == "fail-fast":
                self._fail_join(join, code, always=True)

    def cancel(self) -> None:
        self.closed = True
        self._cancel(list(self.body.nodes))

    def _cancel(self, nodes: list[str]) -> None:
        for id in nodes:
            if id not in self.settled:
                if id in self.containers:
                    self.containers[id].cancel()
                self.settle(id, "cancelled")

    def is_over(self) -> bool:
        if self.closed or len(self.settled) < len(self.body.nodes):
            return False
        self.closed = True
        if self.owner is not None:
            self.owner.done(self)
        else:
            self.run.end = ("completed", None)
        return True

    # Joins

    def _strategy(self, join: str) -> str:
        data = self.body.nodes[join]["data"]
        default = "fail-fast" if data["mode"] in ("all", "timeout") else "best-effort"
        return str(data.get("errorStrategy", default))

    def ask_joins(self) -> bool:
        return any(
            join not in self.settled and not self.closed and self._ask(join) for join in self.body.region
        )

    def _ask(self, join: str) -> bool:
        """True: it is settled now."""
        data, edges = self.body.nodes[join]["data"], self._edges(join)
        live, still = edges.count("live"), edges.count("open")
        if not live and not still and not self.errors[join]:
            self.settle(join, "skipped")
        elif self.errors[join] and self._strategy(join) == "collect-all":
            if still:
                return self._expire(join)
            self._fail_join(join, "BRANCHES_FAILED")
        elif data["mode"] in ("any", "count"):
            return self._ask_for(join, data.get("count", 1), live, still)
        elif data.get("requireAll") and "dead" in edges:
            self._fail_join(join, "JOIN_UNSATISFIED")
        elif still:
            return self._expire(join)
        else:
            self._fire_with(join, live)
        return True

    def _ask_for(self, join: str, needed: int, live: int, still: int) -> bool:
        otherwise = self.body.nodes[join]["data"].get("onUnsatisfied", "fail")
        if live >= needed:
            self._fire(join)
        elif live + still >= needed:
            return self._expire(join)
        elif needed == 1:
            self._fail_join(join, "BRANCHES_FAILED")
        elif otherwise == "fail":
            self._fail_join(join, "JOIN_UNSATISFIED")
        elif otherwise == "skip":
            self.settle(join, "skipped")
        elif still:
            return self._expire(join)
        else:
            self._fire_with(join, live)
        return True

    def _expire(self, join: str) -> bool:
        if join not in self.late:
            return False
        if self.body.nodes[join]["data"]["mode"] == "timeout" and "live" in self._edges(join):
            self._fire(join)
        elif self.body.has(join, "timeout") and self.body.nodes[join]["data"]["mode"] != "timeout":
            self._fire(join, "timeout")
        else:
            self._fail_join(join, "JOIN_TIMEOUT")
        return True

    def _fire_with(self, join: str, live: int) -> None:
        if live:
            self._fire(join)
        else:
            self._fail_join(join, "BRANCHES_FAILED")

    def _fire(self, join: str, handle: str = "out") -> None:
        self.settle(join, "completed", handle)
        if handle == "timeout" or self.body.nodes[join]["data"]["mode"] != "all":
            self._cancel_region(join)

    def _fail_join(self, join: str, code: str, *, always: bool = False) -> None:
        self.settled[join] = ()
        self._cancel_region(join, always=always)
        self.fail(join, code)

    def _cancel_region(self, join: str, *, always: bool = False) -> None:
        if always or self.body.nodes[join]["data"].get("onLate") != "ignore":
            self._cancel(self.body.region[join])


class Container:
    def __init__(self, scope: Scope, id: str, node: dict[str, Any]) -> None:
        self.scope, self.id, self.kind, self.data = scope, id, node["type"], node["data"]
        self.path = scope.prefix + id
        self.bodies: list[Scope] = []
        self.attempt = self.ended = self.next = 0
        self.over = False

    def begin(self) -> None:
        if self.kind == "loop":
            self._fill()
        elif not self.over:
            self.attempt += 1
            self._open(f"#{self.attempt}" if self.kind == "retry" else "")

    def _open(self, mark: str) -> None:
        self.bodies.append(self.scope.run.open(self.id, f"{self.path}{mark}/", self))

    def _fill(self) -> None:
        width = self.data["concurrency"] if self.data.get("mode") == "parallel" else 1
        while self.next < self.data["times"] and len(self.bodies) < width:
            self.next += 1
            self._open(f"[{self.next - 1}]")
        if self.ended == self.data["times"]:
            self.scope.settle(self.id, "completed", "out")

    def done(self, body: Scope) -> None:
        self.bodies.remove(body)
        if self.kind == "loop":
            self.ended += 1
            self._fill()
        else:
            self.scope.settle(self.id, "completed", "out")

    def failed(self, body: Scope, code: str) -> None:
        self.bodies.remove(body)
        if self.kind == "loop" and self.data["onItemError"] == "continue":
            self.ended += 1
            self._fill()
        elif self.kind == "retry" and self.attempt < self.data["maxAttempts"]:
            self.scope.run.later(self.data["delayMs"] * 2 ** (self.attempt - 1), self.begin)
        elif self.kind == "try" and self.scope.body.has(self.id, "catch"):
            self.scope.settle(self.id, "completed", "catch")
        else:
            self.cancel()
            self.scope.fail(self.id, code)

    def cancel(self) -> None:
        self.over = True
        for body in self.bodies:
            body.cancel()
        self.bodies = []
