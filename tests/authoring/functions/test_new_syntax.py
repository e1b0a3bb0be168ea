"""Workflows in the syntax of Python 3.12: `type X = ...` and `def f[T]`. As text: 3.11 cannot read it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.domain.codec import codec_for
from stepwell.errors import InvalidDefinition, InvalidInput, NotSerialisable
from tests.engines import Engines, suspended

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax of Python 3.12")

SOURCE = """
from dataclasses import dataclass, field
from typing import Any

from stepwell import Context, Machine, StepContext, step, transition, workflow

type Json = dict[str, Json] | list[Json] | str | int | None
type Bag = dict[str, Any]
type Bags = list[Bag]
type Pair[T] = tuple[T, T]
type Endless = Endless
type Missing = list[NotDefined]
type StepCtx = StepContext

@dataclass
class Box[T]:
    content: T
    label: str = ""

type Boxes = list[Box[int]]

@step
def doubled[T](value: T) -> Pair[T]:
    return value, value

@step
async def where(ctx: StepCtx, bag: Bag) -> Bag:
    return bag | {"attempt": ctx.attempt}

@workflow
async def boxed(ctx: Context, boxes: Boxes) -> Pair[Box[int]]:
    bag = await ctx.step(where, {"sum": sum(box.content for box in boxes)})
    one, other = await ctx.step(doubled, bag["sum"])
    return Box(one), Box(other, await ctx.signal("label", Label))

type Label = str

@workflow
async def generic[T](ctx: Context, value: list[T]) -> T:
    return value[0]

@workflow
async def recursive(ctx: Context, value: Json) -> Json:
    return {"got": value}

@dataclass
class Counted:
    got: list[int] = field(default_factory=list)

type State = Counted
type Numbers = list[int]

class Counter(Machine[State]):
    @transition("start", target="end", wait=Numbers)
    async def count(self, ctx: Context, numbers: Numbers) -> None:
        self.state.got = numbers
"""


@pytest.fixture(params=["", "from __future__ import annotations\n"], ids=["objects", "text"])
def code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """A module made of it; annotations are types, or text that must be looked up."""
    (tmp_path / "new_syntax.py").write_text(request.param + SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("new_syntax")
    del sys.modules["new_syntax"]


@pytest.mark.req("F9")
async def test_aliases_are_types_of_inputs_results_and_signals(code: Any, replayed_engines: Engines) -> None:
    async with replayed_engines.new(code.boxed) as engine:
        run = await engine.start(code.boxed, [code.Box(1), code.Box(2)])
        await run.signal("label", "x")

        assert await run.result() == (code.Box(3), code.Box(3, "x"))


@pytest.mark.req("F9")
async def test_a_generic_workflow_takes_json_and_nothing_that_would_change(
    code: Any, memory_engines: Engines
) -> None:
    async with memory_engines.new(code.generic) as engine:
        run = await engine.start(code.generic, [{"a": 1}])

        assert await run.result() == {"a": 1}
        with pytest.raises(NotSerialisable):
            await engine.start(code.generic, [(1, 2)])


@pytest.mark.req("F9")
async def test_an_alias_may_name_itself(code: Any, memory_engines: Engines) -> None:
    async with memory_engines.new(code.recursive) as engine:
        run = await engine.start(code.recursive, {"a": [1, None]})

        assert await run.result() == {"got": {"a": [1, None]}}


@pytest.mark.req("F9")
async def test_a_machine_takes_aliases(code: Any, memory_engines: Engines) -> None:
    async with memory_engines.new(code.Counter) as engine:
        run = await engine.start(code.Counter)
        await suspended(run)
        await run.trigger("count", [1, 2])

        assert await run.result() == code.Counted([1, 2])


@pytest.mark.req("F9")
def test_an_alias_in_an_alias_is_looked_through(code: Any) -> None:
    bags = codec_for(code.Bags)

    assert bags.decode(bags.encode([{"a": [1]}])) == [{"a": [1]}]
    with pytest.raises(NotSerialisable):
        bags.encode([{"a": (1,)}])
    with pytest.raises(InvalidInput):
        bags.encode([1])


@pytest.mark.parametrize("name", ["Endless", "Missing"])
def test_an_alias_that_stands_for_nothing_is_refused_by_name(code: Any, name: str) -> None:
    with pytest.raises(InvalidDefinition, match=name):
        codec_for(getattr(code, name))
