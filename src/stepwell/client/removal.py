"""Removal: deleting runs that have ended, and test runs whether they have ended or not."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from stepwell.client import operations
from stepwell.client.store_access import StoreAccess
from stepwell.domain.commit import RunFilter, RunRow
from stepwell.domain.fork.run_copy import Removal
from stepwell.domain.ids import RunId
from stepwell.domain.search import place_of
from stepwell.domain.text import checked_text, clean
from stepwell.errors import NotRemovable, RunNotFound
from stepwell.store.base import Reading

_log = logging.getLogger("stepwell.client")
_PAGE = 1000


ReadRow = Callable[[], Awaitable[RunRow]]


async def delete(client: StoreAccess, run_id: RunId, row: ReadRow, *, by: str, reason: str) -> None:
    checked_text(by, "by")
    outcome, repeated = await client.retry_call(lambda: client.store.remove(run_id))
    match outcome:
        case Removal.LIVE:
            raise _not_removable(run_id, await _first_live(client.store, await row()))
        case Removal.CHILD:
            parent = (await row()).parent
            raise NotRemovable(f"run {run_id} belongs to run {parent}", hint="delete the root run instead")
        case Removal.UNKNOWN if not repeated:  # on a repeated call: the earlier one removed it
            raise RunNotFound(f"there is no run {run_id}")
        case _:
            _log.info("run %s was deleted by %s: %s", run_id, by or "somebody", clean(reason))


async def end_test_run(client: StoreAccess, row: ReadRow, *, by: str, reason: str) -> None:
    """End a test run and all runs below it by force. Refuses any other run."""
    checked_text(by, "by")
    if not (await row()).test:
        raise NotRemovable(
            f"run {(await row()).id} is not a test run",
            hint="cancel it and wait for its end, then delete it; nothing was changed",
        )
    while (live := await _first_live(client.store, await row())) is not None:
        await operations.force_end(client, live.id, by=by, reason=clean(reason) or "discarded")


def _not_removable(run_id: RunId, live: RunRow | None) -> NotRemovable:
    if live is None:  # it has just ended, or a worker still holds one of them
        what = f"run {run_id}, or a run below it, had not ended or was in use"
        return NotRemovable(what, hint="try again")
    below = "" if live.id == run_id else f" because run {live.id} ({live.workflow}) below it is"
    what = f"run {run_id} cannot be deleted" + (below or ": it is") + f" {live.status} and has not ended"
    return NotRemovable(what, hint=f"cancel run {live.id} and wait for its end", run=live.id)


async def _first_live(store: Reading, top: RunRow) -> RunRow | None:
    """Return the first run of the tree, from the top down, that has not ended."""
    queue = deque([top])
    while queue:
        run = queue.popleft()
        if not run.status.terminal:
            return run
        children, before = RunFilter(workspace=run.workspace, parent=run.id, limit=_PAGE), ""
        while page := await store.list_runs(replace(children, before=before)):
            queue.extend(page)
            before = place_of(page[-1], children)
    return None
