"""Runner: runs one case through the real engine, on a real store, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from stepwell.app import Engine
from stepwell.authoring.graphs.build.plan import GraphPlan
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS
from stepwell.authoring.graphs.expressions.values import text
from stepwell.authoring.graphs.history.trace import trace
from stepwell.authoring.graphs.workflow import GraphWorkflow
from stepwell.client import RunHandle
from stepwell.domain import events as ev
from stepwell.domain.commit import NEVER
from stepwell.domain.events import Problem
from stepwell.domain.status import Status
from stepwell.engine.worker import worker
from stepwell.errors import Conflict, InvalidInput, InvalidRequest, MessageConflict, NotAssigned, RunError
from stepwell.settings import Settings
from stepwell.store.open import open_store
from stepwell.system import SystemIds
from stepwell.testing.graphs.cases import Case, Script
from stepwell.testing.graphs.task import registry
from stepwell.testing.graphs.virtual import Patient, VirtualClock, VirtualLoop, run_virtually

_NEVER = 1e8
_LOOK = 3600.0
# Only the case moves time: leases do not expire, and no periodic task runs.
_SETTINGS = Settings(
    lease_seconds=1e9,
    heartbeat_seconds=_NEVER,
    reap_seconds=_NEVER,
    poll_seconds=_NEVER,
    keep_lease_seconds=1e-6,
)
_TURNS = 1000  # of the loop, at most, until a run is claimed
_MEMORY = ("", "memory", "memory:", "memory://")
_LOGGED = {"merge_conflict": "MERGE_CONFLICT", "join_late": "JOIN_LATE"}


def run_case(case: Case, url: str = "", *, replay_always: bool = False) -> dict[str, Any]:
    """The result line of a case."""
    script = Script(case)
    builder, mark = PlanBuilder(registry(script)), SystemIds().token()
    plans: list[GraphPlan] = []
    for graph in (case.graph, *case.graphs.values()):
        plan, problems = builder.examine(_marked(graph, case, mark))
        if plan is None:
            return {"id": case.id, "invalid": list(dict.fromkeys(problem.code for problem in problems))}
        plans.append(plan)
    # Names of their own: a database that was used before may have runs of other cases.
    names = [f"case-{mark}", *(f"{name}-{mark}" for name in case.graphs)]
    programs = [GraphWorkflow(plan, name=name) for plan, name in zip(plans, names, strict=True)]
    looked, worker._LOOK_SECONDS = worker._LOOK_SECONDS, _NEVER
    try:
        line: dict[str, Any] = run_virtually(
            lambda loop: _Play(case, programs, script, loop, url).run(replay_always)
        )
    finally:
        worker._LOOK_SECONDS = looked
    return line


def _marked(graph: Any, case: Case, mark: str) -> Any:
    """The graph with its `workflow` nodes calling the graphs of this case; anything else stays as it is."""
    if not isinstance(graph, dict) or not isinstance(graph.get("nodes"), list):
        return graph
    names = {name: f"{name}-{mark}" for name in case.graphs}
    own: Any = case.graph
    if isinstance(own, dict) and isinstance(own.get("name"), str):
        names[own["name"]] = f"case-{mark}"
    nodes = [
        {**node, "data": {**data, "workflow": names.get(data["workflow"], data["workflow"])}}
        if isinstance(node, dict)
        and node.get("type") == "workflow"
        and isinstance(data := node.get("data"), dict)
        and isinstance(data.get("workflow"), str)
        else node
        for node in graph["nodes"]
    ]
    return {**graph, "nodes": nodes}


def _word(value: Any) -> str:
    """A value as a template renders it into text; 0 is a key like any other."""
    return text(value, DEFAULT_LIMITS)


async def _ended(run: RunHandle[Any]) -> None:
    try:
        await run.result()
    except RunError:
        pass


def _alone(url: str) -> str:
    """A single process needs no LISTEN; its connection would wait in real time."""
    if url.startswith(("postgresql://", "postgres://")) and "poll_only=" not in url:
        return f"{url}{'&' if '?' in url else '?'}poll_only=1"
    return ":memory:" if url in _MEMORY else url


class _Play:
    def __init__(
        self, case: Case, programs: list[GraphWorkflow], script: Script, loop: VirtualLoop, url: str
    ) -> None:
        self._case = case
        self._programs = programs
        self._plan = programs[0].plan
        self._script = script
        self._loop = loop
        self._url = url
        self._log: list[str] = []

    async def run(self, replay_always: bool) -> dict[str, Any]:
        clock = VirtualClock(self._loop)
        store: Any = Patient(open_store(_alone(self._url), clock=clock), self._loop.bench)
        engine = Engine(
            store, workflows=self._programs, settings=_SETTINGS, clock=clock, replay_always=replay_always
        )
        async with engine:
            try:
                run: RunHandle[Any] = await engine.start(self._programs[0], self._case.input)
            except InvalidRequest as error:
                return self._refused(error.code)
            begin = self._loop.time()
            async with asyncio.TaskGroup() as group:
                ended = group.create_task(_ended(run))
                await self._happen(run, begin)
                still = group.create_task(self._stand_still(store, run))
                await asyncio.wait({ended, still}, return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                still.cancel()
            return await self._line(run)

    def _refused(self, code: str) -> dict[str, Any]:
        """The line of a run that was not accepted: it has all fields, but nothing happened."""
        happened: dict[str, Any] = {"steps": {}, "starts": {}, "log": [], "history": []}
        head = {"id": self._case.id, "status": "refused", "error": code, "output": None, "t": 0}
        return {**head, **happened}

    async def _stand_still(self, store: Any, run: RunHandle[Any]) -> None:
        """Wait until nothing can move the run or its children any further; it is reported as it is then."""
        while True:
            await asyncio.sleep(_LOOK)
            called = await store.read_tree(run.id, children=True) if self._case.graphs else ()
            runs = [run.id, *(copy.id for copy in called)]
            tickets = [ticket for id in runs for ticket in await store.read_tickets(id)]
            if all(ticket.due_at == NEVER and not ticket.lease for ticket in tickets):
                return

    async def _happen(self, run: RunHandle[Any], begin: float) -> None:
        """The outside world: approvals, events and a cancel, each at its time.

        The run's own work in that instant comes first: an approval requested then is open, and a wait that
        expires then is over.
        """
        await self._begun(run)
        for event in self._case.events:
            await asyncio.sleep(max(0.0, begin + event.get("t", 0) / 1000 - self._loop.time()))
            await self._loop.instant_over()
            try:
                if event.get("cancel"):
                    await run.cancel()
                elif "approve" in event:
                    await self._approve(run, event)
                elif "event" in event:
                    sent = await run.event(
                        event["event"],
                        event.get("payload", event.get("data")),
                        key=_word(event.get("key")),
                        id=_word(event.get("id")),
                    )
                    if not sent:
                        self._log.append("DUPLICATE_EVENT")
            except MessageConflict:  # the id counts once, also with other data
                self._log.append("DUPLICATE_EVENT")
            except (Conflict, InvalidInput, NotAssigned):
                self._log.append("RESPONSE_REJECTED")

    async def _begun(self, run: RunHandle[Any]) -> None:
        """Events at 0 happen to a run that has begun; beginning takes no time."""
        for _ in range(_TURNS):
            if await run.status() is not Status.PENDING:
                return
            await asyncio.sleep(0)

    async def _approve(self, run: RunHandle[Any], event: dict[str, Any]) -> None:
        """Answer as the first assignee, unless the case says otherwise (`by`)."""
        path = await self._place(run, event["approve"])
        waits = [w for w in (await run.state()).waits.values() if w.path == path]
        by = waits[0].assignees[0] if waits and waits[0].assignees else ""
        await run.decide(await self._answer(event), path=path, by=str(event.get("by", by)))

    async def _answer(self, event: dict[str, Any]) -> Any:
        rest = {name: value for name, value in event.items() if name in ("form", "comment")}
        return {"response": event["response"], **rest} if rest else event["response"]

    async def _place(self, run: RunHandle[Any], named: str) -> str:
        """The path of an open approval; a bare node id also matches it in a loop."""
        waits = [w.path for w in (await run.state()).waits.values() if w.what == "approval"]
        inside = [path for path in waits if path.endswith(f"/{named}")]
        return f"0/{named}" if f"0/{named}" in waits or not inside else inside[0]

    async def _line(self, run: RunHandle[Any]) -> dict[str, Any]:
        info = await run.info()
        log = [ev.read(row) async for row in run.log()]
        history = trace(self._plan, run.id, log)
        problem = msgspec.json.decode(info.error, type=Problem) if info.error else None
        starts = {node.id: 0 for node in self._plan.nodes()}
        for entry in history.entries:
            if entry.queued_at is not None and entry.type not in ("task", "merge"):
                starts[entry.node] += 1
        starts.update(self._script.starts)
        begin = info.created_at

        def at(moment: float) -> int:
            return round((moment - begin) * 1000)

        return {
            "id": self._case.id,
            "status": str(info.status),
            "error": problem.code if problem is not None and str(info.status) == "failed" else None,
            "output": msgspec.json.decode(info.output) if info.output is not None else None,
            "t": at(info.ended_at) if info.ended_at is not None else None,
            "steps": {entry.path: str(entry.status) for entry in history.entries},
            "starts": starts,
            "log": [_LOGGED[event.kind] for event in log if event.kind in _LOGGED] + self._log,
            "history": [[status, at(moment)] for status, moment in history.history],
        }
