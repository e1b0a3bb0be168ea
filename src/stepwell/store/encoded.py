"""EncodedStore: any store, with a payload codec between it and the engine.

All user values are encoded: payloads, results and errors, progress, tags, the reason of a cancel. Values
that the kernel itself reads (who claimed, which timer) stay plain, as do names, keys, places and times.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from secrets import token_bytes
from typing import Any

from msgspec.structs import replace

from stepwell.domain.commit import (
    DEFAULT_WORKSPACE,
    CancelOutcome,
    Claim,
    ClaimRequest,
    Claims,
    Commit,
    Committed,
    Delivery,
    Finish,
    HoldOutcome,
    InboxRow,
    LogRow,
    Message,
    NewEvent,
    NewRun,
    Outcome,
    PublishedEvent,
    RetryOutcome,
    RunFilter,
    RunRow,
    Started,
    TicketRow,
    WorkflowSwitch,
)
from stepwell.domain.damage import damaged
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.ids import RunId
from stepwell.domain.rates import Full, RatedAnswer, RatedStart
from stepwell.domain.scope_holds import ScopeHold
from stepwell.domain.search import DecidedFilter, DecidedRow, WaitFilter, WaitRow, in_order
from stepwell.domain.step_log import LINES_PAGE, LogLineRow, NewLogLine
from stepwell.domain.triggers.trigger import (
    FIRE_MAX,
    SCHEDULE,
    DueTrigger,
    Fire,
    Fired,
    Firing,
    Trigger,
    TriggerFilter,
)
from stepwell.errors import CodecMissing, SearchRefused, SettingsInvalid, StoreUnusable, excerpt
from stepwell.store.base import PUBLISHED_MAX, Encode, Store
from stepwell.store.codec_check import Secret, agreed
from stepwell.store.encoded_records import EncodedRecords
from stepwell.store.encoded_tags import decoded_tags, encoded_tags
from stepwell.store.payloads import PayloadCodec, hides

# These hold leases, names of steps, paths, keys and seconds. A store reads and writes the first two itself.
PLAIN_KINDS = frozenset(
    {
        "claimed",
        "lease_lost",
        "timer_set",
        "timer_fired",
        "step_started",
        "node_started",
        "suspended",
        "resumed",
        "wait_ended",
        "compensation_completed",
    }
)


def encoded(store: Store, codec: PayloadCodec, *, begins: bool = True) -> Store:
    """Wrap the store in the codec; `begins`: a store that holds plain runs is encoded from now on."""
    if not (hasattr(codec, "encode") and hasattr(codec, "decode")):
        raise SettingsInvalid(f"codec is {excerpt(codec)}", hint="use one from stepwell.store.payloads")
    wrapped: Any = EncodedStore(
        store, codec, begins=begins
    )  # verbs without payloads go straight to the store
    result: Store = wrapped
    return result


def _new_secret() -> bytes:
    return token_bytes(32)


class EncodedStore(EncodedRecords):
    def __init__(
        self,
        store: Store,
        codec: PayloadCodec,
        *,
        begins: bool = True,
        fresh: Callable[[], bytes] = _new_secret,
    ) -> None:
        self._store = store
        self._codec = codec
        self._begins = begins
        self._fresh = fresh
        self._encode: Encode = codec.encode
        self._decode: Encode = codec.decode
        self._secret: Secret | None = None  # None: only payloads are encoded

    async def open(self, *, encoded: bool = False) -> None:
        """Raises CodecMissing if the store was written with another codec or key."""
        await self._store.open(encoded=True)
        try:
            if not self._begins and await self._is_plain():
                self._encode = self._decode = bytes  # it stays plain
                return
            secret = await agreed(self._store, self._codec, self._fresh)
            self._secret = Secret(secret) if hides(self._codec) else None
        except BaseException:
            await self._store.close()
            raise

    async def _is_plain(self) -> bool:
        """True if it holds runs that are not encoded."""
        if await self._store.read_codec_check() is not None:
            return False
        return bool(await self._store.list_runs(RunFilter(limit=1)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    # In

    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        started = await self._store.start([self._run(run) for run in runs])
        started = await self._compared(runs, started)
        return [
            answer if answer.claim is None else answer._replace(claim=self._claim(answer.claim))
            for answer in started
        ]

    async def start_within(self, asked: RatedStart) -> RatedAnswer:
        answer = await self._store.start_within(asked._replace(runs=[self._run(run) for run in asked.runs]))
        return answer if isinstance(answer, Full) else await self._compared(asked.runs, answer)

    async def _compared(self, runs: Sequence[NewRun], started: Sequence[Started]) -> Sequence[Started]:
        """Compare conflicts again with the plain digest, which runs from before masking have."""
        if self._secret is None or not any(answer.conflict for answer in started):
            return started
        again = [replace(self._run(run), digest=run.digest, owner="", lease="") for run in runs]
        return [
            (await self._store.start([run]))[0] if answer.conflict else answer
            for run, answer in zip(again, started, strict=True)
        ]

    def _after(self, encode: Encode) -> Encode:
        """Encode also what a wrapper around this store has encoded."""
        return self._encode if encode is bytes else lambda data: self._encode(encode(data))

    async def cancel(
        self, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
    ) -> CancelOutcome:
        return await self._store.cancel(run_id, reason, by=by, encode=self._after(encode))

    async def force_end(
        self, run_id: RunId, reason: str, *, by: str = "", encode: Encode = bytes
    ) -> CancelOutcome:
        return await self._store.force_end(run_id, reason, by=by, encode=self._after(encode))

    async def hold(
        self, run_id: RunId, *, held: bool = True, by: str = "", reason: str = "", encode: Encode = bytes
    ) -> HoldOutcome:
        return await self._store.hold(run_id, held=held, by=by, reason=reason, encode=self._after(encode))

    async def hold_scope(self, hold: ScopeHold) -> bool:
        return await self._store.hold_scope(hold._replace(reason=self._encode(hold.reason)))

    async def list_holds(self, workspace: str) -> Sequence[ScopeHold]:
        holds = await self._store.list_holds(workspace)
        return [hold._replace(reason=self._decode(hold.reason)) for hold in holds]

    async def read_tickets(self, run_id: RunId) -> Sequence[TicketRow]:
        return [
            row if row.held is None else replace(row, held=self._value(run_id, "held", row.held))
            for row in await self._store.read_tickets(run_id)
        ]

    async def retry(
        self,
        run_id: RunId,
        *,
        needs: str = "",
        undo: bool = False,
        skipped: NewEvent | None = None,
        head: int | None = None,
        by: str = "",
        reason: str = "",
        encode: Encode = bytes,
    ) -> RetryOutcome:
        return await self._store.retry(
            run_id,
            needs=needs,
            undo=undo,
            skipped=skipped,
            head=head,
            by=by,
            reason=reason,
            encode=self._after(encode),
        )

    async def switch(self, switch: WorkflowSwitch) -> bool:
        return await self._store.switch(switch._replace(reason=self._encode(switch.reason)))

    async def list_switches(self, workspace: str) -> Sequence[WorkflowSwitch]:
        switches = await self._store.list_switches(workspace)
        return [switch._replace(reason=self._decode(switch.reason)) for switch in switches]

    async def put_trigger(self, trigger: Trigger, *, expected: int) -> bool:
        row = replace(
            trigger,
            start=self._encode(trigger.start),
            paused=self._maybe(trigger.paused),
            state=self._encode(trigger.state),
        )
        return await self._store.put_trigger(row, expected=expected)

    async def read_trigger(self, workspace: str, type: str, name: str) -> Trigger | None:
        row = await self._store.read_trigger(workspace, type, name)
        return None if row is None else self._trigger(row)

    async def list_triggers(self, filter: TriggerFilter) -> Sequence[Trigger]:
        return [self._trigger(row) for row in await self._store.list_triggers(filter)]

    def _trigger(self, row: Trigger) -> Trigger:
        paused = None if row.paused is None else self._decode(row.paused)
        return replace(row, start=self._decode(row.start), paused=paused, state=self._decode(row.state))

    async def read_fan_out(self, claim: Claim) -> PublishedEvent | None:
        event = await self._store.read_fan_out(claim)
        return None if event is None else event._replace(payload=self._decode(event.payload))

    async def advance_trigger(self, firing: Firing, *, before: bytes) -> bool:
        row = await self._store.read_trigger(*firing.trigger.place)
        expected = self._encode(before)
        if row is not None and self._decode(row.state) == before:
            expected = row.state  # written with another key, or before there was a codec
        return await self._store.advance_trigger(self._firing(firing, firing.trigger), before=expected)

    def _firing(self, firing: Firing, trigger: Trigger) -> Firing:
        """Encode what a firing writes. A store itself only reads the key by which the trigger is found."""
        runs = [self._run(run) for run in firing.runs]
        return firing._replace(trigger=trigger, runs=runs, state=self._encode(firing.state))

    async def fire_due(
        self, fire: Fire, *, type: str = SCHEDULE, match: str = "", limit: int = FIRE_MAX
    ) -> Fired:
        def encoded_fire(due: Sequence[DueTrigger], now: float) -> list[Firing]:
            plain = [each._replace(trigger=self._trigger(each.trigger)) for each in due]
            return [
                self._firing(firing, each.trigger) for each, firing in zip(due, fire(plain, now), strict=True)
            ]

        return await self._store.fire_due(encoded_fire, type=type, match=match, limit=limit)

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
        encoded = replace(run, accepted=self._encode(run.accepted), input=self._encode(run.input))
        if self._secret is None:
            return encoded
        return replace(
            encoded,
            tags=encoded_tags(run.tags, self._secret, self._encode),
            digest=self._secret.masked(run.digest, run.identity),
        )

    def _message(self, message: Message) -> Message:
        return replace(message, payload=self._encode(message.payload))

    def _commit(self, commit: Commit) -> Commit:
        then = commit.then
        if isinstance(then, Finish):
            words = then.words if self._secret is None else ()  # they would reveal what the error hides
            then = replace(then, output=self._maybe(then.output), error=self._maybe(then.error), words=words)
        return replace(
            commit,
            events=[self._event(event) for event in commit.events],
            starts=[self._run(run) for run in commit.starts],
            deliveries=[self._message(message) for message in commit.deliveries],
            then=then,
        )

    def _event(self, event: NewEvent) -> NewEvent:
        return event if event.kind in PLAIN_KINDS else replace(event, payload=self._encode(event.payload))

    def _maybe(self, data: bytes | None) -> bytes | None:
        return None if data is None else self._encode(data)

    async def add_log_lines(self, lines: Sequence[NewLogLine]) -> None:
        await self._store.add_log_lines([line._replace(payload=self._encode(line.payload)) for line in lines])

    async def restore(self, copies: Sequence[RunCopy], *, starts: bool = False) -> Sequence[Started]:
        return await self._store.restore([self._restored(copy) for copy in copies], starts=starts)

    def _restored(self, copy: RunCopy) -> RunCopy:
        encode = self._encode
        if self._secret is not None:
            copy = replace(
                copy,
                tags=encoded_tags(copy.tags, self._secret, encode),
                digest=self._secret.masked(copy.digest, copy.identity),
                words=(),
            )
        return replace(
            copy,
            input=encode(copy.input),
            output=self._maybe(copy.output),
            error=self._maybe(copy.error),
            log=[
                row if row.kind in PLAIN_KINDS else row._replace(payload=encode(row.payload))
                for row in copy.log
            ],
            tickets=[ticket._replace(held=self._maybe(ticket.held)) for ticket in copy.tickets],
            inbox=[row._replace(payload=encode(row.payload)) for row in copy.inbox],
            lines=[row._replace(payload=encode(row.payload)) for row in copy.lines],
        )

    # Out

    async def read_tree(self, run_id: RunId, *, children: bool = True) -> Sequence[RunCopy]:
        return [self._copied(copy) for copy in await self._store.read_tree(run_id, children=children)]

    def _copied(self, copy: RunCopy) -> RunCopy:
        decode = partial(self._value, copy.id)
        digest = copy.digest
        if self._secret is not None:
            digest = self._secret.unmasked(digest, copy.identity)
        return replace(
            copy,
            input=decode("input", copy.input),
            output=None if copy.output is None else decode("output", copy.output),
            error=None if copy.error is None else decode("error", copy.error),
            tags=self._tags(copy.id, copy.tags),
            digest=digest,
            log=[self._log_row(copy.id, row) for row in copy.log],
            tickets=[
                ticket if ticket.held is None else ticket._replace(held=decode("held", ticket.held))
                for ticket in copy.tickets
            ],
            inbox=[self._inbox_row(copy.id, row) for row in copy.inbox],
            lines=[self._line(copy.id, row) for row in copy.lines],
        )

    async def claim(self, request: ClaimRequest) -> Claims:
        answer = await self._store.claim(request)
        return answer._replace(claims=[self._claim(claim) for claim in answer.claims])

    def _claim(self, claim: Claim) -> Claim:
        """Leave undecodable rows as they are: reading them reports the run, not the claim, as damaged."""
        return claim._replace(
            log=[row._replace(payload=self._if_possible(row.payload)) for row in claim.log],
            inbox=[row._replace(payload=self._if_possible(row.payload)) for row in claim.inbox],
        )

    def _if_possible(self, data: bytes) -> bytes:
        try:
            return self._decode(data)
        except Exception:
            return data

    async def read_log(
        self,
        run_id: RunId,
        *,
        after: int = 0,
        limit: int = 1000,
        bytes_max: int | None = None,
        kinds: Sequence[str] = (),
        path: str = "",
    ) -> Sequence[LogRow]:
        rows = await self._store.read_log(
            run_id, after=after, limit=limit, bytes_max=bytes_max, kinds=kinds, path=path
        )
        return [self._log_row(run_id, row) for row in rows]

    async def read_log_end(self, run_id: RunId, *, count: int = 1) -> Sequence[LogRow]:
        return [self._log_row(run_id, row) for row in await self._store.read_log_end(run_id, count=count)]

    async def read_inbox(self, run_id: RunId, *, after: int = 0) -> Sequence[InboxRow]:
        return [self._inbox_row(run_id, row) for row in await self._store.read_inbox(run_id, after=after)]

    async def read_log_lines(
        self, run_id: RunId, *, path: str = "", attempt: int = 0, after: int = 0, limit: int = LINES_PAGE
    ) -> Sequence[LogLineRow]:
        rows = await self._store.read_log_lines(run_id, path=path, attempt=attempt, after=after, limit=limit)
        return [self._line(run_id, row) for row in rows]

    def _line(self, run_id: RunId, row: LogLineRow) -> LogLineRow:
        return row._replace(payload=self._value(run_id, f"line {row.n} of its log", row.payload))

    async def published(
        self,
        name: str,
        key: str,
        *,
        since: float,
        limit: int = PUBLISHED_MAX,
        workspace: str = DEFAULT_WORKSPACE,
    ) -> Sequence[PublishedEvent]:
        events = await self._store.published(name, key, since=since, limit=limit, workspace=workspace)
        return [event._replace(payload=self._decode(event.payload)) for event in events]

    async def read_run(self, run_id: RunId) -> RunRow | None:
        row = await self._store.read_run(run_id)
        return None if row is None else self._run_row(row)

    async def list_runs(self, filter: RunFilter) -> Sequence[RunRow]:
        if self._secret is None or not (filter.tags or filter.words):
            return [self._run_row(row) for row in await self._store.list_runs(filter)]
        if filter.words:
            raise SearchRefused("errors are encrypted in this database, so their words cannot be found")
        marks = tuple(self._secret.mark("tag", name, value) for name, value in filter.tags)
        rows = await self._store.list_runs(replace(filter, tags=(), marks=marks))
        older = await self._store.list_runs(filter)  # tags written before there was a codec are plain
        return [self._run_row(row) for row in in_order([*rows, *older], filter)[: filter.limit]]

    async def list_waits(self, filter: WaitFilter) -> Sequence[WaitRow]:
        rows = await self._store.list_waits(filter)
        return [
            row._replace(
                opened=row.opened and self._decode(row.opened),
                reassigned=row.reassigned and self._decode(row.reassigned),
            )
            for row in rows
        ]

    async def list_decided(self, filter: DecidedFilter) -> Sequence[DecidedRow]:
        rows = await self._store.list_decided(filter)
        return [
            row._replace(
                opened=row.opened and self._decode(row.opened),
                end=row.end and self._decode(row.end),
                received=row.received and self._decode(row.received),
            )
            for row in rows
        ]

    def _log_row(self, run_id: RunId, row: LogRow) -> LogRow:
        try:
            return row._replace(payload=self._decode(row.payload))
        except CodecMissing as error:
            error.context |= {"run": run_id, "seq": row.seq}
            raise
        except Exception as error:
            raise damaged(row, error, run_id) from error

    def _inbox_row(self, run_id: RunId, row: InboxRow) -> InboxRow:
        return row._replace(payload=self._value(run_id, f"message {row.key}", row.payload))

    def _run_row(self, row: RunRow) -> RunRow:
        decode = partial(self._value, row.id)
        return replace(
            row,
            input=decode("input", row.input),
            output=None if row.output is None else decode("output", row.output),
            error=None if row.error is None else decode("error", row.error),
            tags=self._tags(row.id, row.tags),
        )

    def _tags(self, run_id: RunId, tags: bytes) -> bytes:
        return self._value(run_id, "tags", tags, lambda data: decoded_tags(data, self._decode))

    def _value(self, run_id: RunId, what: str, data: bytes, decode: Encode | None = None) -> bytes:
        try:
            return (decode or self._decode)(data)
        except StoreUnusable as error:
            error.context |= {"run": run_id, "value": what}
            raise
        except Exception as error:
            raise StoreUnusable(
                f"a value cannot be decoded: {error}",
                hint="restore it from a backup",
                run=run_id,
                value=what,
            ) from error
