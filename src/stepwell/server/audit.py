"""AuditTrail: records who changed what through the server, in the database a moment later.

A request does not wait for its entry: what it did is recorded with the run itself, in the same transaction.
Entries are written together, at most a fifth of a second later, and at the end of the server.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.app import Engine
from stepwell.domain.access import AuditEntry
from stepwell.errors import StepwellError
from stepwell.server import cursor as cursors
from stepwell.server import views
from stepwell.server.access import address_of
from stepwell.server.caller import caller_of
from stepwell.server.principal import Principal
from stepwell.server.runs import PAGE_MAX
from stepwell.store.base import Store

_BATCH = 500
_KEPT = 100_000  # entries to keep while the database is away; the oldest are dropped
_PAUSE = 0.2  # seconds
_log = logging.getLogger("stepwell.audit")


class AuditTrail:
    def __init__(self, engine: Engine, *, clock: Callable[[], float] = time.time) -> None:
        self._engine, self._clock = engine, clock
        self._writing = False  # whether `writing` runs; an app that mounts us may not start it
        self._entries: deque[AuditEntry] = deque(maxlen=_KEPT)
        self._wake = asyncio.Event()

    async def add(self, action: str, principal: Principal, request: Request, status: int) -> None:
        """Note a request that changed something, or tried to."""
        entry = AuditEntry(
            id=self._engine.ids.run_id(),  # ids sort by time
            at=self._clock(),
            workspace=principal.workspace,
            by=principal.name,
            action=action,
            path=request.url.path[:500],
            status=status,
            credential=principal.credential.id if principal.credential is not None else "",
            address=address_of(request),
        )
        self._entries.append(entry)
        if self._writing:
            self._wake.set()
        else:
            await self._write(self._engine.store)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Write entries while the block runs, and the last ones at its end."""
        self._wake = asyncio.Event()
        store = self._engine.store
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(self._run(store))
            self._writing = True
            try:
                yield
            finally:
                self._writing = False
                writer.cancel()
                await asyncio.wait({writer})
                while self._entries and await self._write(store):
                    pass

    async def _run(self, store: Store) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(_PAUSE)
            self._wake.clear()
            while self._entries:
                if not await self._write(store):
                    self._wake.set()  # try again after the pause
                    break

    async def _write(self, store: Store) -> bool:
        entries = [self._entries[at] for at in range(min(_BATCH, len(self._entries)))]
        try:
            await store.add_audit(entries)  # the same id counts once
        except StepwellError as error:
            _log.warning("%d entries could not be written: %s", len(self._entries), error)
            return False
        written = {entry.id for entry in entries}  # others may have written them, or dropped the oldest
        while self._entries and self._entries[0].id in written:
            self._entries.popleft()
        return True


class AuditView(BaseModel):
    """One request that changed something, or tried to."""

    id: str
    at: datetime | None
    by: str
    action: str = Field(description="operation of this API", examples=["start_run"])
    path: str
    status: int
    credential: str = Field(description="id of the key or session")
    address: str


class AuditPage(BaseModel):
    entries: list[AuditView]
    cursor: str | None


async def list_audit(
    request: Request,
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
) -> AuditPage:
    """List who changed what through a server, newest first."""
    caller = caller_of(request)
    purpose = ("audit", caller.principal.workspace)
    before = cursors.read_text(cursor, *purpose) if cursor else ""
    page = await caller.engine.audit(before=before, limit=limit)
    return AuditPage(
        entries=[
            AuditView(
                id=row.id,
                at=views.moment(row.at),
                by=row.by,
                action=row.action,
                path=row.path,
                status=row.status,
                credential=row.credential,
                address=row.address,
            )
            for row in page
        ],
        cursor=cursors.write(page.next, *purpose) if page.next else None,
    )
