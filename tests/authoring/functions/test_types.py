"""Types cross the log and come back the same, on the first run and on replay."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pydantic
import pytest

from stepwell import Context, RunFailed, workflow
from tests.engines import Engines, same, suspended


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Model(pydantic.BaseModel):
    name: str
    when: datetime
    price: Decimal = Decimal("1.50")
    colours: list[Colour] = []


@dataclass
class Line:
    id: uuid.UUID
    colour: Colour
    note: str | None = None


@dataclass
class Order:
    lines: list[Line]
    total: Decimal
    placed: datetime
    raw: bytes
    sizes: tuple[int, ...]
    tags: set[str] = field(default_factory=set)
    model: Model | None = None


NOW = datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC)
MODEL = Model(name="ä", when=NOW, colours=[Colour.BLUE])
ORDER = Order(
    lines=[Line(uuid.UUID(int=7), Colour.RED), Line(uuid.UUID(int=8), Colour.BLUE, "x")],
    total=Decimal("10.10"),
    placed=NOW,
    raw=b"\x00\xff",
    sizes=(1, 2),
    tags={"a", "b"},
    model=MODEL,
)
VALUES: list[tuple[Any, Any]] = [
    (Model, MODEL),
    (Order, ORDER),
    (Colour, Colour.RED),
    (datetime, NOW),
    (date, NOW.date()),
    (timedelta, timedelta(seconds=1.5)),
    (Decimal, Decimal("0.10")),
    (uuid.UUID, uuid.UUID(int=5)),
    (bytes, b"\x00\x01\xfe"),
    (tuple[int, str], (1, "a")),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"x"})),
    (list[Model], [MODEL]),
    (dict[str, Order], {"o": ORDER}),
    (dict[int, Decimal], {1: Decimal("2")}),
    (Model | None, MODEL),
    (Line | Model, MODEL),
    (float, 1.0),
]


@pytest.mark.req("F9", "K5")
@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[str(kind) for kind, _ in VALUES])
async def test_input_result_and_signal_keep_their_type(
    replayed_engines: Engines, kind: Any, value: Any
) -> None:
    seen: list[Any] = []

    async def echo(given: Any) -> Any:
        return given

    echo.__annotations__["return"] = kind

    async def body(ctx: Context, input: Any) -> Any:
        got = await ctx.step(echo, input)
        seen.extend([input, got])
        return await ctx.signal("again", kind)

    body.__annotations__.update({"input": kind, "return": kind, "ctx": Context})
    echoes = workflow(name="echoes")(body)

    async with replayed_engines.new(echoes) as engine:
        run = await engine.start(echoes, value)
        await suspended(run)
        row = await engine.store.read_run(run.id)
        assert row is not None
        import msgspec

        await run.signal("again", msgspec.json.decode(row.input))
        seen.append(await run.result())

    assert len(seen) >= 5
    assert all(same(got, value) for got in seen), seen


@dataclass
class Holder:
    name: str
    things: list[Any]


@pytest.mark.req("F9")
@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, {"b": object()}]}, "a[1].b"),
        ({"a": {"b": {1, 2}}}, "a.b"),
        ([1, (2, 3)], "[1]"),
        (object(), "the value itself"),
        ({"when": NOW}, "when"),
        ({"n": float("nan")}, "n"),
        ({1: "int key"}, "the value itself"),
        ({"c": Colour.RED}, "c"),
        (Holder("x", [object()]), "things[0]"),
    ],
)
async def test_value_that_cannot_be_kept_fails_at_the_step_with_its_path(
    memory_engines: Engines, value: Any, where: str
) -> None:
    async def make() -> Any:
        return value

    @workflow
    async def calls(ctx: Context) -> None:
        await ctx.step(make)

    async with memory_engines.new(calls) as engine:
        run = await engine.start(calls)
        with pytest.raises(RunFailed) as caught:
            await run.result()

    assert where in str(caught.value)
    assert "0/make#1" in str(caught.value)
    assert caught.value.hint


class Word(str):
    """Equal to a str, but not one."""


class Level(enum.StrEnum):
    HIGH = "high"


@pytest.mark.req("F9", "K5")
@pytest.mark.parametrize("value", [Level.HIGH, [Level.HIGH], {"a": Level.HIGH}])
async def test_value_that_would_come_back_as_another_type_is_refused(
    memory_engines: Engines, value: Any
) -> None:
    async def make() -> Any:
        return value

    @workflow
    async def calls(ctx: Context) -> None:
        await ctx.step(make)

    async with memory_engines.new(calls) as engine:
        with pytest.raises(RunFailed, match="Level"):
            await (await engine.start(calls)).result()


@pytest.mark.req("F9")
async def test_result_that_does_not_fit_its_annotation_fails_at_the_step(memory_engines: Engines) -> None:
    async def lies() -> Order:
        return {"lines": [{"id": 1}]}  # type: ignore[return-value]  # that is the test

    @workflow
    async def calls(ctx: Context) -> None:
        await ctx.step(lies)

    async with memory_engines.new(calls) as engine:
        with pytest.raises(RunFailed, match="lines") as caught:
            await (await engine.start(calls)).result()

    assert "0/lies#1" in str(caught.value)


@pytest.mark.req("F9")
async def test_workflow_result_that_cannot_be_kept_fails_the_run_and_retry_goes_on(
    memory_engines: Engines,
) -> None:
    broken = True
    done: list[int] = []

    @workflow
    async def calls(ctx: Context) -> Any:
        await ctx.step(done.append, 1)
        return object() if broken else "fine"

    async with memory_engines.new(calls) as engine:
        run = await engine.start(calls)
        with pytest.raises(RunFailed) as caught:
            await run.result()
        assert caught.value.cause_code == "NOT_SERIALISABLE"
        broken = False
        await run.retry()

        assert await run.result() == "fine"
        assert done == [1]
