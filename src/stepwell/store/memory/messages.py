"""Messages of the memory store: deliver, and broadcast events."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import (
    DEFAULT_WORKSPACE,
    Claim,
    Delivery,
    InboxRow,
    Message,
    NewWait,
    PublishedEvent,
)
from stepwell.domain.ids import NEEDS_EMIT, RunId
from stepwell.domain.messages import event_key
from stepwell.store.base import EVENT_STEP_SECONDS, INBOX_READ_MAX, PUBLISHED_MAX
from stepwell.store.memory.tables import Tables, Ticket
from stepwell.store.memory.verb import transaction


class MemoryMessages(Tables):
    @transaction("deliver")
    async def deliver(self, messages: Sequence[Message]) -> Sequence[Delivery]:
        return [self._deliver(message) for message in messages]

    async def read_inbox(self, run_id: RunId, *, after: int = 0) -> Sequence[InboxRow]:
        rows = sorted(self._inbox.get(run_id, {}).values(), key=lambda row: row.n)
        return [row for row in rows if row.n > after][:INBOX_READ_MAX]

    @transaction("emit")
    async def emit(self, event: PublishedEvent) -> bool:
        if event.id in self._published:
            return False
        now = self._clock()
        name = (event.workspace, event.name)
        at = max(now, self._event_times.get(name, 0.0) + EVENT_STEP_SECONDS)
        self._event_times[name] = at
        self._published[event.id] = event._replace(at=at)
        run_id = RunId(event.id)
        self._tickets[run_id, ""] = Ticket(run_id, "", "", NEEDS_EMIT, 0, now, now, head=0, at=now)
        return True

    async def read_fan_out(self, claim: Claim) -> PublishedEvent | None:
        ticket = self._tickets.get((claim.run_id, ""))
        if ticket is None or ticket.lease != claim.lease:
            return None
        return self._published[claim.run_id]

    @transaction("fan_out")
    async def fan_out(self, claim: Claim) -> None:
        ticket = self._tickets.get((claim.run_id, ""))
        if ticket is None or ticket.lease != claim.lease:
            return
        event = self._published[claim.run_id]
        waits = [(run_id, wait) for (run_id, _), wait in self._waits.items() if _wants(wait, event)]
        waits.sort(key=lambda pair: (pair[0], pair[1].since, pair[1].path))
        for run_id, wait in waits:  # the earliest wait of a run takes it; the others repeat its key
            message = Message(
                run_id=run_id, key=event_key(event.id), kind="event", name=wait.path, payload=event.payload
            )
            self._deliver(message)
        del self._tickets[claim.run_id, ""]

    async def published(
        self,
        name: str,
        key: str,
        *,
        since: float,
        limit: int = PUBLISHED_MAX,
        workspace: str = DEFAULT_WORKSPACE,
    ) -> Sequence[PublishedEvent]:
        wanted = NewWait(path="", kind="event", name=name, key=key, since=since, workspace=workspace)
        events = [event for event in self._published.values() if _wants(wanted, event)]
        return sorted(events, key=lambda event: event.at)[:limit]


def _wants(wait: NewWait, event: PublishedEvent) -> bool:
    fits = wait.kind == "event" and (wait.workspace, wait.name) == (event.workspace, event.name)
    return fits and wait.key in ("", event.key) and event.at >= wait.since
