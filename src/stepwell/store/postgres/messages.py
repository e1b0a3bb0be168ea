"""Messages to runs, and broadcast events."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import DEFAULT_WORKSPACE, Claim, Delivery, InboxRow, Message, PublishedEvent
from stepwell.domain.ids import RunId
from stepwell.domain.messages import event_key
from stepwell.store.base import BATCH_MEMBERS_MAX, FAN_OUT_CHUNK, INBOX_MAX, INBOX_READ_MAX, PUBLISHED_MAX
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.pool.connection import Connection


class PgMessages:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._sql = db.sql

    async def deliver(self, messages: Sequence[Message]) -> Sequence[Delivery]:
        simple = len({m.run_id for m in messages}) == len(messages) and not any(m.wait for m in messages)

        async def work(connection: Connection) -> list[Delivery]:
            if simple:
                return await self._deliver_each(connection, messages)
            targets = sorted({message.run_id for message in messages})
            await connection.fetch(self._sql["lock_tickets"], targets, [""] * len(targets))
            return await self.write_deliveries(connection, messages)

        return await self._db.write("deliver", self._db.deliver_slots, work, single=simple, own_task=True)

    async def _deliver_each(self, connection: Connection, messages: Sequence[Message]) -> list[Delivery]:
        """Deliver one message per target, none of them a decision, with one statement."""
        senders = [message.by for message in messages]
        rows = await connection.fetch(
            self._sql["deliver_each"], self._db.now(), *_arguments(messages)[:5], INBOX_MAX, senders
        )
        return [Delivery(row[0]) for row in rows]

    async def write_deliveries(self, connection: Connection, messages: Sequence[Message]) -> list[Delivery]:
        """Deliver under the locks of the targets' tickets. A repeated key needs a second statement."""
        answers: dict[int, Delivery] = {}
        left = list(range(len(messages)))
        while left:
            seen: set[tuple[RunId, str]] = set()
            now: list[int] = []
            later: list[int] = []
            for i in left:
                place = (messages[i].run_id, messages[i].key)
                (later if place in seen or len(now) == BATCH_MEMBERS_MAX else now).append(i)
                seen.add(place)
            rows = await connection.fetch(
                self._sql["deliver_locked"],
                self._db.now(),
                *_arguments([messages[i] for i in now]),
                INBOX_MAX,
                [messages[i].by for i in now],
            )
            answers.update(zip(now, (Delivery(row[0]) for row in rows), strict=True))
            left = later
        return [answers[i] for i in range(len(messages))]

    async def read_inbox(self, run_id: RunId, *, after: int = 0) -> Sequence[InboxRow]:
        async def work(connection: Connection) -> list[InboxRow]:
            rows = await connection.fetch(self._sql["read_inbox"], run_id, after, INBOX_READ_MAX)
            return [InboxRow(*row) for row in rows]

        return await self._db.side_slots.read(work)

    async def emit(self, events: Sequence[PublishedEvent]) -> Sequence[bool]:
        """Write all events with one statement, so that those of a name take their turn together."""

        async def work(connection: Connection) -> set[str]:
            rows = ((e.id, e.name, e.key, e.payload, e.workspace, e.by, e.hops) for e in events)
            columns = zip(*rows, strict=True)
            new = await connection.fetch(self._sql["emit"], self._db.now(), *map(list, columns))
            return {row[0] for row in new}

        new = await self._db.write("emit", self._db.side_slots, work, single=True, again=False, own_task=True)
        answers = []
        for event in events:  # an id that occurs twice is new once
            answers.append(event.id in new)
            new.discard(event.id)
        return answers

    async def read_fan_out(self, claim: Claim) -> PublishedEvent | None:
        async def read(connection: Connection) -> PublishedEvent | None:
            row = await connection.fetchrow(self._sql["read_event_to_fan_out"], claim.run_id, claim.lease)
            return PublishedEvent(claim.run_id, *row) if row else None

        return await self._db.side_slots.run(read)

    async def fan_out(self, claim: Claim) -> None:
        event = await self.read_fan_out(claim)
        after: str | None = ""
        while event is not None and after is not None:
            after = await self._fan_out_chunk(claim, event, after)

    async def _fan_out_chunk(self, claim: Claim, event: PublishedEvent, after: str) -> str | None:
        """Deliver to the next runs, in order; return the last of them, or None after dropping the ticket."""

        async def find(connection: Connection) -> list[tuple[str, str | None, int]]:
            where = (after, FAN_OUT_CHUNK, event.workspace)
            rows = await connection.fetch(self._sql["find_waiting"], event.name, event.key, event.at, *where)
            return [tuple(row) for row in rows]

        waiting = await self._db.side_slots.run(find)
        messages = [
            Message(
                run_id=RunId(run_id), key=event_key(event.id), kind="event", name=path, payload=event.payload
            )
            for run_id, path, _ in waiting
            if path is not None
        ]
        is_last = not waiting or waiting[0][2] < FAN_OUT_CHUNK

        async def deliver(connection: Connection) -> None:
            if is_last:
                targets = [claim.run_id, *(message.run_id for message in messages)]
                await connection.fetch(self._sql["lock_tickets"], targets, [""] * len(targets))
                await connection.execute(self._sql["drop_fan_out"], claim.run_id, claim.lease)
            if messages:
                await self._deliver_each(connection, messages)

        await self._db.write("fan_out", self._db.side_slots, deliver)
        return None if is_last else waiting[-1][0]

    async def published(
        self,
        name: str,
        key: str,
        *,
        since: float,
        limit: int = PUBLISHED_MAX,
        workspace: str = DEFAULT_WORKSPACE,
    ) -> Sequence[PublishedEvent]:
        async def work(connection: Connection) -> list[PublishedEvent]:
            if key:
                rows = await connection.fetch(
                    self._sql["published_by_key"], name, since, limit, workspace, key
                )
            else:
                rows = await connection.fetch(self._sql["published"], name, since, limit, workspace)
            return [PublishedEvent(*row) for row in rows]

        return await self._db.side_slots.read(work)


def _arguments(messages: Sequence[Message]) -> list[list[object]]:
    return [
        [message.run_id for message in messages],
        [message.key for message in messages],
        [message.kind for message in messages],
        [message.name for message in messages],
        [message.payload for message in messages],
        [message.wait for message in messages],
    ]
