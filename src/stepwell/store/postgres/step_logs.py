"""The logs of steps in the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.ids import RunId
from stepwell.domain.step_log import LINES_PAGE, LogLineRow, NewLogLine
from stepwell.errors import InvalidInput
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.reads import PgReads


class PgStepLogs:
    def __init__(self, db: Database, reads: PgReads) -> None:
        self._db = db
        self._reads = reads

    async def add_log_lines(self, lines: Sequence[NewLogLine]) -> None:
        if not lines:
            return
        columns = [list(column) for column in zip(*lines, strict=True)]

        async def work(connection: Connection) -> None:
            await connection.execute(self._db.sql["lock_lines"], columns[0])
            await connection.execute(self._db.sql["add_log_lines"], *columns)

        try:
            await self._db.write("add_log_lines", self._db.side_slots, work)
        except Refused as error:
            raise InvalidInput(f"PostgreSQL cannot hold a line of these logs: {error}") from error

    async def read_log_lines(
        self, run_id: RunId, *, path: str = "", attempt: int = 0, after: int = 0, limit: int = LINES_PAGE
    ) -> Sequence[LogLineRow]:
        if path:
            rows = await self._reads.fetch("read_step_lines", run_id, after, limit, path, attempt)
        else:
            rows = await self._reads.fetch("read_run_lines", run_id, after, limit)
        return [LogLineRow(*row) for row in rows]
