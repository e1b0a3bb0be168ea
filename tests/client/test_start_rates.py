"""How many runs may be started in a while, and what happens when that cannot be told."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from stepwell import Context, StartRate, SyncClient, workflow
from stepwell.client.rates import checked_rates
from stepwell.domain.rates import StoredRate
from stepwell.errors import InvalidInput, RateLimited
from stepwell.store.memory import MemoryStore
from tests.engines import Engines


@workflow
async def hello(ctx: Context, name: str) -> str:
    return f"hello {name}"


@pytest.mark.req("K20")
async def test_what_is_too_much_is_refused_before_a_run_is_made(engines: Engines) -> None:
    async with engines.new(hello, start_rates=[StartRate("workflow", 3)]) as engine:
        for name in "abc":
            await engine.start(hello, name)

        with pytest.raises(RateLimited, match="may start 3 runs in 60 s") as error:
            await engine.start(hello, "d")

        assert error.value.code == "RATE_LIMITED"
        assert 0 < error.value.retry_after <= 60
        assert len(await engine.runs()) == 3


@pytest.mark.req("K20")
async def test_all_processes_share_the_windows(engines: Engines) -> None:
    rates = [StartRate("workflow", 3)]
    async with (
        engines.new(hello, start_rates=rates) as one,
        engines.new(hello, start_rates=rates, worker=False) as two,
    ):
        await one.start(hello, "a")
        await two.start_many(hello, ["b", "c"])

        for engine in (one, two):
            with pytest.raises(RateLimited):
                await engine.start(hello, "d")
        assert len(await one.runs()) == 3


@pytest.mark.req("K20", "T4")
async def test_rates_are_changed_while_the_engine_runs(engines: Engines) -> None:
    async with engines.new(hello) as engine:
        await engine.start_many(hello, "abc")
        await engine.set_start_rate("workflow", 1, by="ann")
        await engine.start(hello, "d")
        with pytest.raises(RateLimited):
            await engine.start(hello, "e")
        await engine.set_start_rate("workflow", 2)
        await engine.start(hello, "e")
        assert await engine.start_rates() == [StoredRate("workflow", 60.0, 2)]
        assert await engine.drop_start_rate("workflow")
        assert not await engine.drop_start_rate("workflow")
        await engine.start_many(hello, "fgh")

        assert len(await engine.runs()) == 8


@pytest.mark.req("K20", "T4")
async def test_a_rate_that_was_set_replaces_the_one_that_an_engine_was_given(
    memory_engines: Engines,
) -> None:
    async with memory_engines.new(hello, start_rates=[StartRate("workflow", 1)]) as engine:
        await engine.set_start_rate("workflow", None)
        await engine.start_many(hello, "abc")
        await engine.set_start_rate("workflow", 1, seconds=3600)
        await engine.start(hello, "d")
        with pytest.raises(RateLimited, match="1 runs in 3600 s"):
            await engine.start(hello, "e")
        await engine.drop_start_rate("workflow", seconds=3600)
        await engine.drop_start_rate("workflow")
        await engine.start(hello, "f")
        with pytest.raises(RateLimited, match="1 runs in 60 s"):
            await engine.start(hello, "g")


@pytest.mark.req("K20", "T4")
async def test_other_processes_follow_a_rate_that_was_set(
    durable_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with durable_engines.new(hello) as one, durable_engines.new(hello, worker=False) as two:
        await two.start(hello, "a")  # it has read the rates
        await one.set_start_rate("workflow", 1)
        await one.start(hello, "b")
        monkeypatch.setattr("stepwell.client.rates.RATES_SECONDS", 0.0)
        with pytest.raises(RateLimited):
            await two.start(hello, "c")


@pytest.mark.req("K20", "T4")
async def test_rates_are_read_once_for_many_starts(memory_engines: Engines) -> None:
    engine = memory_engines.new(hello)
    reads = 0
    read = engine.store.read_start_rates

    async def counted() -> Any:
        nonlocal reads
        reads += 1
        return await read()

    async with engine:
        engine.rates._store = SimpleNamespace(read_start_rates=counted)
        await engine.start(hello, "first")
        await asyncio.gather(*(engine.start(hello, str(number)) for number in range(50)))

    assert reads == 1


@pytest.mark.req("K20", "T4")
def test_a_client_without_async_keeps_to_the_rates_too(sqlite: Engines) -> None:
    with SyncClient(engine=sqlite.new(hello)) as client:
        client.set_start_rate("user", 1)
        client.start(hello, "a", by="ann")

        with pytest.raises(RateLimited):
            client.start(hello, "b", by="ann")


@pytest.mark.req("K20")
@pytest.mark.parametrize(
    "wrong",
    [
        {"per": "queue"},
        {"limit": 0},
        {"limit": True},
        {"limit": 2**31},
        {"limit": "5"},
        {"seconds": 0},
        {"seconds": float("inf")},
        {"seconds": float("nan")},
        {"seconds": "60s"},
        {"by": "a\x00"},
    ],
)
async def test_a_rate_that_makes_no_sense_is_not_set(memory_engines: Engines, wrong: Any) -> None:
    async with memory_engines.client() as client:
        with pytest.raises(InvalidInput):
            await client.set_start_rate(**{"per": "user", "limit": 1, **wrong})
        assert await client.start_rates() == []


@pytest.mark.req("K20", "K21")
async def test_a_start_that_is_repeated_counts_once(memory_engines: Engines) -> None:
    async with memory_engines.new(hello, start_rates=[StartRate("workflow", 1)]) as engine:
        first = await engine.start(hello, "a", key="k")

        assert (await engine.start(hello, "a", key="k")).id == first.id
        with pytest.raises(RateLimited):
            await engine.start(hello, "b", key="other")


@pytest.mark.req("K20")
async def test_each_user_has_a_window_and_many_at_once_are_all_or_none(memory_engines: Engines) -> None:
    async with memory_engines.new(hello, start_rates=[StartRate("user", 2)]) as engine:
        await engine.start_many(hello, ["a"], by="ann")
        with pytest.raises(RateLimited, match="user default/ann"):
            await engine.start_many(hello, ["b", "c"], by="ann")
        await engine.start(hello, "d", by="ann")
        await engine.start_many(hello, ["e", "f"], by="bob")
        await engine.start_many(hello, ["g", "h", "i"])

        assert len(await engine.runs()) == 7


async def spoil(engines: Engines) -> None:
    """Nobody can read the windows any more."""
    if isinstance(engines.database, MemoryStore):
        engines.database._windows.update(dict.fromkeys(engines.database._windows, "nonsense"))
    else:
        connection = await asyncpg.connect(str(engines.database))
        await connection.execute("DROP TABLE stepwell.start_windows")
        await connection.close()


@pytest.mark.req("K20")
@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_fault_of_the_limiter_lets_known_callers_start_and_no_others(
    kind: str, memory_engines: Engines, postgres_url: str
) -> None:
    engines = memory_engines if kind == "memory" else Engines("postgres", postgres_url)
    async with engines.new(hello, start_rates=[StartRate("workflow", 1)]) as engine:
        await engine.start(hello, "first")
        await spoil(engines)

        assert await (await engine.start(hello, "ann", by="ann")).result() == "hello ann"
        with pytest.raises(RateLimited, match="the caller has no name"):
            await engine.start(hello, "nobody")
        assert len(await engine.runs()) == 2


@pytest.mark.req("K20")
@pytest.mark.parametrize("rate", [StartRate("workflow", 0), StartRate("workflow", 1, 0)])
def test_a_rate_that_makes_no_sense_is_refused(rate: StartRate) -> None:
    with pytest.raises(InvalidInput, match="is not a start rate"):
        checked_rates([rate])
