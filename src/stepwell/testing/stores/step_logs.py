"""Rules of the logs of steps."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.domain.fork.run_copy import Removal
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.domain.step_log import NewLogLine
from stepwell.testing.stores.scene import Scene, checked

PAYLOAD = '{"text":"größe"}'.encode()


def line(run_id: str, key: str, *, path: str = "0/pay#1", attempt: int = 1, at: float = 5.0) -> NewLogLine:
    return NewLogLine(RunId(run_id), path, attempt, key, at, PAYLOAD)


class StepLogRules:
    @pytest.mark.req("K38")
    @checked
    async def test_lines_are_read_in_the_order_of_writing(self, scene: Scene) -> None:
        run_id = await scene.start()
        await scene.store.add_log_lines([line(run_id, "b"), line(run_id, "a", at=1.5)])
        await scene.store.add_log_lines([line(run_id, "c", path="0/ship#1")])

        rows = await scene.store.read_log_lines(run_id)

        assert [(row.path, row.attempt, row.key, row.at, row.payload) for row in rows] == [
            ("0/pay#1", 1, "b", 5.0, PAYLOAD),
            ("0/pay#1", 1, "a", 1.5, PAYLOAD),
            ("0/ship#1", 1, "c", 5.0, PAYLOAD),
        ]
        assert sorted({row.n for row in rows}) == [row.n for row in rows]

    @pytest.mark.req("K38")
    @checked
    async def test_lines_are_read_by_step_and_attempt_and_page(self, scene: Scene) -> None:
        run_id = await scene.start()
        await scene.store.add_log_lines([line(run_id, "1"), line(run_id, "2", attempt=2)])
        await scene.store.add_log_lines([line(run_id, "3", path="0/ship#1"), line(run_id, "4", attempt=2)])

        step = await scene.store.read_log_lines(run_id, path="0/pay#1")
        second = await scene.store.read_log_lines(run_id, path="0/pay#1", attempt=2)
        page = await scene.store.read_log_lines(run_id, limit=2)
        rest = await scene.store.read_log_lines(run_id, after=page[-1].n)

        assert [row.key for row in step] == ["1", "2", "4"]
        assert [row.key for row in second] == ["2", "4"]
        assert [row.key for row in page] == ["1", "2"]
        assert [row.key for row in rest] == ["3", "4"]

    @checked
    async def test_a_line_that_is_written_twice_counts_once(self, scene: Scene) -> None:
        run_id = await scene.start()
        await scene.store.add_log_lines([line(run_id, "1")])
        await scene.store.add_log_lines([line(run_id, "1"), line(run_id, "2")])
        await scene.store.add_log_lines([])

        assert [row.key for row in await scene.store.read_log_lines(run_id)] == ["1", "2"]

    @checked
    async def test_lines_of_a_run_that_does_not_exist_are_dropped(self, scene: Scene) -> None:
        run_id = await scene.start()
        await scene.store.add_log_lines([line("unknown", "1"), line(run_id, "2")])

        assert await scene.store.read_log_lines(RunId("unknown")) == []
        assert [row.key for row in await scene.store.read_log_lines(run_id)] == ["2"]

    @checked
    async def test_writers_at_the_same_time_lose_no_line(self, scene: Scene) -> None:
        first, second = await scene.start(), await scene.start()

        async def write(writer: int) -> None:
            for i in range(10):
                both = [line(run_id, f"{writer}/{i}") for run_id in (first, second)]
                await scene.store.add_log_lines(both if writer % 2 else both[::-1])

        async with asyncio.TaskGroup() as group:
            for writer in range(4):
                group.create_task(write(writer))

        for run_id in (first, second):
            rows = await scene.store.read_log_lines(run_id)
            assert sorted(row.key for row in rows) == sorted(f"{w}/{i}" for w in range(4) for i in range(10))

    @pytest.mark.req("K29")
    @checked
    async def test_lines_are_copied_and_deleted_with_their_run(self, scene: Scene) -> None:
        run_id = await scene.failed()
        await scene.store.add_log_lines([line(run_id, "1"), line(run_id, "2", attempt=2)])
        before = await scene.store.read_log_lines(run_id)

        copies = await scene.store.read_tree(run_id)
        removed = await scene.store.remove(run_id)
        gone = await scene.store.read_log_lines(run_id)
        await scene.store.restore(copies)

        assert copies[0].status is Status.FAILED
        assert (removed, gone) == (Removal.REMOVED, [])
        assert await scene.store.read_log_lines(run_id) == before

    @checked
    async def test_lines_of_a_purged_run_are_deleted(self, scene: Scene) -> None:
        run_id = await scene.failed()
        await scene.store.add_log_lines([line(run_id, "1")])
        scene.clock.advance(100.0)
        await scene.store.purge(10.0)

        assert await scene.store.read_log_lines(run_id) == []
