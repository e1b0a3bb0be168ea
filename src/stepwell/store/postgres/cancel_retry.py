"""Endings and new beginnings that people ask for: cancel, retry; and transactional steps."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from stepwell.domain.commit import (
    ENDING_PRIORITY,
    CancelOutcome,
    Commit,
    Committed,
    LogRow,
    Outcome,
    RetryOutcome,
)
from stepwell.domain.events import KIND, Cancelled, Retried, written
from stepwell.domain.fence import was_already_written
from stepwell.domain.ids import RunId
from stepwell.domain.messages import EndNotice, cancel_request, child_ended
from stepwell.domain.status import RETRYABLE, Status
from stepwell.errors import InvalidInput, InvalidRequest, StepwellError, StoreUnavailable
from stepwell.store.base import Encode
from stepwell.store.postgres.commits import LAST_PATH, PostgresCommits
from stepwell.store.postgres.database import pass_by
from stepwell.store.postgres.pool.budget import Room
from stepwell.store.postgres.pool.connection import ANSWER_SECONDS, USER_SETTINGS, Connection
from stepwell.store.postgres.pool.errors import Fault, Refused, fault, translated
from stepwell.store.postgres.pool.slot import Lane
from stepwell.store.postgres.pool.slots import Lanes

STEPS_AT_ONCE = 4  # connections for transactional steps


class PostgresEndings(PostgresCommits):
    def __init__(self, dsn: str, *, clock: Callable[[], float] | None = None) -> None:
        super().__init__(dsn, clock=clock)
        self._user_room = Room(self._address, USER_SETTINGS, keeps=0)
        self._user_lanes = Lanes(self._user_room, STEPS_AT_ONCE)
        self._finishing: set[asyncio.Task[Committed]] = set()

    async def cancel(self, run_id: RunId, reason: str, *, encode: Encode = bytes) -> CancelOutcome:
        async def work(connection: Connection) -> CancelOutcome:
            run = await connection.fetchrow(self._sql["read_parent"], run_id)
            if run is None:
                return CancelOutcome.UNKNOWN
            return await self._cancel(connection, run_id, run, reason, encode)

        try:
            return await self._write("cancel", self._side_lanes, work, again=False)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold this reason: {error}") from error

    async def _cancel(
        self, connection: Connection, run_id: RunId, run: Any, reason: str, encode: Encode
    ) -> CancelOutcome:
        parent, parent_path = run["parent"], run["parent_path"]
        last = {run_id: LAST_PATH} | ({RunId(parent): ""} if parent else {})
        tickets = await connection.fetch(self._sql["lock_tickets"], list(last), list(last.values()))
        own = next((row for row in tickets if (row["run_id"], row["path"]) == (run_id, "")), None)
        if own is None or own["ending"]:
            return CancelOutcome.ALREADY
        if own["started"]:
            await self._write_deliveries(connection, [cancel_request(run_id, reason, encode)])
            await connection.execute(self._sql["mark_ending"], run_id, ENDING_PRIORITY)
            return CancelOutcome.REQUESTED
        keys = [row[0] for row in await connection.fetch(self._sql["read_keys"], run_id)]
        event = written(Cancelled(reason=reason, unconsumed=keys))
        assert event.kind == KIND[Cancelled] == Status.CANCELLED  # the statement writes both by one word
        seq = await connection.fetchval(
            self._sql["end_unowned"], self._now(), run_id, event.kind, encode(event.payload)
        )
        if parent:
            ending = EndNotice(status=Status.CANCELLED, run=run_id)
            ended = child_ended(RunId(parent), parent_path, seq, ending)
            await self._write_deliveries(connection, [ended])
        return CancelOutcome.ENDED

    async def retry(self, run_id: RunId, *, needs: str = "", undo: bool = False) -> RetryOutcome:
        async def work(connection: Connection) -> RetryOutcome:
            status = await connection.fetchval(self._sql["lock_run"], run_id)
            if status is None:
                return RetryOutcome.UNKNOWN
            if status not in RETRYABLE:
                return RetryOutcome.NOT_FAILED
            if await connection.fetchval(self._sql["is_compensated"], run_id):
                return RetryOutcome.COMPENSATED
            await connection.execute(
                self._sql["retry_run"], self._now(), run_id, written(Retried(undo=undo)).payload, needs
            )
            return RetryOutcome.RETRIED

        return await self._write("retry", self._side_lanes, work, again=False)

    async def transact(
        self, body: Callable[[Any], Any], turn: Callable[[Any], Awaitable[Commit] | Commit]
    ) -> Committed:
        """The body gets the plain asyncpg connection, inside a transaction that it must not end."""
        pass_by("transact", "before")
        lane = await self._user_lanes.take()
        try:
            connection, transaction = await self._begun(lane)
            try:
                commit = await self._asked(body, turn, connection)
            except BaseException as error:
                gone = connection.is_closed()  # the server went away under the step's own statements
                await self._rolled_back(lane, transaction)
                if gone and isinstance(error, Exception) and fault(error) is Fault.BROKEN:
                    raise translated(error, self._address.shown) from error
                raise
        except BaseException:
            await self._given_back(lane)
            raise
        # From here on a cancelled caller changes nothing: nobody could tell whether COMMIT happened.
        finishing = asyncio.create_task(self._finish_transact(lane, connection, transaction, commit))
        self._finishing.add(finishing)
        finishing.add_done_callback(self._finished)
        return await asyncio.shield(finishing)

    def _finished(self, task: asyncio.Task[Committed]) -> None:
        self._finishing.discard(task)
        if not task.cancelled():
            task.exception()  # seen: its caller may have gone

    async def _begun(self, lane: Lane) -> tuple[Connection, Any]:
        try:
            connection = await lane.connection()
            transaction = connection.transaction()
            await transaction.start()
        except Exception as error:
            lane.drop()
            raise translated(error, self._address.shown) from error
        return connection, transaction

    async def _asked(
        self,
        body: Callable[[Any], Any],
        turn: Callable[[Any], Awaitable[Commit] | Commit],
        connection: Connection,
    ) -> Commit:
        result = body(connection)
        if inspect.isawaitable(result):
            result = await result
        made = turn(result)
        commit = await made if inspect.isawaitable(made) else made
        if not connection.is_in_transaction():
            raise InvalidRequest(
                "a transactional step ended its transaction",
                hint="leave COMMIT and ROLLBACK to Stepwell; connection.transaction() is fine",
            )
        return commit

    async def _finish_transact(
        self, lane: Lane, connection: Connection, transaction: Any, commit: Commit
    ) -> Committed:
        """Fence and events last, so that the ticket is not locked while the body runs."""
        try:
            committed = await self._write_fenced(connection, commit)
            if committed.outcome is not Outcome.OK:
                await self._rolled_back(lane, transaction)
                if committed.outcome is Outcome.LOST and commit.events:
                    return await self._written_before(self._side_lanes, commit, committed)
                return committed
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await transaction.commit()
            except Exception as error:
                lane.drop()
                if fault(error) is not Fault.BROKEN:
                    raise
                return await self._after_lost_commit(commit)
        except StepwellError:
            await self._rolled_back(lane, transaction)
            raise
        except Exception as error:
            await self._rolled_back(lane, transaction)
            if fault(error) is Fault.REFUSED:
                return Committed(Outcome.REFUSED, 0, 0.0)
            raise self._sooner_or_later(error) from error
        finally:
            await self._given_back(lane)
        pass_by("transact", "after", "ambiguous")
        return committed

    async def _rolled_back(self, lane: Lane, transaction: Any) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await transaction.rollback()
        except Exception:
            lane.drop()  # the server rolls back when the connection ends

    async def _given_back(self, lane: Lane) -> None:
        try:
            await lane.clean()
        finally:  # also when cancelled
            self._user_lanes.give_back(lane)

    async def _write_fenced(self, connection: Connection, commit: Commit) -> Committed:
        async with asyncio.timeout(ANSWER_SECONDS):
            write = self._write_reaching if commit.cross_run else self._write_commits
            [committed] = await write(connection, [commit])
        pass_by("transact", "mid")
        return committed

    async def _after_lost_commit(self, commit: Commit) -> Committed:
        """COMMIT was sent and not answered. The ticket's lock waits for its end; then the log tells."""

        async def work(connection: Connection) -> Committed | None:
            last = commit.head + len(commit.events)
            locked = await connection.fetch(self._sql["lock_tickets"], [commit.run_id], [""])
            rows = await connection.fetch(self._sql["recognise"], commit.run_id, commit.head + 1, last)
            log = [LogRow(*row) for row in rows]
            if not was_already_written(commit, log):
                return None
            return Committed(Outcome.OK, locked[0]["wakes"] if locked else 0, log[-1].at)

        committed = await self._side_lanes.run(work)
        if committed is None:
            raise StoreUnavailable("the connection was lost and the step's transaction rolled back")
        return committed

    def _sooner_or_later(self, error: Exception) -> Exception:
        if fault(error) in {Fault.AGAIN, Fault.BROKEN}:
            return StoreUnavailable(f"the step's transaction was rolled back: {error}")
        return translated(error, self._address.shown)
