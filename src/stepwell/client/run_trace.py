"""The trace and the state of a run, read from its log and its stored definition."""

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
    """Takes in a log, commit by commit."""

    def feed(self, events: Iterable[ev.Event]) -> None: ...
    def entries(self) -> list[TraceEntry]: ...


class GraphFolding(Folding, Protocol):
    def variables(self) -> dict[str, Any]: ...
    def outputs(self) -> dict[str, Any]: ...
    def names(self) -> set[str]: ...


class LogFolding:
    """The trace of a function or a machine, which needs only the log."""

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
    """Fold a log; return up to `limit` entries after an order, with or without their values."""
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
    """Fold a large graph or a long log in a thread, so that the event loop stays responsive."""
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
    # By name: the client does not depend on authoring, and only readers of graph runs import it.
    history = import_module("stepwell.authoring.graphs.history.run_trace")
    folding: GraphFolding = history.GraphTraceFold(run_id, graph)
    return folding


async def graph_of(client: StoreAccess, accepted: ev.Accepted) -> bytes:
    """Return the graph of a run, from its log or from its stored definition."""
    if bytes(accepted.graph) != b"null":
        return bytes(accepted.graph)
    name, version = accepted.workflow, accepted.version
    definition = await client.store.read_definition(accepted.workspace, name, version)
    if definition is None:
        raise UnknownWorkflow(f"no workflow {excerpt(name)} version {excerpt(version)} is known")
    return definition.body


class Logged(Protocol):
    """A run with a readable log."""

    @property
    def id(self) -> RunId: ...
    def log(self) -> AsyncIterator[LogRow]: ...


async def log_state(run: Logged) -> RunState:
    """Return the current state of a run as far as every style has it, from the log alone."""
    return fold([ev.read(row, run.id) async for row in run.log()])


async def state_of(run_id: RunId, log: list[ev.Event], graph: ReadGraph) -> RunState:
    """Return the state of a run after these events; for a graph, with its input, variables and outputs."""
    state, accepted = fold(log), log[0].fact
    assert isinstance(accepted, ev.Accepted)
    state.input = msgspec.json.decode(accepted.input)
    if accepted.kind == "graph":
        try:
            folding = await folded_graph(run_id, log, await graph(accepted))
        except UnknownWorkflow:  # an early version did not store it; the rest of the state is known
            return state
        state.variables, state.nodes = folding.variables(), folding.outputs()
    return state
