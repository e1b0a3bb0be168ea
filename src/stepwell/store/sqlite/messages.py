"""Messages to runs, and broadcast events."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from stepwell.domain.commit import DEFAULT_WORKSPACE, Claim, Delivery, InboxRow, Message, PublishedEvent
from stepwell.domain.ids import NEEDS_EMIT, RunId
from stepwell.domain.messages import event_key
from stepwell.store.base import FAN_OUT_CHUNK, INBOX_MAX, INBOX_READ_MAX, PUBLISHED_MAX
from stepwell.store.sqlite.session import Session, as_list


class _Target:
    """The ticket of a message's run, with the changes of the messages added so far."""

    __slots__ = ("count", "due_at", "not_before", "touched", "wakes")

    def __init__(self, wakes: int, not_before: float, due_at: float) -> None:
        self.wakes = wakes
        self.not_before = not_before
        self.due_at = due_at
        self.count = -1  # messages in the inbox; -1: not counted yet
        self.touched = False


class InboxWriter:
    """Reads the rows that a set of messages needs with a few statements, then decides each in order."""

    def __init__(self, session: Session, messages: Sequence[Message]) -> None:
        self._session = session
        ids = list({message.run_id for message in messages})
        self._targets = {row[0]: _Target(*row[1:]) for row in session.rows("targets", as_list(ids))}
        missing = [run_id for run_id in ids if run_id not in self._targets]
        self._ended = {row[0] for row in session.rows("known_runs", as_list(missing))} if missing else set()
        # A run that was never woken has an empty inbox: most deliveries need not look into it.
        pairs = [(m.run_id, m.key) for m in messages if m.run_id in self._targets]
        pairs = [pair for pair in pairs if self._targets[pair[0]].wakes]
        self._payloads: dict[tuple[str, str], bytes] = {}
        if pairs:
            rows = session.rows("known_messages", as_list(pairs))
            self._payloads = {(run_id, key): payload for run_id, key, payload in rows}
        waits = [(message.run_id, message.wait) for message in messages if message.wait]
        self._waits = set(session.rows("open_waits", as_list(waits))) if waits else set()
        self._rows: list[tuple[str, str, int, str, str, bytes, float, str]] = []

    def add(self, message: Message) -> Delivery:
        target = self._targets.get(message.run_id)
        if target is None:
            return Delivery.ENDED if message.run_id in self._ended else Delivery.UNKNOWN
        payload = self._payloads.get((message.run_id, message.key))
        if payload is not None:
            same = not message.wait or payload == message.payload
            return Delivery.DUPLICATE if same else Delivery.DECIDED
        if message.wait and (message.run_id, message.wait) not in self._waits:
            return Delivery.DECIDED
        if message.kind == "signal" and self._is_full(message.run_id, target):
            return Delivery.FULL
        now = self._session.now
        target.wakes += 1
        target.due_at = min(target.due_at, max(now, target.not_before))
        target.touched = True
        if target.count >= 0:
            target.count += 1
        self._payloads[message.run_id, message.key] = message.payload
        self._rows.append(
            (
                *(message.run_id, message.key, target.wakes, message.kind, message.name, message.payload),
                *(now, message.by),
            )
        )
        return Delivery.DELIVERED

    def _is_full(self, run_id: str, target: _Target) -> bool:
        if target.wakes < INBOX_MAX:  # there cannot be more messages than wakes
            return False
        if target.count < 0:
            waiting = sum(1 for row in self._rows if row[0] == run_id)
            target.count = self._session.rows("count_inbox", run_id)[0][0] + waiting
        return target.count >= INBOX_MAX

    def write(self) -> None:
        if not self._rows:
            return
        self._session.many("insert_message", self._rows)
        touched = [(run_id, t.wakes, t.due_at) for run_id, t in self._targets.items() if t.touched]
        self._session.many("wake_ticket", touched)


def deliver(session: Session, calls: Sequence[Sequence[Message]]) -> list[list[Delivery]]:
    """Write the messages of several calls together; return the answers to each."""
    writer = InboxWriter(session, list(chain.from_iterable(calls)))
    answers = [[writer.add(message) for message in call] for call in calls]
    writer.write()
    return answers


def read_inbox(session: Session, run_id: RunId, *, after: int = 0) -> Sequence[InboxRow]:
    return [InboxRow(*row) for row in session.rows("read_inbox", run_id, after, INBOX_READ_MAX)]


def emit(session: Session, event: PublishedEvent) -> bool:
    before = session.connection.total_changes()
    place = (event.workspace, event.by, event.hops)
    values = (event.id, event.name, event.key, event.payload, session.now, *place)
    session.run("insert_published", *values)
    if session.connection.total_changes() == before:
        return False
    session.run("insert_fan_out", event.id, NEEDS_EMIT, session.now)
    return True


def read_fan_out(session: Session, claim: Claim) -> PublishedEvent | None:
    if session.row("ticket_lease", claim.run_id, "") != (claim.lease,):
        return None
    row = session.row("published_event", claim.run_id)
    return None if row is None else PublishedEvent(*row)


def fan_out_chunk(session: Session, claim: Claim, after: str) -> str | None:
    """Deliver the event to the next runs after that one; None: all have it and the ticket is deleted."""
    if session.row("ticket_lease", claim.run_id, "") != (claim.lease,):
        return None
    row = session.row("published_event", claim.run_id)
    assert row is not None, f"{claim.run_id}: a fan-out ticket without its event"
    event = PublishedEvent(*row)
    keys = {"", event.key}
    where = (after, event.at, FAN_OUT_CHUNK, event.workspace)
    chunks = [session.rows("matching_waits", event.name, key, *where) for key in keys]
    # If a chunk is full, there may be more after its last run: stop at that run for now.
    ends = [chunk[-1][0] for chunk in chunks if len(chunk) == FAN_OUT_CHUNK]
    earliest: dict[str, str] = {}
    for run_id, _, path in sorted(row for chunk in chunks for row in chunk):
        if not ends or run_id <= min(ends):
            earliest.setdefault(run_id, path)
    messages = [
        Message(run_id=RunId(run_id), key=event_key(event.id), kind="event", name=path, payload=event.payload)
        for run_id, path in earliest.items()
    ]
    deliver(session, [messages])
    if ends:
        return str(min(ends))
    session.run("delete_ticket", claim.run_id, "")
    return None


def published(
    session: Session,
    name: str,
    key: str,
    *,
    since: float,
    limit: int = PUBLISHED_MAX,
    workspace: str = DEFAULT_WORKSPACE,
) -> Sequence[PublishedEvent]:
    if key:
        rows = session.rows("published_by_key", name, since, limit, workspace, key)
    else:
        rows = session.rows("published", name, since, limit, workspace)
    return [PublishedEvent(*row) for row in rows]
