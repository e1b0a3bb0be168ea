"""The steps of records: they read, or change records in the transaction of their event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from stepwell.authoring.graphs.errors import NodeConfigError
from stepwell.authoring.graphs.nodes.records import NAME
from stepwell.authoring.graphs.nodes.steps import providing_step
from stepwell.client.records import RecordChange, Records, creation, deletion, revision
from stepwell.domain.ids import Ids
from stepwell.domain.program import StepContext
from stepwell.domain.records import FoundRecords, Record
from stepwell.domain.steps import InCommit, StepSpec
from stepwell.errors import Conflict, InvalidRequest, RecordNotFound, StepwellError
from stepwell.store.record_store import RecordStore


class RecordHandlers:
    """The functions of the steps. They return a change, which the engine writes with the step's event."""

    def __init__(
        self,
        store: RecordStore,
        ids: Ids,
        workspace: Callable[[str], Awaitable[str]],
        records: Callable[[str], Records],
    ) -> None:
        self._store = store
        self._ids = ids
        self._workspace = workspace
        self._records = records

    async def create(self, step: StepContext, collection: str, data: Any, *, id: str = "") -> InCommit:
        workspace = await self._workspace(step.run_id)
        return self._made(creation(workspace, collection, data, id or self._ids.run_id()))

    async def get(
        self, step: StepContext, collection: str, id: str = "", *, key: Any = None, optional: bool = False
    ) -> Record | None:
        try:
            return await (await self._of(step)).get(collection, id, key=key)
        except RecordNotFound:
            if not optional:
                raise
            return None

    async def find(
        self, step: StepContext, collection: str, where: Any = None, *, before: str = "", limit: int = 100
    ) -> FoundRecords:
        page = await (await self._of(step)).find(collection, where, before=before, limit=limit)
        return FoundRecords(records=list(page), next=page.next)

    async def update(
        self,
        step: StepContext,
        collection: str,
        id: str = "",
        data: Any = None,
        *,
        key: Any = None,
        version: int = 0,
        whole: bool = False,
    ) -> InCommit:
        workspace = await self._workspace(step.run_id)
        return self._made(revision(workspace, collection, id, key, data or {}, version=version, whole=whole))

    async def delete(
        self, step: StepContext, collection: str, id: str = "", *, key: Any = None, version: int = 0
    ) -> InCommit:
        workspace = await self._workspace(step.run_id)
        return self._made(deletion(workspace, collection, id, key, version=version))

    async def node(self, step: StepContext, config: dict[str, Any]) -> Any:
        arguments = dict(config)
        action = arguments.pop("action")
        try:
            result = await getattr(self, action)(step, **arguments)
        except StepwellError as error:
            raise _of_node(error) from None
        if isinstance(result, InCommit):
            return InCommit(result.body, _output, _of_node)
        return _output(result)

    async def _of(self, step: StepContext) -> Records:
        return self._records(await self._workspace(step.run_id))

    def _made(self, change: RecordChange) -> InCommit:
        return InCommit(self._store.record_change(*change))


def record_steps(handlers: RecordHandlers) -> list[StepSpec]:
    """Return the steps of records, and the step of the `records` node."""
    functions: dict[str, Callable[..., Awaitable[Any]]] = {
        "create_record": handlers.create,
        "get_record": handlers.get,
        "find_records": handlers.find,
        "update_record": handlers.update,
        "delete_record": handlers.delete,
        NAME: handlers.node,
    }
    return [providing_step(name, function) for name, function in functions.items()]


def _of_node(error: Exception) -> Exception:
    """Mark a mistake or a conflict of a node as permanent: another attempt would fail the same way."""
    if isinstance(error, InvalidRequest | Conflict):
        return NodeConfigError(error.message, code=error.code, hint=error.hint)
    return error


def _output(result: Any) -> Any:
    if isinstance(result, FoundRecords):
        return {"records": [_shown(record) for record in result.records], "next": result.next}
    return _shown(result) if isinstance(result, Record) else result


def _shown(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "version": record.version,
        "data": record.data,
        "createdAt": _time(record.created_at),
        "updatedAt": _time(record.updated_at),
    }


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
