"""Workers: their leases, and the tickets of those that died."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stepwell.domain.commit import Beat, DrainRequest, Owned, Reaped, WorkerInfo, WorkerRow
from stepwell.domain.ids import RunId, WorkerId
from stepwell.store.base import REAP_CHUNK
from stepwell.store.sqlite.liveness_locks import WorkerFiles
from stepwell.store.sqlite.session import Session, as_list

SLACK_SECONDS = 1.0  # a smaller step back is two callers that overtook each other, not a clock that was set


class LeaseClock:
    """The clock of leases: the host's time since boot, which nobody can set; in tests the test's clock.

    Times of another boot cannot be compared, but then its processes are certainly gone.
    """

    def __init__(self, clock: Callable[[], float] | None) -> None:
        self.boot = "" if clock else _boot_id()
        self.now = clock or _since_boot


def _since_boot() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # not Linux: leases still expire, but a restart of the host is noticed later
        return "host"


class _Worker(NamedTuple):
    id: str
    name: str
    queues: str
    needs: str
    lease_seconds: float
    lease_until: float
    boot: str
    leaving: int
    drain: bytes | None


class _Contact(NamedTuple):
    since: float = 0.0
    last: float = 0.0
    boot: str = ""


class Fleet:
    def __init__(self, clock: LeaseClock, files: WorkerFiles) -> None:
        self._clock = clock
        self._files = files

    def register(self, session: Session, worker: WorkerInfo) -> None:
        self._files.hold(worker.id)
        now = self._clock.now()
        session.run(
            "put_worker",
            *(worker.id, worker.name, as_list(list(worker.queues)), as_list(list(worker.needs))),
            *(worker.lease_seconds, now + worker.lease_seconds, self._clock.boot, worker.leaving),
        )
        session.row("beat", worker.id, now, self._clock.boot)

    def heartbeat(self, session: Session, worker: WorkerId) -> Beat | None:
        row = session.row("beat", worker, self._clock.now(), self._clock.boot)
        if row is None:
            return None
        owned = msgspec.json.decode(row[0], type=list[tuple[str, str, int, int]])
        tickets = [Owned(RunId(run_id), path, wakes, bool(held)) for run_id, path, wakes, held in owned]
        return Beat(tickets, bool(row[1]))

    def drain(self, session: Session, worker: WorkerId, request: DrainRequest) -> bool | None:
        asked = msgspec.json.encode(replace(request, at=session.now))
        if session.row("drain_worker", worker, asked) is not None:
            return True
        return None if session.row("known_worker", worker) is None else False

    def deregister(self, session: Session, worker: WorkerId) -> None:
        session.run("delete_worker", worker)
        self._leave(session, worker)

    def _leave(self, session: Session, worker: str) -> int:
        """Free its tickets without counting a loss; return how many."""
        owned = session.rows("owned_by", worker)
        session.many("free_ticket", [(run_id, path, session.now, 0) for run_id, path, _ in owned])
        return len(owned)

    def left(self, worker: str) -> None:
        """Delete the worker's file, after its row was deleted for good."""
        self._files.forget(worker)

    def reap(self, session: Session) -> tuple[list[str], Reaped]:
        """Delete dead workers and free a chunk of their tickets; the ids are for `left`."""
        buried, _, _ = self._look(session)
        dead = [worker.id for worker in buried]
        left = sum([self._leave(session, worker.id) for worker in buried if worker.leaving])
        session.many("delete_worker", [(worker,) for worker in dead])
        lost = session.rows("ownerless", REAP_CHUNK)
        session.many("free_ticket", [(run_id, path, session.now, 1) for run_id, path in lost])
        solo_due = session.row("solo_due", session.now) is not None
        return dead, Reaped(len(dead), left + len(lost), solo_due)

    def nobody_dead(self, session: Session) -> tuple[list[str], Reaped] | None:
        """The answer of `reap` if there is nothing to free; None: there is."""
        dead, any_lost, solo_due = self._look(session)
        return None if dead or any_lost else ([], Reaped(0, 0, solo_due))

    def _look(self, session: Session) -> tuple[list[_Worker], bool, bool]:
        """The dead workers; whether a ticket's owner has no row; whether a ticket waits to be taken alone."""
        now = self._clock.now()
        rows = session.rows("fleet", session.now)
        any_lost, solo_due, *contact = rows[0][:5]
        workers = [_Worker(*row[5:]) for row in rows if row[5] is not None]
        dead = [worker for worker in workers if self._is_dead(worker, _Contact(*contact), now)]
        return dead, bool(any_lost), bool(solo_due)

    def _is_dead(self, worker: _Worker, contact: _Contact, now: float) -> bool:
        """Its process is gone, or its lease expired while workers were in contact for one lease, up to now.

        Without "up to now" the first to reap after an outage would take all workers for dead. A lease that
        ends later than a renewal could make it is from before the clock was set back.
        """
        if self._files.is_free(worker.id):
            return True
        if worker.boot != self._clock.boot:
            return bool(worker.boot and self._clock.boot)
        lease = worker.lease_seconds
        in_contact = (
            contact.boot == self._clock.boot
            and now - contact.since >= lease
            and -SLACK_SECONDS <= now - contact.last <= lease / 2
        )
        return in_contact and not now <= worker.lease_until <= now + lease + SLACK_SECONDS

    def workers(self, session: Session, wall: float) -> Sequence[WorkerRow]:
        """Workers whose process lives, with the ends of their leases as wall clock times."""
        shift = wall - self._clock.now() if self._clock.boot else 0.0
        rows = [_Worker(*row) for row in session.rows("all_workers")]
        return [
            WorkerRow(
                id=WorkerId(row.id),
                name=row.name,
                queues=tuple(msgspec.json.decode(row.queues, type=list[str])),
                needs=tuple(msgspec.json.decode(row.needs, type=list[str])),
                lease_until=row.lease_until + shift,
                leaving=bool(row.leaving),
                draining=None if row.drain is None else msgspec.json.decode(row.drain, type=DrainRequest),
            )
            for row in rows
            if not self._files.is_free(row.id)
        ]
