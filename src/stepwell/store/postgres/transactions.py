"""Transactions: a user's own writes and the event of its step, committed together."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from stepwell.domain.commit import Commit, Committed, LogRow, Outcome, counting
from stepwell.domain.fence import was_already_written
from stepwell.errors import InvalidRequest, StepwellError, StoreUnavailable
from stepwell.store.postgres.commits import PgCommits
from stepwell.store.postgres.database import Database, hit
from stepwell.store.postgres.pool.budget import ConnectionBudget
from stepwell.store.postgres.pool.connection import ANSWER_SECONDS, USER_SETTINGS, Connection
from stepwell.store.postgres.pool.errors import FaultKind, fault_kind, translated
from stepwell.store.postgres.pool.slot import ConnectionSlot
from stepwell.store.postgres.pool.slots import ConnectionSlots

STEPS_AT_ONCE = 4  # connections for transactional steps


class PgTransactions:
    def __init__(self, db: Database, commits: PgCommits) -> None:
        self._db = db
        self._sql = db.sql
        self._commits = commits
        self.budget = ConnectionBudget(db.address, USER_SETTINGS, keeps=0)
        self.slots = ConnectionSlots(self.budget, STEPS_AT_ONCE)
        self._unfinished: set[asyncio.Task[Committed]] = set()

    async def transact(
        self, body: Callable[[Any], Any], turn: Callable[[Any], Awaitable[Commit] | Commit]
    ) -> Committed:
        """Give the body the plain asyncpg connection, in a transaction that it must not end."""
        hit("transact", "before")
        slot = await self.slots.take()
        try:
            connection, transaction = await self._begin(slot)
            try:
                commit = await self._run(body, turn, connection)
            except BaseException as error:
                gone = connection.is_closed()  # the server went away during the step's own statements
                await self._roll_back(slot, transaction)
                if gone and isinstance(error, Exception) and fault_kind(error) is FaultKind.BROKEN:
                    raise translated(error, self._db.address.redacted) from error
                raise
        except BaseException:
            await self._give_back(slot)
            raise
        # From here on cancelling the caller has no effect: nobody could know whether COMMIT happened.
        finishing = asyncio.create_task(self._finish_transact(slot, connection, transaction, commit))
        self._unfinished.add(finishing)
        finishing.add_done_callback(self._finished)
        return await asyncio.shield(finishing)

    async def wait(self) -> None:
        """Wait for the commits that are under way."""
        if self._unfinished:
            await asyncio.wait(self._unfinished, timeout=ANSWER_SECONDS)

    def _finished(self, task: asyncio.Task[Committed]) -> None:
        self._unfinished.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved: its caller may be gone

    async def _begin(self, slot: ConnectionSlot) -> tuple[Connection, Any]:
        try:
            connection = await slot.connection()
            transaction = connection.transaction()
            await transaction.start()
        except Exception as error:
            slot.drop()
            raise translated(error, self._db.address.redacted) from error
        return connection, transaction

    async def _run(
        self,
        body: Callable[[Any], Any],
        turn: Callable[[Any], Awaitable[Commit] | Commit],
        connection: Connection,
    ) -> Commit:
        result = body(connection)
        if inspect.isawaitable(result):
            result = await result
        answer = turn(result)
        commit = await answer if inspect.isawaitable(answer) else answer
        if not connection.is_in_transaction():
            raise InvalidRequest(
                "a transactional step ended its transaction",
                hint="leave COMMIT and ROLLBACK to Stepwell; connection.transaction() is fine",
            )
        return commit

    async def _finish_transact(
        self, slot: ConnectionSlot, connection: Connection, transaction: Any, commit: Commit
    ) -> Committed:
        """Check the fence and write the events last, so that the ticket is not locked while the body runs."""
        try:
            committed = await self._write_fenced(connection, commit)
            if committed.outcome is not Outcome.OK:
                await self._roll_back(slot, transaction)
                if committed.outcome is Outcome.LOST and commit.events:
                    return await self._commits.written_before(self._db.side_slots, commit, committed)
                return committed
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    await transaction.commit()
            except Exception as error:
                slot.drop()
                if fault_kind(error) is not FaultKind.BROKEN:
                    raise
                return await self._after_lost_commit(commit)
        except StepwellError:
            await self._roll_back(slot, transaction)
            raise
        except Exception as error:
            await self._roll_back(slot, transaction)
            if fault_kind(error) is FaultKind.REFUSED:
                return Committed(Outcome.REFUSED, 0, 0.0)
            raise self._failure(error) from error
        finally:
            await self._give_back(slot)
        hit("transact", "after", "ambiguous")
        return committed

    async def _roll_back(self, slot: ConnectionSlot, transaction: Any) -> None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await transaction.rollback()
        except Exception:
            slot.drop()  # the server rolls back when the connection ends

    async def _give_back(self, slot: ConnectionSlot) -> None:
        try:
            await slot.clean()
        finally:  # even when cancelled
            self.slots.give_back(slot)

    async def _write_fenced(self, connection: Connection, commit: Commit) -> Committed:
        async with asyncio.timeout(ANSWER_SECONDS):
            if commit.cross_run or counting([commit]):
                numbers = await self._commits.numbers_for([commit])
                [committed] = await self._commits.write_reaching(connection, [commit], numbers)
            else:
                [committed] = await self._commits.write_commits(connection, [commit])
        hit("transact", "mid")
        return committed

    async def _after_lost_commit(self, commit: Commit) -> Committed:
        """COMMIT was not answered: wait for its end by locking the ticket, then look into the log."""

        async def work(connection: Connection) -> Committed | None:
            last = commit.head + len(commit.events)
            locked = await connection.fetch(self._sql["lock_tickets"], [commit.run_id], [""])
            rows = await connection.fetch(self._sql["own_events"], commit.run_id, commit.head + 1, last)
            log = [LogRow(*row) for row in rows]
            if not was_already_written(commit, log):
                return None
            return Committed(Outcome.OK, locked[0]["wakes"] if locked else 0, log[-1].at)

        committed = await self._db.side_slots.run(work)
        if committed is None:
            raise StoreUnavailable("the connection was lost and the step's transaction rolled back")
        return committed

    def _failure(self, error: Exception) -> Exception:
        if fault_kind(error) in {FaultKind.AGAIN, FaultKind.BROKEN}:
            return StoreUnavailable(f"the step's transaction was rolled back: {error}")
        return translated(error, self._db.address.redacted)
