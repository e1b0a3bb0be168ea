"""Broadcast events: published once, to every run of a workspace that waits for them."""

from __future__ import annotations

from typing import Any

from stepwell.client.store_access import StoreAccess
from stepwell.domain.codec import encoded_by_type, limited
from stepwell.domain.commit import PublishedEvent
from stepwell.domain.hops import hops_here
from stepwell.domain.messages import event_id
from stepwell.domain.text import checked_text
from stepwell.errors import excerpt


async def publish(access: StoreAccess, name: str, payload: Any, *, key: str, id: str, by: str) -> bool:
    """Publish an event; False: one with this id was published before."""
    checked_text(name, "name")
    data = limited(encoded_by_type(payload), f"event {excerpt(name)}", access.payload_bytes_max)
    event = PublishedEvent(
        event_id(access.workspace, checked_text(id, "id") or access.ids.token()),
        name,
        checked_text(key, "key"),
        data,
        0.0,
        access.workspace,
        checked_text(by, "by"),
        hops_here.get(),
    )
    fresh = await access.call_idempotent(lambda: access.store.emit(event))
    access.notifier.notify_work()
    return fresh
