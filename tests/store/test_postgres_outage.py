"""PostgreSQL away, slow to answer, or refusing: nothing is lost, nothing is written twice."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from stepwell.domain.commit import Delivery, Message, Outcome, RunFilter
from stepwell.domain.ids import RunId
from stepwell.errors import InvalidInput, OutcomeUnknown, StoreUnavailable
from stepwell.store.postgres.pool import budget as budget_module
from stepwell.store.postgres.pool import connection as connection_module
from stepwell.store.postgres.pool.budget import ConnectionBudget
from stepwell.store.postgres.pool.connection import ANSWER_SECONDS, ENGINE_SETTINGS
from stepwell.store.postgres.pool.dsn import parse
from stepwell.store.postgres.pool.slots import ConnectionSlots
from stepwell.store.postgres.store import PostgresStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.store_suite import Scene
from tests.engines import until
from tests.store.proxy import Proxy

COMMAND_COMPLETE = b"C\x00\x00\x00"  # of the wire protocol: the statement was executed


@asynccontextmanager
async def scene_of(url: str) -> AsyncIterator[Scene]:
    clock = FakeClock()
    store = PostgresStore(url, clock=clock.time)
    await store.open()
    try:
        yield Scene(store, clock)
    finally:
        await store.close()


def at_work(event: asyncio.Event) -> Callable[[str], None]:
    """Set the event at a hint that there is something to do."""
    return lambda text: None if text else event.set()


def through_proxy(url: str, story: Callable[[Scene, Proxy], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with Proxy(url) as proxy, scene_of(proxy.url) as scene:
            await story(scene, proxy)

    asyncio.run(whole())


@pytest.mark.req("K2", "K3")
def test_commit_whose_answer_was_lost_is_sent_again_and_recognised(postgres_url: str) -> None:
    async def story(scene: Scene, proxy: Proxy) -> None:
        claim = await scene.begun()
        proxy.lose_next_answer(COMMAND_COMPLETE)

        committed = await scene.commit(scene.member(claim, scene.done("a")))

        assert proxy.lost == 1
        assert committed.outcome is Outcome.OK
        assert await scene.kinds(claim.run_id) == ["accepted", "claimed", "step_completed"]

    through_proxy(postgres_url, story)


@pytest.mark.req("K2")
def test_finish_whose_answer_was_lost_delivers_once(postgres_url: str) -> None:
    async def story(scene: Scene, proxy: Proxy) -> None:
        parent = await scene.suspended()
        child = await scene.begun()
        commit = scene.member(
            child,
            scene.completed(),
            then=scene.finish(child),
            deliveries=[scene.signal(parent, "child/a/3")],
        )
        proxy.lose_next_answer(b"COMMIT\x00")

        committed = await scene.commit(commit)

        assert (proxy.lost, committed.outcome) == (1, Outcome.OK)
        assert await scene.inbox_keys(parent) == ["child/a/3"]
        assert (await scene.ticket(parent)).wakes == 1

    through_proxy(postgres_url, story)


@pytest.mark.req("K6")
def test_start_whose_answer_was_lost_says_created(postgres_url: str) -> None:
    async def story(scene: Scene, proxy: Proxy) -> None:
        await scene.start()
        proxy.lose_next_answer(COMMAND_COMPLETE)

        [started] = await scene.store.start([scene.new_run(id="mine")])

        assert (proxy.lost, started.run_id, started.created) == (1, "mine", True)

    through_proxy(postgres_url, story)


@pytest.mark.req("K4")
def test_claim_whose_answer_was_lost_returns_the_same_tickets(postgres_url: str) -> None:
    async def story(scene: Scene, proxy: Proxy) -> None:
        first, second = await scene.start(), await scene.start()
        await scene.claim_as(await scene.worker(), queues=("elsewhere",))
        proxy.lose_next_answer(COMMAND_COMPLETE)

        claims = await scene.claim_as("w1", limit=1)

        assert proxy.lost == 1
        assert [claim.run_id for claim in claims] == [first]
        assert (await scene.ticket(second)).owner == ""

    through_proxy(postgres_url, story)


@pytest.mark.req("K14")
def test_transaction_whose_answer_was_lost_is_recognised_in_the_log(postgres_url: str) -> None:
    async def story(scene: Scene, proxy: Proxy) -> None:
        claim = await scene.begun()

        async def body(connection: asyncpg.Connection) -> None:
            await connection.execute("CREATE TABLE mine AS SELECT 1 AS n")
            proxy.lose_next_answer(b"COMMIT\x00")

        committed = await scene.store.transact(body, lambda _: scene.member(claim, scene.done("tx")))

        assert (proxy.lost, committed.outcome) == (1, Outcome.OK)
        assert await scene.kinds(claim.run_id) == ["accepted", "claimed", "step_completed"]

    through_proxy(postgres_url, story)


@pytest.mark.slow
def test_verb_that_cannot_be_repeated_tells_that_its_outcome_is_unknown(postgres_url: str) -> None:
    async def story(scene: Scene, proxy: Proxy) -> None:
        run_id = await scene.failed()
        proxy.lose_next_answer(b"COMMIT\x00")

        with pytest.raises(OutcomeUnknown):
            await scene.store.retry(run_id)

        assert (await scene.kinds(run_id))[-1] == "retried"

    through_proxy(postgres_url, story)


@pytest.mark.slow
def test_store_that_was_away_is_used_again(postgres_url: str) -> None:
    async def story(scene: Scene, proxy: Proxy) -> None:
        run_id = await scene.start()
        proxy.refusing = True
        proxy.cut()
        with pytest.raises((StoreUnavailable, OutcomeUnknown)):
            await scene.run(run_id)

        proxy.refusing = False

        assert (await scene.run(run_id)).id == run_id

    through_proxy(postgres_url, story)


@pytest.mark.req("K3")
def test_only_the_bad_member_of_a_batch_is_refused(postgres_url: str) -> None:
    async def story() -> None:
        async with scene_of(postgres_url) as scene:
            claims = [await scene.begun() for _ in range(9)]
            batch = [scene.member(claim, scene.done("a")) for claim in claims]
            batch[4].events = [scene.done("a\x00b")]

            outcomes = [committed.outcome for committed in await scene.store.commit(batch)]

            assert outcomes == [Outcome.OK] * 4 + [Outcome.REFUSED] + [Outcome.OK] * 4
            assert await scene.kinds(claims[4].run_id) == ["accepted", "claimed"]

    asyncio.run(story())


def test_only_the_caller_of_the_bad_value_hears_of_it(postgres_url: str) -> None:
    async def story() -> None:
        async with scene_of(postgres_url) as scene:
            run_id = await scene.suspended()

            starts = await asyncio.gather(
                scene.store.start([scene.new_run()]),
                scene.store.start([scene.new_run(key="a\x00b")]),
                scene.store.start([scene.new_run()]),
                return_exceptions=True,
            )
            deliveries = await asyncio.gather(
                scene.deliver(scene.signal(run_id, "a")),
                scene.deliver(scene.signal(run_id, "b\x00")),
                scene.deliver(scene.signal(run_id, "c")),
                return_exceptions=True,
            )

            assert [isinstance(answer, InvalidInput) for answer in starts] == [False, True, False]
            assert isinstance(deliveries[1], InvalidInput)
            assert (deliveries[0], deliveries[2]) == (Delivery.DELIVERED, Delivery.DELIVERED)

    asyncio.run(story())


def test_commit_whose_caller_was_cancelled_is_written_once_by_the_next(postgres_url: str) -> None:
    async def story() -> None:
        async with scene_of(postgres_url) as scene:
            claim = await scene.begun()
            commit = asyncio.create_task(scene.commit(scene.member(claim, scene.done("a"))))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

            commit.cancel()
            await asyncio.gather(commit, return_exceptions=True)

            again = await scene.commit(scene.member(claim, scene.done("a")))
            assert again.outcome is Outcome.OK
            assert await scene.kinds(claim.run_id) == ["accepted", "claimed", "step_completed"]

    asyncio.run(story())


def test_who_gives_up_on_a_server_that_hangs_need_not_wait_for_it(postgres_url: str) -> None:
    async def story(scene: Scene, proxy: Proxy) -> None:
        decision = Message(run_id=RunId("none"), key="k", kind="decide", name="ask", wait="ask")
        await scene.store.deliver([decision])
        proxy.hang_after(b"BEGIN\x00")
        deciding = asyncio.create_task(scene.store.deliver([decision]))
        await until(lambda: proxy.hangs)

        deciding.cancel()
        done, _ = await asyncio.wait({deciding}, timeout=ANSWER_SECONDS / 2)
        proxy.go_on()

        assert done
        assert await scene.store.deliver([decision]) == [Delivery.UNKNOWN]

    through_proxy(postgres_url, story)


def test_cancelled_start_takes_nobody_along(postgres_url: str) -> None:
    async def story() -> None:
        async with scene_of(postgres_url) as scene:
            first = scene.new_run()
            alone = asyncio.create_task(scene.store.start([first]))
            await asyncio.sleep(0)
            others = [asyncio.create_task(scene.store.start([scene.new_run()])) for _ in range(5)]
            await asyncio.sleep(0)

            alone.cancel()

            assert [[s.created for s in await other] for other in others] == [[True]] * 5
            [again] = await scene.store.start([first])
            assert (again.run_id, again.conflict) == (first.id, False)
            assert await scene.kinds(first.id) == ["accepted"]

    asyncio.run(story())


def test_store_closes_after_the_start_that_is_under_way(postgres_url: str) -> None:
    async def story() -> None:
        async with scene_of(postgres_url) as scene:
            run = scene.new_run()
            starting = asyncio.create_task(scene.store.start([run]))
            await asyncio.sleep(0)
        assert starting.done()
        assert [started.created for started in starting.result()] == [True]

    asyncio.run(story())


def test_a_closed_store_connects_no_more_until_it_is_opened(postgres_url: str) -> None:
    async def story() -> None:
        store = PostgresStore(postgres_url)
        await store.open()
        assert await store.read_definition("default", "none", "") is None
        await store.close()

        with pytest.raises(StoreUnavailable, match="the store is closed"):
            await store.read_definition("default", "none", "")

        await store.open()
        assert await store.read_definition("default", "none", "") is None
        await store.close()

    asyncio.run(story())


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # so it is: nobody closed the store
def test_a_store_whose_loop_was_closed_is_opened_in_the_next(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)

    async def story() -> None:
        heard = asyncio.Event()
        await store.open()
        stop = store.listen(at_work(heard))
        async with asyncio.timeout(10):
            await heard.wait()  # it listens
        assert await store.read_run(RunId("none")) is None
        async with scene_of(postgres_url) as other, asyncio.timeout(10):
            heard.clear()
            other.store.hint()
            await heard.wait()
        stop()

    asyncio.run(story())
    asyncio.run(story())
    asyncio.run(closed(store))
    gc.collect()  # what the first loops left, before the next test sees it


async def closed(store: PostgresStore) -> None:
    await store.open()
    await store.close()


def test_who_gives_up_waiting_for_a_connection_holds_up_nobody(postgres_url: str) -> None:
    async def story() -> None:
        lanes = ConnectionSlots(ConnectionBudget(parse(postgres_url), ENGINE_SETTINGS, keeps=1), 1)
        lane = await lanes.take()
        waiting = [asyncio.create_task(lanes.take()) for _ in range(4)]
        await asyncio.sleep(0)

        waiting[0].cancel()  # before it got a slot
        lanes.give_back(lane)
        waiting[1].cancel()  # just when this one got it
        slot = await asyncio.wait_for(waiting[2], 10)
        lanes.give_back(slot)

        assert await asyncio.wait_for(waiting[3], 10) is lane
        lanes.give_back(lane)
        assert await lanes.take() is lane

    asyncio.run(story())


def test_who_was_shared_no_connection_in_time_asks_the_server(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget had made way for another engine and had nothing free: it used to look without a pause."""
    looks = 0

    class Counted(ConnectionBudget):
        async def _shared(self, seconds: float) -> Any:
            nonlocal looks
            looks += 1
            return await super()._shared(seconds)

    async def story() -> None:
        budget = Counted(parse(postgres_url), ENGINE_SETTINGS, keeps=1)
        busy, spare = budget.slots(1), budget.slots(1)
        slots = [busy.pop(), spare[0]]
        for slot in slots:
            await slot.connection()
        assert budget.make_way()

        slots.append(budget.slots(1)[0])
        await slots[-1].connection()

        assert looks == 1
        for slot in slots:
            await slot.close()

    monkeypatch.setattr(budget_module, "SHARE_SECONDS", 0.02)
    asyncio.run(story())


def test_poll_only_works_without_prepared_statements_and_listens_to_nobody(postgres_url: str) -> None:
    async def story() -> None:
        async with scene_of(f"{postgres_url}?poll_only=1") as scene:
            claim = await scene.begun()
            await scene.ok(scene.member(claim, scene.completed(), then=scene.finish(claim)))
            scene.store.hint()

            assert scene.store.polls
            assert (await scene.run(claim.run_id)).status == "completed"

    asyncio.run(story())


@pytest.mark.req("K31")
def test_hint_reaches_other_processes_and_not_oneself(postgres_url: str) -> None:
    async def story() -> None:
        async with scene_of(postgres_url) as here, scene_of(postgres_url) as there:
            heard_there, heard_here = asyncio.Event(), asyncio.Event()
            there.store.listen(at_work(heard_there))
            here.store.listen(at_work(heard_here))
            async with asyncio.timeout(10):  # both are notified once when they begin to listen
                await heard_there.wait()
                await heard_here.wait()
            heard_there.clear()
            heard_here.clear()

            for _ in range(100):
                here.store.hint()

            async with asyncio.timeout(10):
                await heard_there.wait()
            assert not heard_here.is_set()

    asyncio.run(story())


@pytest.mark.slow
def test_listener_connects_again_by_itself(postgres_url: str) -> None:
    async def story(scene: Scene, proxy: Proxy) -> None:
        heard = asyncio.Event()
        scene.store.listen(at_work(heard))
        async with asyncio.timeout(10):
            await heard.wait()
        heard.clear()

        proxy.cut()

        async with scene_of(postgres_url) as other, asyncio.timeout(10):
            await heard.wait()  # notified again, because hints may have been missed
            heard.clear()
            other.store.hint()
            await heard.wait()

    through_proxy(postgres_url, story)


READS: dict[str, Callable[[PostgresStore], Awaitable[Any]]] = {
    "read_log": lambda store: store.read_log(RunId("x")),
    "read_log_end": lambda store: store.read_log_end(RunId("x")),
    "read_run": lambda store: store.read_run(RunId("x")),
    "read_inbox": lambda store: store.read_inbox(RunId("x")),
    "read_tickets": lambda store: store.read_tickets(RunId("x")),
    "read_tree": lambda store: store.read_tree(RunId("x")),
    "find_run": lambda store: store.find_run("default", "x"),
    "list_runs": lambda store: store.list_runs(RunFilter()),
    "list_workers": lambda store: store.list_workers(),
    "read_definition": lambda store: store.read_definition("default", "x"),
    "list_definitions": lambda store: store.list_definitions("default"),
    "read_limits": lambda store: store.read_limits(),
    "read_start_rates": lambda store: store.read_start_rates(),
    "read_schema": lambda store: store.read_schema(),
    "read_queues": lambda store: store.read_queues("", now=0.0),
    "read_lanes": lambda store: store.read_lanes(),
    "read_codec_check": lambda store: store.read_codec_check(),
    "published": lambda store: store.published("x", "", since=0.0),
    "now": lambda store: store.now(),
}


@pytest.mark.req("K16")
@pytest.mark.parametrize("read", READS)
def test_a_read_whose_answer_was_lost_leaves_no_doubt(
    postgres_url: str, read: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wrote nothing: nobody has to ask whether it happened."""
    monkeypatch.setattr(connection_module, "TRIES", 2)

    async def story(scene: Scene, proxy: Proxy) -> None:
        assert isinstance(scene.store, PostgresStore)
        await scene.store.now()
        proxy.refusing = True
        proxy.lose_next_answer(b"\x00")

        with pytest.raises(StoreUnavailable):
            await READS[read](scene.store)

    through_proxy(postgres_url, story)
