"""Reader: a thread that reads beside the writer and never waits for it."""

from __future__ import annotations

import threading

import apsw

from stepwell.store.sqlite.errors import translated
from stepwell.store.sqlite.session import Session
from stepwell.store.sqlite.thread_queue import CallQueue, Operation, answer


class Reader:
    """Almost every read is one statement, so it sees one moment and is over soon."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self._session = Session(connection)
        self._path = path
        self.queue = CallQueue()
        self._thread = threading.Thread(target=self._serve, name="stepwell-reader", daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _serve(self) -> None:
        stopping = False
        while not stopping:
            operations, stopping = self.queue.take()
            for operation in operations:
                self._read(operation)
            answer(operations)
        self._session.connection.close()

    def _read(self, operation: Operation) -> None:
        try:
            [operation.answer] = operation.verb.work(self._session, [operation.load])
        except BaseException as error:
            operation.error = translated(error, self._path)
