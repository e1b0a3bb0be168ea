"""Cancel and retry: changes to a run as a whole."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stepwell.domain.commit import ENDING_PRIORITY, CancelOutcome, NewEvent, RetryOutcome
from stepwell.domain.events import KIND, Cancelled, Retried, written
from stepwell.domain.ids import RunId
from stepwell.domain.messages import CancelRequest, EndNotice, cancel_request, child_ended, forced_end
from stepwell.domain.status import RETRYABLE, Status
from stepwell.errors import InvalidInput
from stepwell.store.base import Encode
from stepwell.store.postgres.commits import LAST_PATH
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.messages import PgMessages
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused


class PgCancelRetry:
    def __init__(self, db: Database, messages: PgMessages) -> None:
        self._db = db
        self._sql = db.sql
        self._messages = messages

    async def cancel(
        self, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
    ) -> CancelOutcome:
        async def work(connection: Connection) -> CancelOutcome:
            run = await connection.fetchrow(self._sql["read_parent"], run_id)
            if run is None:
                return CancelOutcome.UNKNOWN
            return await self._cancel(connection, run_id, run, CancelRequest(reason=reason, by=by), encode)

        try:
            return await self._db.write("cancel", self._db.side_slots, work, again=False)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this reason: {error}") from error

    async def _cancel(
        self, connection: Connection, run_id: RunId, run: Any, asked: CancelRequest, encode: Encode
    ) -> CancelOutcome:
        parent = run["parent"]
        last = {run_id: LAST_PATH} | ({RunId(parent): ""} if parent else {})
        tickets = await connection.fetch(self._sql["lock_tickets"], list(last), list(last.values()))
        own = next((row for row in tickets if (row["run_id"], row["path"]) == (run_id, "")), None)
        if own is None or own["ending"]:
            return CancelOutcome.ALREADY
        if own["started"]:
            request = cancel_request(run_id, asked.reason, encode, by=asked.by)
            await self._messages.write_deliveries(connection, [request])
            await connection.execute(self._sql["mark_ending"], run_id, ENDING_PRIORITY)
            return CancelOutcome.REQUESTED
        await self._end(connection, run_id, run, Cancelled(reason=asked.reason, by=asked.by), encode)
        return CancelOutcome.ENDED

    async def force_end(
        self, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
    ) -> CancelOutcome:
        fact = Cancelled(reason=reason, by=by, forced=True)

        async def read_children(connection: Connection) -> set[RunId]:
            return {RunId(row[0]) for row in await connection.fetch(self._sql["live_children"], run_id)}

        async def work(connection: Connection) -> CancelOutcome | None:
            run = await connection.fetchrow(self._sql["read_parent"], run_id)
            if run is None:
                return CancelOutcome.UNKNOWN
            last = {run_id: LAST_PATH} | dict.fromkeys(children, "")
            last |= {RunId(run["parent"]): ""} if run["parent"] else {}
            tickets = await connection.fetch(self._sql["lock_tickets"], list(last), list(last.values()))
            if not any((row["run_id"], row["path"]) == (run_id, "") for row in tickets):
                return CancelOutcome.ALREADY
            live = await read_children(connection)
            if (
                not live <= children
            ):  # its owner has just started children, whose tickets must be locked as well
                return None
            await self._end(connection, run_id, run, fact, encode)
            requests = [cancel_request(child, forced_end(run_id), encode) for child in sorted(live)]
            if requests:
                await self._messages.write_deliveries(connection, requests)
            return CancelOutcome.ENDED

        outcome: CancelOutcome | None = None
        while outcome is None:
            children = await self._db.side_slots.run(read_children)
            try:
                outcome = await self._db.write("force_end", self._db.side_slots, work, again=False)
            except Refused as error:
                raise InvalidInput(f"PostgreSQL cannot hold this reason: {error}") from error
        return outcome

    async def _end(
        self, connection: Connection, run_id: RunId, run: Any, fact: Cancelled, encode: Encode
    ) -> None:
        """Write the end of a run whose ticket is locked, as is that of its parent."""
        keys = [row[0] for row in await connection.fetch(self._sql["read_keys"], run_id)]
        event = written(replace(fact, unconsumed=keys))
        assert event.kind == KIND[Cancelled] == Status.CANCELLED  # the statement writes both with one word
        seq = await connection.fetchval(
            self._sql["end_unowned"], self._db.now(), run_id, event.kind, encode(event.payload)
        )
        if run["parent"]:
            ending = EndNotice(status=Status.CANCELLED, run=run_id)
            ended = child_ended(RunId(run["parent"]), run["parent_path"], seq, ending)
            await self._messages.write_deliveries(connection, [ended])

    async def retry(
        self,
        run_id: RunId,
        *,
        needs: str = "",
        undo: bool = False,
        skipped: NewEvent | None = None,
        head: int | None = None,
        by: str = "",
        reason: str = "",
        encode: Encode = bytes,
    ) -> RetryOutcome:
        path = skipped.path if skipped else ""
        payload = encode(written(Retried(path=path, undo=undo, by=by, reason=reason)).payload)
        more = (
            (None, None, None, None)
            if skipped is None
            else (skipped.kind, skipped.path, skipped.attempt, encode(skipped.payload))
        )

        async def work(connection: Connection) -> RetryOutcome:
            status = await connection.fetchval(self._sql["lock_run"], run_id)
            if status is None:
                return RetryOutcome.UNKNOWN
            if status not in RETRYABLE:
                return RetryOutcome.NOT_FAILED
            if head is not None and await connection.fetchval(self._sql["read_head"], run_id) != head:
                return RetryOutcome.NOT_FAILED
            if await connection.fetchval(self._sql["is_compensated"], run_id):
                return RetryOutcome.COMPENSATED
            await connection.execute(self._sql["retry_run"], self._db.now(), run_id, payload, needs, *more)
            await connection.execute(self._sql["delete_words"], run_id)
            return RetryOutcome.RETRIED

        try:
            return await self._db.write("retry", self._db.side_slots, work, again=False)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this reason or path: {error}") from error
