"""How a client reads the trace and the state of a run: from its log and its stored definition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from importlib import import_module
from typing import Any, Protocol, TypeVar

import msgspec

from stepwell.client.store_access import StoreAccess
from stepwell.domain import events as ev
from stepwell.domain.commit import LogRow
from stepwell.domain.ids import RunId
from stepwell.domain.state import RunState, fold
from stepwell.domain.trace import TraceEntry, TraceFold
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import InvalidInput, UnknownWorkflow, excerpt

T = TypeVar("T")
_LARGE_GRAPH = 32 * 1024  # bytes
_LONG_LOG = 2000  # events
ReadGraph = Callable[[ev.Accepted], Awaitable[bytes]]


class Folding(Protocol):
    """Takes a log in, commit by commit."""

    def feed(self, events: Iterable[ev.Event]) -> None: ...
    def entries(self) -> list[TraceEntry]: ...


class GraphFolding(Folding, Protocol):
    def variables(self) -> dict[str, Any]: ...
    def outputs(self) -> dict[str, Any]: ...
    def names(self) -> set[str]: ...


class LogFolding:
    """The trace of a function or a machine, which its log alone tells."""

    def __init__(self) -> None:
        self._fold = TraceFold()

    def feed(self, events: Iterable[ev.Event]) -> None:
        for event in events:
            self._fold.take(event)

    def entries(self) -> list[TraceEntry]:
        return list(self._fold.entries.values())


async def read_trace(
    run_id: RunId, rows: AsyncIterator[LogRow], graph: ReadGraph, after: int, limit: int, *, values: bool
) -> list[TraceEntry]:
    """Fold a log; return up to `limit` entries after an order, with or without what they read and wrote."""
    whole_number(after, "after", 0, 2**53, "give the order of the last entry", wrong=InvalidInput)
    whole_number(limit, "limit", 1, 100_000, "give how many entries to read", wrong=InvalidInput)
    log = [ev.read(row, run_id) async for row in rows]
    accepted = log[0].fact
    assert isinstance(accepted, ev.Accepted)
    body = await graph(accepted) if accepted.kind == "graph" else b""

    def fold_log() -> list[TraceEntry]:
        folding: Folding = graph_folding(run_id, body) if body else LogFolding()
        folding.feed(log)
        return folding.entries()

    entries = await _beside_the_loop(fold_log, body, log)
    page = [entry for entry in entries if entry.order > after][:limit]
    if not values:
        for entry in page:
            entry.config = entry.input = entry.output = None
    return page


async def _beside_the_loop(fold_log: Callable[[], T], body: bytes, log: list[ev.Event]) -> T:
    """Fold a large graph or a long log in a thread, so that the loop does its other work meanwhile."""
    if len(body) < _LARGE_GRAPH and len(log) < _LONG_LOG:
        return fold_log()
    return await asyncio.to_thread(fold_log)


async def folded_graph(run_id: RunId, log: list[ev.Event], graph: bytes) -> GraphFolding:
    def fold_log() -> GraphFolding:
        folding = graph_folding(run_id, graph)
        folding.feed(log)
        return folding

    return await _beside_the_loop(fold_log, graph, log)


def graph_folding(run_id: str, graph: bytes) -> GraphFolding:
    # By name: the client does not know authoring, and only readers of graph runs pay for its import.
    history = import_module("stepwell.authoring.graphs.history.run_trace")
    folding: GraphFolding = history.GraphTraceFold(run_id, graph)
    return folding


async def graph_of(client: StoreAccess, accepted: ev.Accepted) -> bytes:
    """Return the graph of a run: from its log, or as it was stored."""
    if bytes(accepted.graph) != b"null":
        return bytes(accepted.graph)
    name, version = accepted.workflow, accepted.version
    definition = await client.store.read_definition(accepted.workspace, name, version)
    if definition is None:
        raise UnknownWorkflow(f"no workflow {excerpt(name)} version {excerpt(version)} is known")
    return definition.body


class Logged(Protocol):
    """A run whose log can be read."""

    @property
    def id(self) -> RunId: ...
    def log(self) -> AsyncIterator[LogRow]: ...


async def log_state(run: Logged) -> RunState:
    """The state of a run now, as far as its log alone says it: what all styles have in common."""
    return fold([ev.read(row, run.id) async for row in run.log()])


async def state_of(run_id: RunId, log: list[ev.Event], graph: ReadGraph) -> RunState:
    """The state of a run after these events; of a graph with its input, variables and outputs."""
    state, accepted = fold(log), log[0].fact
    assert isinstance(accepted, ev.Accepted)
    state.input = msgspec.json.decode(accepted.input)
    if accepted.kind == "graph":
        try:
            folding = await folded_graph(run_id, log, await graph(accepted))
        except UnknownWorkflow:  # of an early version, which did not store it: the rest of the state is known
            return state
        state.variables, state.nodes = folding.variables(), folding.outputs()
    return state
