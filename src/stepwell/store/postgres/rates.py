"""Start rates of the PostgreSQL store: windows, counted in the transaction that starts the runs.

The rows of the windows are locked first, so starts in the same window go one after the other; calls of one
process go together. Starts without a rate do not come here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg

from stepwell.domain.commit import NewRun, Started
from stepwell.domain.rates import (
    Full,
    Ledger,
    RatedAnswer,
    RatedStart,
    StoredRate,
    WindowKey,
    admitted,
    keys_of,
)
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import FaultKind, fault_kind
from stepwell.store.postgres.starts import PgStarts, existing_start

CALLS_MAX = 100  # in one transaction
LOCK_TRIES = 5  # a window may be deleted between creating and locking it


class PgRates:
    def __init__(self, db: Database, starts: PgStarts) -> None:
        self._db = db
        self._sql = db.sql
        self._starts = starts

    async def start_within(self, calls: Sequence[RatedStart]) -> Sequence[RatedAnswer]:
        sent_before: set[str] = set()
        numbers = await self._starts.numbers.take(run for call in calls for run in call.runs)

        def in_doubt() -> None:
            sent_before.update(run.id for call in calls for run in call.runs)

        async def work(connection: Connection) -> list[RatedAnswer]:
            rows = await self._locked_windows(connection, keys_of(calls))
            if rows is None:
                return [Full(call.windows[0], None) for call in calls]
            return await self._within_windows(connection, calls, rows, sent_before, numbers)

        return await self._db.write(
            "start_within", self._db.rated_slots, work, on_doubt=in_doubt, own_task=True
        )

    async def put_start_rate(self, rate: StoredRate) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute(self._sql["put_start_rate"], *rate)

        await self._db.write("put_start_rate", self._db.side_slots, work, single=True)

    async def drop_start_rate(self, per: str, seconds: float) -> bool:
        async def work(connection: Connection) -> bool:
            return await connection.fetchval(self._sql["drop_start_rate"], per, seconds) is not None

        return await self._db.write("drop_start_rate", self._db.side_slots, work, single=True)

    async def read_start_rates(self) -> Sequence[StoredRate]:
        async def work(connection: Connection) -> list[StoredRate]:
            return [StoredRate(*row) for row in await connection.fetch(self._sql["read_start_rates"])]

        return await self._db.side_slots.read(work)

    async def _within_windows(
        self,
        connection: Connection,
        calls: Sequence[RatedStart],
        rows: dict[WindowKey, str],
        sent_before: set[str],
        numbers: Mapping[str, int],
    ) -> list[RatedAnswer]:
        now: float = await connection.fetchval(self._sql["window_time"], self._db.now())
        runs = [run for call in calls for run in call.runs]
        existing = await self._starts.existing_runs(connection, runs)
        ledger = Ledger(rows, now)
        full = admitted(calls, ledger, set(existing))
        accepted = [
            run for call, refusal in zip(calls, full, strict=True) if refusal is None for run in call.runs
        ]
        created = await self._starts.write_starts(connection, accepted, numbers)
        changed = ledger.changed()
        if changed:
            names, seconds = [key.name for key, _, _ in changed], [key.seconds for key, _, _ in changed]
            starts, until = [starts for _, starts, _ in changed], [until for _, _, until in changed]
            await connection.execute(self._sql["put_windows"], names, seconds, starts, until, now)
        missing = [run for run in accepted if run.id not in created]
        existing |= await self._starts.existing_runs(connection, missing)
        disabled = await self._starts.disabled(connection, missing, existing)

        def started(run: NewRun) -> Started:
            if run.id in created:
                return Started(run.id, created=True, claim=created.pop(run.id))
            if run.id in disabled:
                return disabled[run.id]
            return existing_start(run, existing.get(run.identity), sent_before=run.id in sent_before)

        return [
            [started(run) for run in call.runs] if refusal is None else refusal
            for call, refusal in zip(calls, full, strict=True)
        ]

    async def _locked_windows(
        self, connection: Connection, keys: Sequence[WindowKey]
    ) -> dict[WindowKey, str] | None:
        """Lock the windows; None: they cannot be used, but runs could still be started."""
        columns = [key.name for key in keys], [key.seconds for key in keys]
        try:
            for _ in range(LOCK_TRIES):
                rows = await connection.fetch(self._sql["lock_windows"], *columns)
                if len(rows) == len(keys):
                    return {WindowKey(name, seconds): starts for name, seconds, starts in rows}
                await connection.execute(self._sql["make_windows"], *columns)
        except asyncpg.PostgresError as error:
            if fault_kind(error) is not FaultKind.OTHER:
                raise
        return None
