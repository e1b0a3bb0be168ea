"""Rules of the codec check: how a store knows that its payloads are encoded."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.domain.events import Cancelled, read
from stepwell.errors import CodecMissing
from stepwell.testing.stores.scene import Scene, checked


def reversed_bytes(data: bytes) -> bytes:
    return data[::-1]


class EncodingRules:
    @pytest.mark.req("K42")
    @checked
    async def test_of_several_first_checks_one_is_kept(self, scene: Scene) -> None:
        assert await scene.store.read_codec_check() is None

        async with asyncio.TaskGroup() as group:
            put = [
                group.create_task(scene.store.write_codec_check(value, expected=None))
                for value in (b"\x00one", b"\x00two")
            ]
        assert sorted(task.result() for task in put) == [False, True]

        stored = await scene.store.read_codec_check()
        assert stored in (b"\x00one", b"\x00two")
        assert not await scene.store.write_codec_check(b"three", expected=b"other")
        assert await scene.store.read_codec_check() == stored
        assert await scene.store.write_codec_check(b"three", expected=stored)
        assert await scene.store.read_codec_check() == b"three"

    @pytest.mark.req("K42")
    @checked
    async def test_an_encoded_store_opens_only_for_those_with_a_codec(self, scene: Scene) -> None:
        run_id = await scene.start()
        await scene.store.write_codec_check(b"", expected=None)
        await scene.store.close()

        with pytest.raises(CodecMissing):
            await scene.store.open()
        await scene.store.open(encoded=True)

        assert await scene.store.read_run(run_id) is not None

    @pytest.mark.req("K42")
    @checked
    async def test_the_reason_to_cancel_is_kept_as_it_was_encoded(self, scene: Scene) -> None:
        claim = await scene.begun()
        fresh = await scene.start()

        for run_id in (fresh, claim.run_id):
            await scene.store.cancel(run_id, "why", encode=reversed_bytes)

        last = (await scene.store.read_log_end(fresh))[0]
        fact = read(last._replace(payload=reversed_bytes(last.payload))).fact
        assert isinstance(fact, Cancelled)
        assert fact.reason == "why"
        assert [row.payload for row in await scene.store.read_inbox(claim.run_id)] == [b'"yhw"']
