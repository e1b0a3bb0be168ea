"""RedactedStore: any store, with the values of opened secrets removed from everything written to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from stepwell.domain.commit import Commit, Committed, Finish
from stepwell.domain.search import words_of_error
from stepwell.store.base import Store
from stepwell.store.encoded import EncodedStore

# Verbs that write values of programs and people.
_WRITES = (
    *("start", "start_within", "cancel", "force_end", "hold", "hold_scope", "retry", "switch", "deliver"),
    *("emit", "finish_remote", "add_log_lines", "restore"),
    *("put_trigger", "fire_due", "advance_trigger"),
    *("change_record", "record_change"),
)


class Redacts(Protocol):
    @property
    def active(self) -> bool: ...

    def redact(self, data: bytes) -> bytes: ...


def redacted(store: Store, redactor: Redacts) -> Store:
    wrapped: Any = RedactedStore(store, redactor)  # other verbs are those of the store
    result: Store = wrapped
    return result


class _Redaction:
    """A payload codec that only removes values of secrets."""

    def __init__(self, redactor: Redacts) -> None:
        self.encode = redactor.redact

    def decode(self, data: bytes) -> bytes:
        return data


class _RedactedWrites(EncodedStore):
    """Writes without the values of secrets, including indexed values."""

    def _term(self, workspace: str, collection: str, field: str, term: str) -> str:
        return self._encode(term.encode()).decode()


class RedactedStore:
    def __init__(self, store: Store, redactor: Redacts) -> None:
        self._store = store
        self._redactor = redactor
        self._writes = _RedactedWrites(store, _Redaction(redactor))

    def __getattr__(self, name: str) -> Any:
        if name in _WRITES and self._redactor.active:
            return getattr(self._writes, name)
        return getattr(self._store, name)

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        if not self._redactor.active:
            return await self._store.commit(batch)
        return await self._writes.commit([self._found_by(commit) for commit in batch])

    async def transact(
        self, body: Callable[[Any], Any], turn: Callable[[Any], Awaitable[Commit] | Commit]
    ) -> Committed:
        # Which secrets the body opens is known only after it has run.
        return await self._writes.transact(body, turn)

    def _found_by(self, commit: Commit) -> Commit:
        """Let a failed run be found by the words of its redacted error."""
        then = commit.then
        if not isinstance(then, Finish) or not then.words or then.error is None:
            return commit
        return replace(commit, then=replace(then, words=words_of_error(self._redactor.redact(then.error))))
