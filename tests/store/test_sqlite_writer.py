"""The writer thread: who shares a transaction, and how one bad value hurts nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell import failpoints
from stepwell.domain.commit import Definition, NewEvent, Outcome
from stepwell.domain.ids import RunId
from stepwell.errors import InvalidInput, OutcomeUnknown, StoreUnavailable
from stepwell.store.sqlite.store import SqliteStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.stores.scene import Scene

Play = Callable[[Callable[[Scene, SqliteStore], Awaitable[None]]], None]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Runs a test's coroutine on an open store."""

    def run(test: Callable[[Scene, SqliteStore], Awaitable[None]]) -> None:
        async def whole() -> None:
            clock = FakeClock()
            store = SqliteStore(str(tmp_path / "app.db"), clock=clock)
            await store.open()
            try:
                await test(Scene(store, clock), store)
            finally:
                await store.close()

        asyncio.run(whole())

    return run


@pytest.fixture
def faults() -> Iterator[Callable[[str], None]]:
    """Sets failpoints for one test."""

    def plan(text: str) -> None:
        failpoints.hit = failpoints.parse(text)

    yield plan
    failpoints.hit = None


class Commits:
    """Counts the transactions of a store by its own commit statement."""

    def __init__(self, store: SqliteStore) -> None:
        self.count = 0
        assert store._writer is not None
        session = store._writer._session
        run = session.run

        def counted(name: str, *values: Any) -> None:
            self.count += name == "commit"
            run(name, *values)

        session.run = counted  # type: ignore[method-assign]  # to look, not to change


@pytest.mark.req("K2")
def test_what_waits_shares_one_transaction(play: Play) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()
        other = await scene.start()
        commits = Commits(store)

        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(store.start([scene.new_run()]))
            group.create_task(scene.commit(scene.member(claim, scene.done("a"))))
            group.create_task(scene.deliver(scene.signal(other)))

        assert commits.count <= 3
        assert len(await scene.log(claim.run_id)) == 3
        assert await scene.inbox_keys(other)

    play(test)


@pytest.mark.req("K2")
def test_verbs_of_one_name_in_one_transaction_do_their_own_work(play: Play) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        one, other = [Definition(name=name, version="1", kind="graph", hash=name) for name in ("a", "b")]

        async with asyncio.TaskGroup() as group:
            for _ in range(5):  # the first may be on its way alone
                group.create_task(store.put_definitions([one]))
                swapping = group.create_task(store.swap_definition(other, expected=""))
                group.create_task(store.drop_definitions("default", "c"))

        assert swapping.result()
        assert {definition.name for definition in await store.list_definitions("default")} == {"a", "b"}

    play(test)


@pytest.mark.req("K2", "R7")
@pytest.mark.parametrize(
    "event",
    [
        NewEvent("step_completed", "a\ud800", 1, b"null"),
        NewEvent("step_completed", "a", 1, "text"),  # type: ignore[arg-type]  # meant
        NewEvent("step_completed", "a", 2**70, b"null"),
        NewEvent(None, "a", 1, b"null"),  # type: ignore[arg-type]  # meant
        NewEvent("step_completed", "a", object(), b"null"),  # type: ignore[arg-type]  # meant
    ],
    ids=["surrogate", "text-for-bytes", "large-number", "none", "object"],
)
def test_a_bad_member_is_refused_and_the_others_are_written(play: Play, event: NewEvent) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        for _ in range(5):
            await scene.start()
        claims = await scene.claim_as(await scene.worker())
        batch = [scene.member(claim, scene.claimed(claim)) for claim in claims]
        batch[2] = scene.member(claims[2], scene.claimed(claims[2]), event)

        async with asyncio.TaskGroup() as group:
            committing = group.create_task(store.commit(batch))
            starting = group.create_task(store.start([scene.new_run(id="beside")]))

        outcomes = [committed.outcome for committed in committing.result()]
        assert outcomes == [Outcome.OK, Outcome.OK, Outcome.REFUSED, Outcome.OK, Outcome.OK]
        assert starting.result()[0].created
        assert [len(await scene.log(claim.run_id)) for claim in claims] == [2, 2, 1, 2, 2]
        await scene.ok(scene.member(claims[2], scene.claimed(claims[2])))

    play(test)


@pytest.mark.req("K2", "X9")
def test_a_bad_start_fails_its_own_call_only(play: Play) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        good = [scene.new_run() for _ in range(3)]
        bad = [scene.new_run(), scene.new_run(input="not bytes")]

        answers = await asyncio.gather(
            store.start(good[:1]), store.start(bad), store.start(good[1:]), return_exceptions=True
        )

        assert isinstance(answers[1], InvalidInput)
        assert [await store.read_run(run.id) is not None for run in good] == [True, True, True]
        assert [await store.read_run(run.id) for run in bad] == [None, None]

    play(test)


@pytest.mark.req("X9")
def test_text_with_nul_comes_back_as_it_was(play: Play) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()

        await scene.ok(scene.member(claim, scene.done("a\x00b")))

        assert (await scene.log(claim.run_id))[-1].path == "a\x00b"

    play(test)


@pytest.mark.req("R7")
def test_a_full_disk_writes_nothing_and_it_recovers(play: Play) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()
        before = await scene.everything()
        assert store._writer is not None
        connection = store._writer._session.connection
        connection.pragma("max_page_count", connection.pragma("page_count"))
        large = scene.done("a", b'"' + b"x" * 100_000 + b'"')

        with pytest.raises(StoreUnavailable, match="full"):
            await store.commit([scene.member(claim, large)])
        with pytest.raises(StoreUnavailable, match="full"):
            await store.start([scene.new_run(input=b"x" * 100_000)])

        assert await scene.everything() == before
        connection.pragma("max_page_count", 2**30)
        await scene.ok(scene.member(claim, large))

    play(test)


@pytest.mark.req("R2")
@pytest.mark.parametrize("moment", ["before", "mid"])
def test_a_fault_rolls_back_its_own_call_only(play: Play, faults: Callable[[str], None], moment: str) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()
        faults(f"commit.{moment}=raise")

        answers = await asyncio.gather(
            store.start([scene.new_run(id="beside")]),
            store.commit([scene.member(claim, scene.done("a"))]),
            return_exceptions=True,
        )

        assert isinstance(answers[1], StoreUnavailable)
        assert await store.read_run(RunId("beside")) is not None
        assert len(await scene.log(claim.run_id)) == 2
        await scene.ok(scene.member(claim, scene.done("a")))

    play(test)


@pytest.mark.req("R2", "R6")
@pytest.mark.parametrize("moment", ["after", "ambiguous"])
def test_an_answer_that_got_lost_is_recognised(
    play: Play, faults: Callable[[str], None], moment: str
) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        claim = await scene.begun()
        commit = scene.member(claim, scene.done("a"))
        faults(f"commit.{moment}=raise")

        with pytest.raises(OutcomeUnknown):
            await store.commit([commit])

        assert (await scene.commit(commit)).outcome is Outcome.OK
        assert len(await scene.log(claim.run_id)) == 3

    play(test)


def test_close_does_what_was_asked_before(tmp_path: Path) -> None:
    path = str(tmp_path / "app.db")

    async def first() -> None:
        store = SqliteStore(path)
        await store.open()
        scene = Scene(store, FakeClock())
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(store.start([scene.new_run(id=f"r{number}")]))
            await asyncio.sleep(0)
            group.create_task(store.close())
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.start([scene.new_run()])
        await store.close()

    async def second() -> int:
        store = SqliteStore(path)
        await store.open()
        rows = [await store.read_run(RunId(f"r{number}")) for number in range(50)]
        await store.close()
        return sum(row is not None for row in rows)

    asyncio.run(first())
    assert asyncio.run(second()) == 50


def test_a_cancelled_caller_leaves_the_others_alone(play: Play) -> None:
    async def test(scene: Scene, store: SqliteStore) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await store.start([scene.new_run(id="given-up")])

        assert (await store.start([scene.new_run()]))[0].created
        assert await store.read_run(RunId("given-up")) is not None

    play(test)
