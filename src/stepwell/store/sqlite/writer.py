"""Writer: the one thread of a process that writes, and how it shares a transaction among callers.

It takes everything that waits and writes it in one transaction (group commit): nobody waits for a timer,
and all callers share the cost of reaching the disk. If a value cannot be written, the transaction is rolled
back and each operation is done again on its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import apsw

from stepwell import failpoints
from stepwell.errors import OutcomeUnknown, StoreUnavailable
from stepwell.store.sqlite.errors import BAD_VALUE, translated
from stepwell.store.sqlite.guard import Place, check_place
from stepwell.store.sqlite.lock_holder import locked
from stepwell.store.sqlite.session import Session
from stepwell.store.sqlite.thread_queue import CallQueue, Operation, RolledBack, answer
from stepwell.store.sqlite.write_intent import LOOK_SECONDS, Intent

LOCK_SECONDS = 15.0  # how long a caller waits while another process holds the write lock
HURRY_SECONDS = 0.1  # after that the holder is slow: look less often, but
REST_SECONDS = 0.001  # often enough to meet the moment in which a busy writer steps aside
CHECKPOINT_PAGES = 2000  # 8 MiB of log before its pages are moved into the database
TRUNCATE_PAGES = 16384  # 64 MiB: a reader was in the way for long; wait for it briefly


class Writer:
    def __init__(
        self, connection: apsw.Connection, path: str, place: Place, clock: Callable[[], float]
    ) -> None:
        self._session = Session(connection)
        self._path = path
        self._place = place
        self._clock = clock
        self._intent = Intent(path)
        self._wal_pages = 0
        self._unsynced = False
        self._checkpoint_at = CHECKPOINT_PAGES
        connection.wal_autocheckpoint(0)
        connection.set_wal_hook(self._on_wal)
        self.queue = CallQueue()
        # A daemon: a program that ends without close() must not hang, and everything answered is on disk.
        self._thread = threading.Thread(target=self._serve, name="stepwell-writer", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until it has done everything in the queue and closed the file."""
        self._thread.join()

    def _serve(self) -> None:
        stopping = False
        while not stopping:
            operations, stopping = self.queue.take()
            for batch in _batches(operations):
                self._perform(batch)
                answer(batch)
                self._intent.step_aside()
                self._checkpoint()
        self._close()

    # Transactions

    def _perform(self, batch: Sequence[Operation]) -> None:
        """Leave an answer or an error in each operation."""
        try:
            check_place(self._path, self._place)  # 2 us
            batch = self._not_light(batch)
            if batch:
                _hit(batch, "before")
                batch = self._begin(batch)
            if batch:
                self._transaction(batch)
        except RolledBack as rolled_back:
            batch[0].answer, batch[0].error = rolled_back.answer, rolled_back.error
        except _InjectedFault as fault:
            fault.operation.error = StoreUnavailable(f"injected at {fault.__cause__}")
            rest = [operation for operation in batch if operation is not fault.operation]
            if rest:
                self._perform(rest)
        except BaseException as error:
            if len(batch) > 1 and isinstance(error, BAD_VALUE):
                for operation in batch:
                    self._perform([operation])
            elif batch[0].verb.apart is not None and isinstance(error, BAD_VALUE):
                self._perform_apart(batch[0])
            else:
                for operation in batch:
                    operation.error = translated(error, self._path)

    def _not_light(self, batch: Sequence[Operation]) -> Sequence[Operation]:
        """Try the light form of each operation; return those that need a transaction.

        An idle process asks with one statement per operation, finds nothing to do, and needs no
        transaction. If one is needed anyway, all operations go into it; also with failpoints, which are
        places in a transaction, and after a rollback that failed (see _begin).
        """
        if failpoints.hit is not None or any(operation.verb.light is None for operation in batch):
            return batch
        if self._session.connection.in_transaction:
            return batch
        self._session.now = self._clock()
        return [operation for operation in batch if not self._is_light(operation)]

    def _is_light(self, operation: Operation) -> bool:
        assert operation.verb.light is not None
        try:
            operation.answer = operation.verb.light(self._session, operation.load)
        except apsw.BusyError:  # _begin knows how to wait
            return False
        return operation.answer is not None

    def _perform_apart(self, operation: Operation) -> None:
        try:
            _hit([operation], "before")
            if self._begin([operation]):
                self._transaction([operation], apart=True)
        except BaseException as error:
            operation.error = translated(error, self._path)

    def _transaction(self, batch: Sequence[Operation], *, apart: bool = False) -> None:
        """Write the operations and commit. `_begin` has taken the write lock."""
        session = self._session
        try:
            session.now = self._clock()
            for group in _groups(batch):
                verb = group[0].verb
                work = verb.apart if apart and verb.apart else verb.work
                answers = work(session, [operation.load for operation in group])
                for operation, result in zip(group, answers, strict=True):
                    operation.answer = result
            _hit(batch, "mid")
            session.run("commit")
        except BaseException:
            if session.connection.in_transaction:
                session.run("rollback")
            raise
        _hit_committed(batch)

    def _begin(self, batch: Sequence[Operation]) -> Sequence[Operation]:
        """Take the write lock. If it is taken, announce that we wait, so that a busy writer lets us in.

        An operation that has waited too long, in the queue or here, gets an error that names the holder of
        the lock. Returns the others; if none are left, the lock was not taken.
        """
        if self._session.connection.in_transaction:  # a rollback failed as well: the disk had errors
            self._session.run("rollback")
        self._sync(all([operation.verb.unsynced for operation in batch]))
        if self._try_begin():
            return batch
        self._intent.announce()
        began = time.monotonic()
        try:
            while batch:
                if self._try_begin():
                    return batch
                now = time.monotonic()
                if late := [operation for operation in batch if now > operation.submitted + LOCK_SECONDS]:
                    self._refuse(late)
                    batch = [operation for operation in batch if operation not in late]
                time.sleep(LOOK_SECONDS if now < began + HURRY_SECONDS else REST_SECONDS)
            return batch
        finally:
            self._intent.withdraw()

    def _sync(self, unsynced: bool) -> None:
        """Set whether the next commit waits for the disk. Half of a worker's commits are only claims."""
        if unsynced != self._unsynced:
            self._session.run("sync_later" if unsynced else "sync_at_once")
            self._unsynced = unsynced

    def _try_begin(self) -> bool:
        try:
            self._session.run("begin")
        except apsw.BusyError:
            return False
        return True

    def _refuse(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            operation.error = locked(self._path, LOCK_SECONDS)
        answer(operations)

    # The write-ahead log

    def _on_wal(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Checkpoint between transactions, after the callers were answered, so that no commit pays for it."""
        if self._wal_pages < CHECKPOINT_PAGES:
            self._checkpoint_at = CHECKPOINT_PAGES
        if self._wal_pages < self._checkpoint_at:
            return
        mode = apsw.SQLITE_CHECKPOINT_PASSIVE
        if self._wal_pages > TRUNCATE_PAGES:
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE
        try:
            self._session.connection.wal_checkpoint(mode=mode)
        except apsw.Error:  # busy, or the disk is full: everything stays in the log until the next time
            pass
        # A reader may keep the log from being reset; do not try again at every commit.
        self._checkpoint_at = self._wal_pages + CHECKPOINT_PAGES

    def _close(self) -> None:
        connection = self._session.connection
        connection.set_wal_hook(None)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error:  # others have it open; they will do it
            pass
        connection.close()
        self._intent.close()


def _batches(operations: Sequence[Operation]) -> list[list[Operation]]:
    """Split operations into transactions: everything together, except those that must be alone."""
    batches: list[list[Operation]] = []
    for operation in operations:
        if operation.verb.alone or not batches or batches[-1][0].verb.alone:
            batches.append([operation])
        else:
            batches[-1].append(operation)
    return batches


def _groups(batch: Sequence[Operation]) -> list[list[Operation]]:
    """Put operations of one verb together, so that fifty starts are three statements, not 150."""
    groups: dict[object, list[Operation]] = {}  # by what they do: several verbs may share a name
    for operation in batch:
        groups.setdefault(operation.verb.work, []).append(operation)
    return list(groups.values())


class _InjectedFault(Exception):
    """A failpoint hit this operation; the others of its transaction are tried again."""

    def __init__(self, operation: Operation) -> None:
        super().__init__()
        self.operation = operation


def _hit(batch: Sequence[Operation], moment: str) -> None:
    if failpoints.hit is None:
        return
    for operation in batch:
        try:
            failpoints.hit(f"{operation.verb.name}.{moment}")
        except failpoints.Injected as fault:
            raise _InjectedFault(operation) from fault


def _hit_committed(batch: Sequence[Operation]) -> None:
    """A fault after the commit cannot undo anything: only the answer is lost."""
    if failpoints.hit is None:
        return
    for operation in batch:
        try:
            failpoints.hit(f"{operation.verb.name}.after")
            failpoints.hit(f"{operation.verb.name}.ambiguous")
        except failpoints.Injected as fault:
            operation.error = OutcomeUnknown(f"injected at {fault}")
