"""Remote steps: results, from the workers that executed the steps to the runs that wait."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import Claim, Message, Outcome
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.messages import PgMessages
from stepwell.store.postgres.pool.connection import Connection

RESULTS_MAX = 200  # in one transaction: it holds their runs' tickets

Finished = tuple[Claim, Message]


class PgRemoteSteps:
    def __init__(self, db: Database, messages: PgMessages) -> None:
        self._db = db
        self._sql = db.sql
        self._messages = messages

    async def finish(self, finished: Sequence[Finished]) -> Sequence[Outcome]:
        """Write all results that came while the last ones were written.

        They often go to one run. Written one by one, each would wait at its ticket for the commit of the one
        before (400 of one run, two workers, a busy machine: 7.8 s; together 2.8 s).
        """

        async def one(connection: Connection) -> list[Outcome]:
            [(claim, result)] = finished
            place = (claim.run_id, claim.path, claim.lease)
            message = (result.key, result.kind, result.name, result.payload)
            is_owned = await connection.fetchval(self._sql["finish_remote"], self._db.now(), *place, *message)
            return [Outcome.OK if is_owned else Outcome.LOST]

        async def together(connection: Connection) -> list[Outcome]:
            places = [(claim.run_id, claim.path, claim.lease) for claim, _ in finished]
            columns = [list(column) for column in zip(*places, strict=True)]
            gone = {tuple(row) for row in await connection.fetch(self._sql["drop_finished"], *columns)}
            owned = []
            for place in places:
                owned.append(place in gone)
                gone.discard(place)  # a repeat does not find the ticket
            messages = [result for (_, result), is_owned in zip(finished, owned, strict=True) if is_owned]
            if messages:
                await self._messages.write_deliveries(connection, messages)
            return [Outcome.OK if is_owned else Outcome.LOST for is_owned in owned]

        single = len(finished) == 1
        work = one if single else together
        return await self._db.write("finish_remote", self._db.deliver_slots, work, single=single, again=False)
