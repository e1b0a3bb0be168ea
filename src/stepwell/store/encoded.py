"""EncodedStore: any store, with a payload codec between it and the engine.

Only values of users are encoded. What the kernel itself must read (who claimed, which timer) stays
plain, as do names, keys and times.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.domain.commit import (
    Claim,
    ClaimRequest,
    Claims,
    Commit,
    Committed,
    Delivery,
    Finish,
    InboxRow,
    LogRow,
    Message,
    NewEvent,
    NewRun,
    Outcome,
    PublishedEvent,
    RunFilter,
    RunRow,
    Started,
)
from stepwell.domain.copies import RunCopy
from stepwell.domain.ids import RunId
from stepwell.domain.rates import RatedAnswer, RatedStart
from stepwell.store.base import PUBLISHED_MAX, Store
from stepwell.store.payloads import PayloadCodec

_PLAIN = frozenset(
    {
        "claimed",
        "lease_lost",
        "retried",
        "cancel_requested",
        "cancelled",
        "timer_set",
        "timer_fired",
        "step_started",
        "wait_ended",
        "child_started",
        "progress",
        "compensation_completed",
    }
)


def encoded(store: Store, codec: PayloadCodec) -> Store:
    """The same store, seen through the codec."""
    wrapped: Any = EncodedStore(store, codec)  # the verbs without payloads are the store's own
    result: Store = wrapped
    return result


class EncodedStore:
    def __init__(self, store: Store, codec: PayloadCodec) -> None:
        self._store = store
        self._encode = codec.encode
        self._decode = codec.decode

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    # In

    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        started = await self._store.start([self._run(run) for run in runs])
        return [
            answer if answer.claim is None else answer._replace(claim=self._claim(answer.claim))
            for answer in started
        ]

    async def start_within(self, asked: RatedStart) -> RatedAnswer:
        return await self._store.start_within(asked._replace(runs=[self._run(run) for run in asked.runs]))

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Committed]:
        return await self._store.commit([self._commit(commit) for commit in batch])

    async def transact(
        self, body: Callable[[Any], Any], turn: Callable[[Any], Awaitable[Commit] | Commit]
    ) -> Committed:
        async def later(commit: Awaitable[Commit]) -> Commit:
            return self._commit(await commit)

        def encoded_turn(result: Any) -> Awaitable[Commit] | Commit:
            commit = turn(result)
            return later(commit) if inspect.isawaitable(commit) else self._commit(commit)

        return await self._store.transact(body, encoded_turn)

    async def deliver(self, messages: Sequence[Message]) -> Sequence[Delivery]:
        return await self._store.deliver([self._message(message) for message in messages])

    async def emit(self, event: PublishedEvent) -> bool:
        return await self._store.emit(event._replace(payload=self._encode(event.payload)))

    async def finish_remote(self, claim: Claim, result: Message) -> Outcome:
        return await self._store.finish_remote(claim, self._message(result))

    def _run(self, run: NewRun) -> NewRun:
        return replace(run, accepted=self._encode(run.accepted), input=self._encode(run.input))

    def _message(self, message: Message) -> Message:
        return replace(message, payload=self._encode(message.payload))

    def _commit(self, commit: Commit) -> Commit:
        then = commit.then
        if isinstance(then, Finish):
            then = replace(then, output=self._maybe(then.output), error=self._maybe(then.error))
        return replace(
            commit,
            events=[self._event(event) for event in commit.events],
            starts=[self._run(run) for run in commit.starts],
            deliveries=[self._message(message) for message in commit.deliveries],
            then=then,
        )

    def _event(self, event: NewEvent) -> NewEvent:
        return event if event.kind in _PLAIN else replace(event, payload=self._encode(event.payload))

    def _maybe(self, data: bytes | None) -> bytes | None:
        return None if data is None else self._encode(data)

    async def restore(self, copies: Sequence[RunCopy]) -> Sequence[Started]:
        return await self._store.restore([self._restored(copy) for copy in copies])

    def _restored(self, copy: RunCopy) -> RunCopy:
        encode = self._encode
        return replace(
            copy,
            input=encode(copy.input),
            output=self._maybe(copy.output),
            error=self._maybe(copy.error),
            log=[
                row if row.kind in _PLAIN else row._replace(payload=encode(row.payload)) for row in copy.log
            ],
            inbox=[row._replace(payload=encode(row.payload)) for row in copy.inbox],
        )

    # Out

    async def read_tree(self, run_id: RunId, *, children: bool = True) -> Sequence[RunCopy]:
        return [self._copied(copy) for copy in await self._store.read_tree(run_id, children=children)]

    def _copied(self, copy: RunCopy) -> RunCopy:
        return replace(
            copy,
            input=self._decode(copy.input),
            output=None if copy.output is None else self._decode(copy.output),
            error=None if copy.error is None else self._decode(copy.error),
            log=[self._log_row(row) for row in copy.log],
            inbox=[self._inbox_row(row) for row in copy.inbox],
        )

    async def claim(self, request: ClaimRequest) -> Claims:
        found = await self._store.claim(request)
        return found._replace(claims=[self._claim(claim) for claim in found.claims])

    def _claim(self, claim: Claim) -> Claim:
        return claim._replace(
            log=[self._log_row(row) for row in claim.log],
            inbox=[self._inbox_row(row) for row in claim.inbox],
        )

    async def read_log(self, run_id: RunId, *, after: int = 0, limit: int = 1000) -> Sequence[LogRow]:
        return [self._log_row(row) for row in await self._store.read_log(run_id, after=after, limit=limit)]

    async def read_log_end(self, run_id: RunId, *, count: int = 1) -> Sequence[LogRow]:
        return [self._log_row(row) for row in await self._store.read_log_end(run_id, count=count)]

    async def read_inbox(self, run_id: RunId, *, after: int = 0) -> Sequence[InboxRow]:
        return [self._inbox_row(row) for row in await self._store.read_inbox(run_id, after=after)]

    async def published(
        self, name: str, key: str, *, since: float, limit: int = PUBLISHED_MAX
    ) -> Sequence[PublishedEvent]:
        found = await self._store.published(name, key, since=since, limit=limit)
        return [event._replace(payload=self._decode(event.payload)) for event in found]

    async def read_run(self, run_id: RunId) -> RunRow | None:
        row = await self._store.read_run(run_id)
        return None if row is None else self._run_row(row)

    async def list_runs(self, filter: RunFilter) -> Sequence[RunRow]:
        return [self._run_row(row) for row in await self._store.list_runs(filter)]

    def _log_row(self, row: LogRow) -> LogRow:
        return row._replace(payload=self._decode(row.payload))

    def _inbox_row(self, row: InboxRow) -> InboxRow:
        return row._replace(payload=self._decode(row.payload))

    def _run_row(self, row: RunRow) -> RunRow:
        return replace(
            row,
            input=self._decode(row.input),
            output=None if row.output is None else self._decode(row.output),
            error=None if row.error is None else self._decode(row.error),
        )
