"""The lease on a trigger: what is written at the same time as it is renewed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from stepwell import Context, Engine, SourceEvent, source, workflow
from stepwell.domain.triggers.event_runs import TRIGGER, state_of
from stepwell.domain.triggers.trigger import Firing
from stepwell.engine.worker.source_runner import OwnedTrigger
from stepwell.store.memory import MemoryStore
from stepwell.system import SystemClock


class SlowStore(MemoryStore):
    """Writes a trigger only when it is let."""

    def __init__(self) -> None:
        super().__init__(SystemClock().time)
        self.writing, self.let = asyncio.Event(), asyncio.Event()

    async def advance_trigger(self, firing: Firing, *, before: bytes) -> bool:
        self.writing.set()
        await self.let.wait()
        return await super().advance_trigger(firing, before=before)


@workflow
async def answer(ctx: Context, letter: str) -> str:
    return letter


@source
async def inbox(config: None, cursor: Any) -> list[SourceEvent]:
    return []


@pytest.mark.req("T3")
async def test_renewing_a_lease_does_not_bring_an_old_cursor_back() -> None:
    store = SlowStore()
    async with Engine(store, workflows=[answer], sources=[inbox], worker=False) as engine:
        await engine.triggers.create("mail", answer, source="inbox")
        trigger = await store.read_trigger("default", TRIGGER, "mail")
        assert trigger is not None
        owned = OwnedTrigger(store, trigger, 30.0)

        moving = asyncio.create_task(owned.change(lambda state: replace(state, cursor=Raw(b"7"))))
        await store.writing.wait()
        renewing = asyncio.create_task(owned.renew())
        await asyncio.sleep(0)  # it begins while the cursor is being written
        store.let.set()

        assert await moving
        assert await renewing
        after = await store.read_trigger("default", TRIGGER, "mail")

    assert after is not None
    assert bytes(state_of(after).cursor) == b"7"
