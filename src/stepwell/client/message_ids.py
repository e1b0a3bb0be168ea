"""Message ids: the same id counts once, and only for the same message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from stepwell.client.inbox import read_inbox
from stepwell.client.store_access import StoreAccess
from stepwell.domain.commit import Delivery, Message
from stepwell.domain.events import KIND, Received, read_as
from stepwell.domain.ids import RunId, is_generated
from stepwell.errors import MessageConflict, excerpt

_PAGE = 500


class KnownMessage(NamedTuple):
    """The message that a run has under a key, in its log or still in its inbox."""

    name: str
    payload: bytes


async def was_received(access: StoreAccess, run_id: RunId, key: str) -> bool:
    """Return whether the run has taken a message with that key into its log."""
    return await _in_log(access, run_id, key) is not None


async def check_same(access: StoreAccess, message: Message, outcome: Delivery, id: str) -> None:
    """Refuse a message whose id was already used for another message.

    The run drops such a message because of its key. Only ids that a caller chose are checked, because the
    messages in the log must be read. The inbox is read first: what leaves it meanwhile is in the log
    afterwards.
    """
    if not id or is_generated(id):
        return
    first = await _in_inbox(access, message) if outcome is Delivery.DUPLICATE else None
    first = first or await _in_log(access, message.run_id, message.key)
    if first is None or _same(first, message):
        return
    raise MessageConflict(
        f"the id {excerpt(id)} was used for another message to run {message.run_id}",
        id=id,
        run=message.run_id,
        first=first.name,
    )


def _same(first: KnownMessage, message: Message) -> bool:
    if first.name != message.name:
        return False
    return first.payload == message.payload or (
        msgspec.json.decode(first.payload) == msgspec.json.decode(message.payload)
    )


async def _in_inbox(access: StoreAccess, message: Message) -> KnownMessage | None:
    for row in await read_inbox(access.store, message.run_id):
        if row.key == message.key:
            return KnownMessage(row.name, row.payload)
    return None


async def _in_log(access: StoreAccess, run_id: RunId, key: str) -> KnownMessage | None:
    async for received in _received(access, run_id):
        if received.key == key and not received.rejected:
            return KnownMessage(received.name, bytes(received.payload))
    return None


async def _received(access: StoreAccess, run_id: RunId) -> AsyncIterator[Received]:
    after = 0
    while page := await access.store.read_log(run_id, after=after, limit=_PAGE, kinds=[KIND[Received]]):
        for row in page:
            yield read_as(Received, row, run_id)
        after = page[-1].seq
