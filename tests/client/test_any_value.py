"""Whatever value a caller gives: an error of ours, short enough to be read, in text that can be printed."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest

from stepwell import Context, Engine, Retry, RunHandle, Settings, StartRate, step, workflow
from stepwell.errors import LENGTH_MAX, StepwellError, excerpt
from tests.engines import Engines

HUGE = "x" * 100_000


def nested(depth: int = 5000) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class Unspeakable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


VALUES: dict[str, Any] = {
    "huge": HUGE,
    "huge in a dict": {"a": HUGE},
    "huge as a key": {HUGE: 1},
    "huge in a list": [HUGE],
    "half a character": "\ud800",
    "NUL": "a\0b",
    "nested": nested(),
    "unspeakable": Unspeakable(),
    "bytes": b"x" * 100_000,
}


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Order:
    colour: Colour


class Model(pydantic.BaseModel):
    n: int


@workflow
async def plain(ctx: Context, n: int) -> int:
    return n


@workflow
async def typed(ctx: Context, order: Order) -> int:
    return 1


@workflow
async def modelled(ctx: Context, order: Model) -> int:
    return 1


Call = Callable[[Engine, RunHandle[int], Any], Awaitable[Any]]


def now(call: Callable[[Any], Any]) -> Call:
    async def later(engine: Engine, run: RunHandle[int], value: Any) -> Any:
        return call(value)

    return later


def option(name: str) -> Call:
    return lambda engine, run, value: engine.start(plain, 1, **{name: value})


def graph(value: Any) -> dict[str, Any]:
    node = {"id": value, "type": value, "data": value, "parentId": value}
    return {"name": value, "nodes": [node], "edges": [{"source": value, "target": value}]}


async def checked(engine: Engine, value: Any) -> None:
    engine.graphs.check(value)


START: Any = Engine.start  # it would mind the types

CALLS: dict[str, Call] = {
    **{f"start({name}=)": option(name) for name in ("key", "user", "delay", "timeout", "priority", "queue")},
    **{f"start({name}=)": option(name) for name in ("tags", "concurrency", "version")},
    "start(name)": lambda engine, run, value: engine.start(value, 1),
    "start(input)": lambda engine, run, value: engine.start(plain, value),
    "start(typed input)": lambda engine, run, value: START(engine, typed, {"colour": value}),
    "start(model)": lambda engine, run, value: START(engine, modelled, {"n": value}),
    "start(by name)": lambda engine, run, value: engine.start("typed", {"colour": value}),
    "start_many(inputs)": lambda engine, run, value: engine.start_many(plain, value),
    "start_many(keys=)": lambda engine, run, value: engine.start_many(plain, [1, 2], keys=value),
    "start_graph": lambda engine, run, value: engine.start_graph(value, {}),
    "start_graph(dict)": lambda engine, run, value: engine.start_graph(graph(value), {}),
    "graphs.check": lambda engine, run, value: checked(engine, value),
    "import_run": lambda engine, run, value: engine.import_run(value),
    "result": lambda engine, run, value: run.result(value),
    "state": lambda engine, run, value: run.state(at=value),
    "events": lambda engine, run, value: anext(run.events(after=value)),
    "document": lambda engine, run, value: run.document(value, version=value),
    "documents": lambda engine, run, value: run.documents(at=value),
    "signal": lambda engine, run, value: run.signal(value),
    "signal(id=)": lambda engine, run, value: run.signal("a", id=value),
    "event": lambda engine, run, value: run.event(value, 1),
    "event(key=)": lambda engine, run, value: run.event("a", 1, key=value),
    "emit": lambda engine, run, value: engine.emit(value, 1),
    "emit(key=)": lambda engine, run, value: engine.emit("a", 1, key=value),
    "decide(path=)": lambda engine, run, value: run.decide(1, path=value),
    "decide(by=)": lambda engine, run, value: run.decide(1, by=value),
    "trigger": lambda engine, run, value: run.trigger(value, value, by=value),
    "find": lambda engine, run, value: engine.find(value),
    "runs(workflow=)": lambda engine, run, value: engine.runs(workflow=value),
    "runs(status=)": lambda engine, run, value: engine.runs(status=value),
    "runs(before=)": lambda engine, run, value: engine.runs(before=value),
    "runs(limit=)": lambda engine, run, value: engine.runs(limit=value),
    "set_limit": lambda engine, run, value: engine.set_limit(value, "a", 1),
    "set_limit(name)": lambda engine, run, value: engine.set_limit("workflow", value, 1),
    "set_limit(limit)": lambda engine, run, value: engine.set_limit("workflow", "a", value),
    "set_limit(hold=)": lambda engine, run, value: engine.set_limit("workflow", "a", 1, hold=value),
    "rerun": lambda engine, run, value: engine.rerun(value),
    "rerun(version=)": lambda engine, run, value: engine.rerun(run, version=value),
    "rerun(input=)": lambda engine, run, value: engine.rerun(run, input=value),
    "rerun_from": lambda engine, run, value: engine.rerun_from(run, value),
    "rerun_from_node": lambda engine, run, value: engine.rerun_from_node(run, value),
    "fork(at=)": lambda engine, run, value: engine.fork(run, at=value),
    "fork(outputs=)": lambda engine, run, value: engine.fork(run, at=1, outputs=value),
    "export": lambda engine, run, value: engine.export(value),
    "handle": lambda engine, run, value: engine.handle(value).info(),
    "library.get": lambda engine, run, value: engine.library.get(value),
    "library.start": lambda engine, run, value: engine.library.start(value),
    "set_start_rate": lambda engine, run, value: engine.set_start_rate(value, 1),
    "set_start_rate(limit=)": lambda engine, run, value: engine.set_start_rate("user", value, seconds=value),
    "drop_start_rate(seconds=)": lambda engine, run, value: engine.drop_start_rate("user", seconds=value),
    "StartRate": now(lambda value: Engine(":memory:", start_rates=[StartRate(value, 1)])),
    "Settings": now(lambda value: Settings(slots=value)),
    "Engine(workflows=)": now(lambda value: Engine(":memory:", workflows=[value])),
    "Engine(queues=)": now(lambda value: Engine(":memory:", queues=[value])),
    "Engine(codec=)": now(lambda value: Engine(":memory:", codec=value)),
    "Engine(settings=)": now(lambda value: Engine(":memory:", settings=value)),
    "Retry": now(Retry),
    "Retry(backoff=)": now(lambda value: Retry(3, backoff=value)),
    "step(name=)": now(lambda value: step(name=value)(lambda: 1)),
    "step(timeout=)": now(lambda value: step(timeout=value)(lambda: 1)),
    "workflow(name=)": now(lambda value: workflow(name=value)(nothing)),
}


async def nothing(ctx: Context) -> None: ...


@pytest.mark.req("K8", "K42")
@pytest.mark.parametrize("what", VALUES)
@pytest.mark.parametrize("call", CALLS)
async def test_any_value_is_refused_in_our_words(memory_engines: Engines, call: str, what: str) -> None:
    async with memory_engines.new(plain, typed, modelled) as engine:
        run = await engine.start(plain, 1)
        await run.result(40)
        try:
            await CALLS[call](engine, run, VALUES[what])
        except StepwellError as error:
            text = str(error)
            text.encode()
            assert "x" * (LENGTH_MAX + 1) not in text
            assert len(text) < 3000


@pytest.mark.req("K8")
@pytest.mark.parametrize("what", VALUES)
def test_an_excerpt_is_short_and_can_be_printed(what: str) -> None:
    shown = excerpt(VALUES[what])

    assert len(shown.encode()) <= LENGTH_MAX
    assert excerpt([1, "two"]) == "[1, 'two']"
    assert excerpt("é\ud800") == "'é\\ud800'"
