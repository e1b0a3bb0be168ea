"""MemoryStore: the reference. Plain dicts; every verb runs without a pause, so it is atomic.

The shortest code that keeps the promises of `base`. The other stores are compared with it, and the
simulator and users' tests run on it.
"""

from __future__ import annotations

from collections.abc import Callable

from stepwell.store.base import ConnectionUse, SchemaVersion, must_be_plain
from stepwell.store.followers import ASK
from stepwell.store.memory.access import MemoryAccess
from stepwell.store.memory.archive import MemoryArchive
from stepwell.store.memory.cancel_retry import MemoryCancelRetry
from stepwell.store.memory.claims import MemoryClaims
from stepwell.store.memory.commits import MemoryCommits
from stepwell.store.memory.definitions import MemoryDefinitions
from stepwell.store.memory.holds import MemoryHolds
from stepwell.store.memory.maintenance import MemoryMaintenance
from stepwell.store.memory.messages import MemoryMessages
from stepwell.store.memory.notifications import MemoryNotifications
from stepwell.store.memory.records import MemoryRecords
from stepwell.store.memory.search import MemorySearch
from stepwell.store.memory.secrets import MemorySecrets
from stepwell.store.memory.step_logs import MemoryStepLogs
from stepwell.store.memory.triggers import MemoryTriggers
from stepwell.store.memory.workers import MemoryWorkers


class MemoryStore(
    MemoryTriggers,
    MemoryCommits,
    MemoryCancelRetry,
    MemoryHolds,
    MemoryMessages,
    MemoryClaims,
    MemoryWorkers,
    MemorySearch,
    MemoryArchive,
    MemoryDefinitions,
    MemoryAccess,
    MemorySecrets,
    MemoryRecords,
    MemoryStepLogs,
    MemoryNotifications,
    MemoryMaintenance,
):
    sync_transactions = False
    polls = False
    commits_at_once = 1
    starts_at_once = 1

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._listeners: list[Callable[[str], None]] = []

    async def open(self, *, encoded: bool = False) -> None:
        if not encoded:
            await must_be_plain(self)

    async def close(self) -> None:
        pass

    async def read_schema(self) -> SchemaVersion:
        return SchemaVersion(1, 1)

    def connections(self) -> ConnectionUse:
        return ConnectionUse(0, 0, 0)

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        self.hint(ASK)
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def hint(self, text: str = "") -> None:
        for callback in list(self._listeners):
            callback(text)

    def hears(self) -> bool:
        return True
