"""GraphRuns: what a graph run did, and how new runs are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from stepwell.client.options import WhoOptions
from stepwell.domain import events as ev
from stepwell.domain.fork.prefix import Edits
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.ids import RunId, needs_workflow
from stepwell.errors import InvalidInput, UnknownWorkflow, excerpt

if TYPE_CHECKING:
    from stepwell.client.client import Client
    from stepwell.client.handle import RunHandle


class GraphReader(Protocol):
    """Reads the log of a graph run with the graph that it ran."""

    def rerun_edits(self, run_id: str, log: list[ev.Event], body: bytes, node: str) -> Edits: ...
    def output_edits(
        self, run_id: str, log: list[ev.Event], body: bytes, outputs: Mapping[str, Any]
    ) -> Edits: ...
    def replayable_edits(self, body: bytes, old: RunCopy, origin: ev.Origin, edits: Edits) -> Edits: ...


class GraphRuns:
    def __init__(
        self,
        client: Client,
        reader: Callable[[], GraphReader],
        begin_to_work: Callable[[], Awaitable[None]],
        former_body: Callable[[str], bytes | None],
    ) -> None:
        self._client = client
        self._reader = reader  # made on first use: graphs are expensive to import
        self._begin_to_work = begin_to_work
        self._former_body = former_body  # of a graph whose version was computed differently once

    async def rerun_from_node(
        self, run: RunHandle[Any] | str, node: str, *, key: str, **who: Unpack[WhoOptions]
    ) -> RunHandle[Any]:
        old = await self._client.derived_runs.read(run)
        log = [ev.read(row) for row in old.log]
        edits = self._reader().rerun_edits(old.id, log, await self._body(log[0]), node)
        origin = ev.Origin(how="rerun_from", run=old.id, seq=len(old.log))
        return await self._client.derived_runs.start(run, old, origin, edits, key, **who)

    # Rules for forks

    async def edits(self, old: RunCopy, outputs: Mapping[str, Any], *, new_input: bool) -> Edits:
        log = [ev.read(row, RunId(old.id)) for row in old.log]
        edits = self._reader().output_edits(old.id, log, await self._body(log[0]), outputs)
        if new_input:  # everything depends on the input
            return replace(edits, dropped=frozenset(e.path for e in log if e.path) - edits.outputs.keys())
        return edits

    async def fit(self, old: RunCopy, origin: ev.Origin, edits: Edits) -> Edits:
        await self._begin_to_work()
        if type(origin.seq) is int and origin.seq > 1:
            return self._reader().replayable_edits(await self._body(ev.read(old.log[0])), old, origin, edits)
        return edits

    async def _body(self, first: ev.Event) -> bytes:
        """Return the graph of a run: from its log, the store or this engine."""
        accepted = first.fact
        assert isinstance(accepted, ev.Accepted)
        if accepted.kind != "graph":
            raise InvalidInput(f"{accepted.workflow} is not a graph", hint="look at run.events() instead")
        if bytes(accepted.graph) != b"null":
            return bytes(accepted.graph)
        name, version = accepted.workflow, accepted.version
        definition = await self._client.store.read_definition(self._client.workspace, name, version)
        body = self._former_body(needs_workflow(name, version)) if definition is None else definition.body
        if body is None:
            raise UnknownWorkflow(f"no workflow {excerpt(name)} version {excerpt(version)} is known")
        return body
