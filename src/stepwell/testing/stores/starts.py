"""Rules of start: run, first event and ticket together; the key decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from stepwell.domain.commit import LogRow, NewRun, Started
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.testing.stores.scene import NEEDS, QUEUE, Scene, checked


class StartRules:
    @pytest.mark.req("K1", "K2", "K8")
    @checked
    async def test_start_writes_run_first_event_and_ticket(self, scene: Scene) -> None:
        new = scene.new_run(
            priority=3, tags=b'{"a":1}', trigger="api", test=True, parent="p", parent_path="c"
        )

        answer = await scene.store.start([new])

        now = scene.clock()
        row, ticket = await scene.run(new.id), await scene.ticket(new.id)
        assert answer == [Started(new.id, created=True)]
        assert list(await scene.log(new.id)) == [LogRow(1, "accepted", "", 0, now, new.accepted)]
        assert (row.status, row.key, row.input, row.created_at) == (Status.PENDING, new.key, new.input, now)
        assert (row.workflow, row.version, row.kind, row.workspace) == ("order", "1", "function", "default")
        assert (row.parent, row.root, row.tags, row.trigger, row.test) == (
            "p",
            new.id,
            b'{"a":1}',
            "api",
            True,
        )
        assert (row.output, row.error, row.started_at, row.ended_at, row.where_at) == (
            None,
            None,
            None,
            None,
            "",
        )
        assert (ticket.queue, ticket.needs, ticket.priority, ticket.due_at) == (QUEUE, NEEDS, 3, now)
        assert (ticket.head, ticket.wakes, ticket.losses, ticket.started) == (1, 0, 0, False)
        assert (ticket.owner, ticket.lease, ticket.ending) == ("", "", False)

    @pytest.mark.req("K6", "K21")
    @checked
    async def test_same_key_and_input_is_the_same_run(self, scene: Scene) -> None:
        first = await scene.start(key="k")
        before = await scene.everything()

        answer = await scene.store.start([scene.new_run(key="k")])

        assert answer == [Started(first, created=False, conflict=False)]
        assert await scene.everything() == before

    @pytest.mark.req("K21")
    @checked
    async def test_same_key_and_other_input_is_a_conflict(self, scene: Scene) -> None:
        first = await scene.start(key="k")
        before = await scene.everything()

        answer = await scene.store.start([scene.new_run(key="k", digest="other")])

        assert answer == [Started(first, created=False, conflict=True)]
        assert await scene.everything() == before

    @pytest.mark.req("K21")
    @checked
    async def test_same_key_after_the_end_is_still_the_same_run(self, scene: Scene) -> None:
        run_id = await scene.failed(key="k")

        answer = await scene.store.start([scene.new_run(key="k")])

        assert answer == [Started(run_id, created=False)]
        assert await scene.store.read_tickets(run_id) == []

    @checked
    async def test_keys_belong_to_their_workspace(self, scene: Scene) -> None:
        first = await scene.start(key="k")
        second = await scene.start(key="k", workspace="other")

        assert first != second
        assert await scene.store.find_run("default", "k") == first
        assert await scene.store.find_run("other", "k") == second
        assert await scene.store.find_run("default", "none") is None

    @pytest.mark.req("K6", "K21")
    @checked
    async def test_without_a_key_a_run_is_known_by_its_id(self, scene: Scene) -> None:
        first, second, named = scene.new_run(key=""), scene.new_run(key=""), scene.new_run(key="k")
        once = await scene.store.start([first, named, second])
        before = await scene.everything()

        again = await scene.store.start([second, named, first])
        other = await scene.store.start([replace(first, digest="other")])

        assert [(started.run_id, started.created) for started in once] == [
            (first.id, True),
            (named.id, True),
            (second.id, True),
        ]
        assert again == [Started(run.id, created=False) for run in (second, named, first)]
        assert other == [Started(first.id, created=False, conflict=True)]
        assert await scene.everything() == before
        assert await scene.store.find_run("default", "") is None

    @checked
    async def test_answers_come_in_the_order_asked(self, scene: Scene) -> None:
        existing = await scene.start(key="m")
        runs = [scene.new_run(key=key) for key in ("z", "m", "a", "q", "z")]

        answer = await scene.store.start(runs)

        z, _, a, q, _ = (run.id for run in runs)
        assert [(started.run_id, started.created) for started in answer] == [
            (z, True),
            (existing, False),
            (a, True),
            (q, True),
            (z, False),
        ]

    @checked
    async def test_nothing_to_start_is_no_error(self, scene: Scene) -> None:
        assert list(await scene.store.start([])) == []

    @pytest.mark.req("K21")
    @checked
    async def test_delayed_start_is_not_due_before(self, scene: Scene) -> None:
        run_id = await scene.start(delay=60.0)
        worker = await scene.worker()
        early = await scene.claims(worker)
        scene.clock.advance(60.0)

        late = await scene.claimed_ids(worker)

        assert (list(early.claims), early.next_in) == ([], 60.0)
        assert late == [run_id]

    @pytest.mark.req("K6")
    @checked
    async def test_starts_in_opposite_order_neither_deadlock_nor_double(self, scene: Scene) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = []
            for turn in range(8):
                keys = [f"k{number}" for number in range(20)]
                runs = [scene.new_run(key=key) for key in (keys if turn % 2 else reversed(keys))]
                tasks.append(group.create_task(_started(scene, runs)))

        created = [started.run_id for task in tasks for started in task.result() if started.created]
        assert len(created) == len(set(created)) == 20

    @pytest.mark.req("K6")
    @checked
    async def test_large_calls_at_once_neither_deadlock_nor_double(self, scene: Scene) -> None:
        keys = [f"k{number:03}" for number in range(300)]
        calls = [[scene.new_run(key=key) for key in order] for order in (keys, reversed(keys), keys)]

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_started(scene, runs)) for runs in calls]

        answers = [task.result() for task in tasks]
        created = [started.run_id for answer in answers for started in answer if started.created]
        assert len(created) == len(set(created)) == len(keys)
        for runs, answer in zip(calls, answers, strict=True):
            started_runs = [await scene.run(started.run_id) for started in answer[::50]]
            assert [run.key for run in started_runs] == [run.key for run in runs[::50]]

    @checked
    async def test_unknown_run_reads_as_nothing(self, scene: Scene) -> None:
        nobody = RunId("nobody")

        assert await scene.store.read_run(nobody) is None
        assert list(await scene.store.read_log(nobody)) == []
        assert list(await scene.store.read_tickets(nobody)) == []
        assert list(await scene.store.read_inbox(nobody)) == []


async def _started(scene: Scene, runs: Sequence[NewRun]) -> Sequence[Started]:
    return await scene.store.start(runs)
