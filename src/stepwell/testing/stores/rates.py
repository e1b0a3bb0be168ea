"""Rules of start rates: how many runs may be started in a period, by all callers together."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.domain.commit import RunFilter, Started
from stepwell.domain.rates import Full, RatedAnswer, RatedStart, StoredRate, Window
from stepwell.testing.stores.scene import Scene, checked

HOUR = Window("workflow default/order", 3, 3600.0)
MINUTE = Window("user default/ann", 2, 60.0)


async def start(scene: Scene, count: int = 1, *windows: Window) -> RatedAnswer:
    return await scene.store.start_within(
        RatedStart([scene.new_run() for _ in range(count)], windows or (HOUR,))
    )


async def runs(scene: Scene) -> int:
    return len(await scene.store.list_runs(RunFilter(limit=1000)))


class RateRules:
    @pytest.mark.req("K20")
    @checked
    async def test_what_does_not_fit_the_window_is_not_started(self, scene: Scene) -> None:
        for _ in range(3):
            assert not isinstance(await start(scene), Full)
            scene.clock.advance(100.0)

        full = await start(scene)

        assert full == Full(HOUR, 3300.0)
        assert await runs(scene) == 3

    @pytest.mark.req("K20")
    @checked
    async def test_the_window_slides(self, scene: Scene) -> None:
        await start(scene, 1, MINUTE)
        scene.clock.advance(40.0)
        await start(scene, 1, MINUTE)
        answers = [await start(scene, 1, MINUTE)]
        scene.clock.advance(20.0)
        answers += [await start(scene, 1, MINUTE), await start(scene, 1, MINUTE)]

        assert answers[0] == Full(MINUTE, 20.0)
        assert not isinstance(answers[1], Full)
        assert answers[2] == Full(MINUTE, 40.0)
        assert await runs(scene) == 3

    @pytest.mark.req("K20")
    @checked
    async def test_many_are_started_all_or_none_and_counted_in_all_windows_or_none(
        self, scene: Scene
    ) -> None:
        refused = await start(scene, 3, HOUR, MINUTE)
        both = await start(scene, 2, HOUR, MINUTE)
        third = await start(scene, 1, HOUR)

        assert refused == Full(MINUTE, 60.0)
        assert not isinstance(both, Full)
        assert [answer.created for answer in both] == [True, True]
        assert not isinstance(third, Full)
        assert await start(scene, 1, HOUR) == Full(HOUR, 3600.0)

    @pytest.mark.req("K20", "K21")
    @checked
    async def test_a_key_that_has_a_run_counts_nothing_and_is_never_refused(self, scene: Scene) -> None:
        existing = await scene.start(key="k")
        await start(scene, 2)
        answers = []
        for digest in ("same", "other"):
            again = scene.new_run(key="k", digest=digest)
            answers.append(await scene.store.start_within(RatedStart([again], [HOUR])))
        await start(scene)
        full = await start(scene)
        answers.append(await scene.store.start_within(RatedStart([scene.new_run(key="k")], [HOUR])))

        started = [answer[0] for answer in answers if not isinstance(answer, Full)]
        assert full == Full(HOUR, 3600.0)
        assert [(run.run_id, run.created, run.conflict) for run in started] == [
            (existing, False, False),
            (existing, False, True),
            (existing, False, False),
        ]

    @pytest.mark.req("K20", "K6")
    @checked
    async def test_a_start_without_a_key_that_is_repeated_counts_once(self, scene: Scene) -> None:
        new = scene.new_run(key="")
        first = await scene.store.start_within(RatedStart([new], [HOUR]))
        again = await scene.store.start_within(RatedStart([new], [HOUR]))
        await start(scene, 2)

        assert await start(scene) == Full(HOUR, 3600.0)
        assert [Started(new.id, created=True)] == first
        assert [Started(new.id, created=False)] == again

    @pytest.mark.req("K20", "R2")
    @checked
    async def test_many_starters_at_once_never_exceed_it(self, scene: Scene) -> None:
        windows = [Window("workflow default/order", 7, 60.0), Window("user default/ann", 9, 60.0)]

        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(start(scene, 1, *windows[:: 1 if n % 2 else -1])) for n in range(30)]
        full = [task.result() for task in calls if isinstance(task.result(), Full)]

        assert (len(full), await runs(scene)) == (23, 7)

    @pytest.mark.req("K20")
    @checked
    async def test_a_run_that_is_started_so_can_be_claimed(self, scene: Scene) -> None:
        answer = await start(scene)
        assert not isinstance(answer, Full)

        [claim] = await scene.claim_as(await scene.worker())

        assert claim.run_id == answer[0].run_id
        assert [row.kind for row in claim.log] == ["accepted"]

    @pytest.mark.req("T4")
    @checked
    async def test_rates_that_are_set_are_read_until_they_are_dropped(self, scene: Scene) -> None:
        users = StoredRate("user", 60.0, 5, "ann")
        for rate in (StoredRate("workflow", 0.5, None), users, users._replace(limit=7)):
            await scene.store.put_start_rate(rate)

        assert list(await scene.store.read_start_rates()) == [
            StoredRate("user", 60.0, 7, "ann"),
            StoredRate("workflow", 0.5, None),
        ]
        assert not await scene.store.drop_start_rate("user", 61.0)
        assert await scene.store.drop_start_rate("user", 60.0)
        assert [rate.per for rate in await scene.store.read_start_rates()] == ["workflow"]
