"""StoreAccess: how a client and the handles of its runs reach the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from stepwell.client.replay_guard import refuse_in_workflow_code
from stepwell.domain.codec import PLAIN
from stepwell.domain.commit import DEFAULT_WORKSPACE, Definition, Message
from stepwell.domain.ids import Ids
from stepwell.domain.new_run import NO_INPUT, default_of
from stepwell.domain.schema import Schema
from stepwell.domain.text import checked_text
from stepwell.domain.triggers.input import filled
from stepwell.errors import OutcomeUnknown, StoreLocked, StoreUnavailable
from stepwell.store.base import Store
from stepwell.store.wakeups import Notifier

T = TypeVar("T")

_CALLS_MAX = 5


class StoreAccess:
    def __init__(
        self,
        store: Store,
        ids: Ids,
        notifier: Notifier | None = None,
        *,
        workspace: str = DEFAULT_WORKSPACE,
        payload_bytes_max: int = 2 * 1024 * 1024,
    ) -> None:
        self._store = store
        self.ids = ids
        self.notifier = notifier or Notifier()
        self.workspace = checked_text(workspace, "workspace") or DEFAULT_WORKSPACE
        self.payload_bytes_max = payload_bytes_max
        self._schemas: dict[bytes, Schema] = {}

    @property
    def store(self) -> Store:
        refuse_in_workflow_code()
        return self._store

    def token(self) -> str:
        return self.ids.token()

    async def deliver(self, message: Message) -> Any:
        outcome = (await self.call_idempotent(lambda: self.store.deliver([message])))[0]
        self.notifier.notify_work(message.run_id)
        return outcome

    async def call_idempotent(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a write that got no answer. It must carry a key, so that a repeat changes nothing."""
        return (await self.retry_call(call))[0]

    async def retry_call(self, call: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the answer, and whether the call was repeated.

        If it was, an earlier call whose answer was lost may have done the work.
        """
        for attempt in range(_CALLS_MAX):
            try:
                return await call(), attempt > 0
            except StoreLocked:
                raise  # the store has waited as long as a caller should wait
            except (OutcomeUnknown, StoreUnavailable):
                if attempt == _CALLS_MAX - 1:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
        raise AssertionError("unreachable")

    def encode_checked(self, definition: Definition, input: Any) -> bytes:
        """Encode the input, checked against the stored schema: no workflow code is needed."""
        data = PLAIN.encode(input)
        self._check(definition, definition.input_schema, data)
        return data

    def _filled_in(self, definition: Definition, input: Any) -> Any:
        """Return the input of a run whose form a person filled in like this; refuse what does not fit it."""
        manual = definition.manual_trigger
        if manual.form is None and manual.input is None:
            return input
        if input is NO_INPUT:
            input = default_of(manual.form or definition.input_schema)
        if manual.form is not None:
            self._check(definition, manual.form, PLAIN.encode(input))
        if manual.input is None:
            return input
        return filled(msgspec.json.decode(manual.input), {"form": input}, self.payload_bytes_max)

    def _check(self, definition: Definition, schema: bytes, data: bytes) -> None:
        if schema not in self._schemas:
            self._schemas[schema] = Schema(schema.decode())
        self._schemas[schema].check(msgspec.json.decode(data), workflow=definition.name)
