"""Functions that cannot be what they are declared as: told where they are written, with what to do."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, Retry, Settings, StartRate, StepContext, SyncContext, step, workflow
from stepwell.errors import InvalidRequest, StepwellError


class Strange:
    """No type that JSON knows."""


async def flow(ctx: Context, input: int) -> int:
    return input


async def stream(ctx: Context) -> AsyncIterator[int]:
    yield 1


def counting(ctx: SyncContext) -> Iterator[int]:
    yield 1


async def several(ctx: Context, a: int, b: int) -> None: ...


async def named_only(ctx: Context, *, a: int) -> None: ...


async def open_ended(*args: int) -> None: ...


async def no_context(order: Strange) -> None: ...


async def steps_context(ctx: StepContext, input: int) -> None: ...


async def sync_context(ctx: SyncContext, input: int) -> None: ...


def async_context(ctx: Context, input: int) -> None: ...


async def takes_strange(ctx: Context, input: Strange) -> None: ...


async def takes_unknown(ctx: Context, input: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # that is the test


class Shop:
    async def sell(self, ctx: Context, input: int) -> None: ...


def plain(x: int) -> int:
    return x


_WORKFLOWS: list[Callable[[], Any]] = [
    lambda: workflow(5),  # type: ignore[call-overload]  # that is the test, here and below
    lambda: workflow(stream),
    lambda: workflow(counting),
    lambda: workflow(several),  # type: ignore[arg-type]
    lambda: workflow(named_only),  # type: ignore[arg-type]
    lambda: workflow(open_ended),
    lambda: workflow(no_context),
    lambda: workflow(steps_context),
    lambda: workflow(sync_context),
    lambda: workflow(async_context),
    lambda: workflow(Shop.sell),  # type: ignore[arg-type]
    lambda: workflow(Shop),  # type: ignore[arg-type]
    lambda: workflow(functools.partial(flow, input=3)),
    lambda: workflow(lambda ctx: 1),
    lambda: workflow(workflow(flow)),
    lambda: workflow(version=2)(flow),  # type: ignore[call-overload]
    lambda: workflow(queue=3)(flow),  # type: ignore[call-overload]
    lambda: workflow(priority="high")(flow),  # type: ignore[call-overload]
    lambda: workflow(priority=10**12)(flow),
    lambda: workflow(concurrency="3")(flow),  # type: ignore[call-overload]
    lambda: workflow(name="half \ud800")(flow),
    lambda: workflow(takes_strange).definition,
    lambda: workflow(takes_unknown).definition,
]

_STEPS: list[Callable[[], Any]] = [
    lambda: step(5),  # type: ignore[call-overload]
    lambda: step(workflow(flow)),
    lambda: step(name=3)(plain),  # type: ignore[call-overload]
    lambda: step(queue=3)(plain),  # type: ignore[call-overload]
    lambda: step(queue="a/b")(plain),
    lambda: step(name="half \udc80")(plain),
    lambda: step(transactional="yes")(plain),  # type: ignore[call-overload]
    lambda: step(transactional=True)(lambda: 1),
    lambda: step(transactional=True, isolation="process")(plain),
    lambda: step(retry=Retry(3, then="place"))(plain),
    lambda: Retry("3"),  # type: ignore[arg-type]
    lambda: Retry(2.5),  # type: ignore[arg-type]
    lambda: Retry(3, jitter="a"),  # type: ignore[arg-type]
    lambda: Retry(3, never=ValueError),  # type: ignore[arg-type]
    lambda: Retry(3, on=("ValueError",)),  # type: ignore[arg-type]
]

_ENGINES: list[Callable[[], Any]] = [
    lambda: Engine(None),  # type: ignore[arg-type]
    lambda: Engine("postgresql:/host/db"),
    lambda: Engine(":memory:", workflows=workflow(flow)),  # type: ignore[arg-type]
    lambda: Engine(":memory:", workflows="flow"),
    lambda: Engine(":memory:", steps=5),  # type: ignore[arg-type]
    lambda: Engine(":memory:", queues="gpu"),
    lambda: Engine(":memory:", queues=[5]),  # type: ignore[list-item]
    lambda: Engine(":memory:", settings={"slots": 3}),  # type: ignore[arg-type]
    lambda: Engine(":memory:", codec=5),  # type: ignore[arg-type]
    lambda: Engine(":memory:", start_rates=[5]),  # type: ignore[list-item]
    lambda: Engine(":memory:", start_rates=StartRate("user", 3)),  # type: ignore[arg-type]
    lambda: Engine(":memory:").__enter__(),
    lambda: Settings(slots="5"),  # type: ignore[arg-type]
    lambda: Settings(slots=1.5),  # type: ignore[arg-type]
    lambda: Settings(payload_bytes_max=None),  # type: ignore[arg-type]
    lambda: Settings(lease_seconds=float("inf")),
]


@pytest.mark.req("F1", "F9")
@pytest.mark.parametrize("wrong", [*_WORKFLOWS, *_STEPS, *_ENGINES])
def test_wrong_declarations_say_what_to_write_instead(wrong: Callable[[], Any]) -> None:
    with pytest.raises(StepwellError) as caught:
        wrong()

    assert isinstance(caught.value, InvalidRequest)
    assert caught.value.hint


@pytest.mark.req("F1")
def test_a_wrong_workflow_is_found_by_its_line() -> None:
    with pytest.raises(InvalidRequest) as caught:
        workflow(no_context)

    line = no_context.__code__.co_firstlineno
    assert f"{__file__}:{line}" in str(caught.value)
    assert "`ctx: Context` before `order: Strange`" in caught.value.hint


@pytest.mark.req("K8")
async def test_a_database_may_be_a_path(tmp_path: Path) -> None:
    async with Engine(tmp_path / "app.db", workflows=[workflow(flow)]) as engine:
        assert await engine.run(workflow(flow), 3) == 3

    assert (tmp_path / "app.db").exists()
