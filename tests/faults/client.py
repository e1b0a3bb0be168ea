"""Client: starts runs of every shape, sends what they wait for, and collects their stories."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from stepwell import Engine, RunEvent, RunHandle, Settings
from stepwell.errors import RunEnded, StoreError
from tests.faults.checks import Evidence, Story, read_ledger
from tests.faults.fleet import Fleet, LedgerProcess
from tests.faults.workload import SHAPES, WORKFLOWS, Shape

T = TypeVar("T")
LOOK_SECONDS = 0.1


class Outside:
    """The users of the engine; they outlive every worker."""

    def __init__(self, engine: Engine, *, spread_seconds: float, seed: int = 1) -> None:
        self._engine = engine
        self._spread = spread_seconds
        self._random = random.Random(seed)
        self.signals: dict[str, list[str]] = {}
        self.started: list[tuple[Shape, int, RunHandle[Any]]] = []

    async def play(self, count: int, *, first: int = 0) -> None:
        """Start `count` runs, shapes in turn, and stay until all have ended."""
        spread = 0.0 if first else self._spread
        async with asyncio.TaskGroup() as group:
            for n in range(first, first + count):
                pause = self._random.random() * spread
                group.create_task(self._one(n, SHAPES[n % len(SHAPES)], pause))

    async def play_shape(self, shape: Shape, numbers: Iterable[int]) -> None:
        async with asyncio.TaskGroup() as group:
            for n in numbers:
                group.create_task(self._one(n, shape, 0.0))

    async def _one(self, n: int, shape: Shape, pause: float) -> None:
        await asyncio.sleep(pause)
        handle = await patiently(lambda: self._engine.start(shape.workflow, n, key=f"{shape.name}-{n}"))
        self.started.append((shape, n, handle))
        match shape.name:
            case "talk":
                await self._signal(handle, "early", 10)
                await self._until_waiting(handle, "late")
                await self._signal(handle, "late", 20)
                await self._signal(handle, "late", 20)  # sent twice: counts once
            case "news":
                await self._until_waiting(handle, "weather")
                await patiently(
                    lambda: self._engine.emit("weather", 5, key=handle.id, id=f"weather-{handle.id}")
                )
            case "stopped":
                await asyncio.sleep(self._random.random())
                await patiently(handle.cancel)
        await _ended(handle)
        # After three lost owners in a row it rightly counts as poison (K33); a person retries it.
        while await self._is_set_aside(handle):
            await patiently(handle.retry)
            await _ended(handle)

    async def _is_set_aside(self, handle: RunHandle[Any]) -> bool:
        async def events() -> list[RunEvent]:
            return [event async for event in handle.events()]

        last = (await patiently(events))[-1]
        text = str(last.data.get("error", ""))
        return last.kind == "failed" and ("WORKER_CRASHED" in text or "workers died" in text)

    async def _signal(self, handle: RunHandle[Any], name: str, value: int) -> None:
        key = f"{name}-{handle.id}"
        try:
            await patiently(lambda: handle.signal(name, value, id=key))
        except RunEnded:
            pass  # repeated after a lost answer: without the first one it would still be waiting
        finally:
            keys = self.signals.setdefault(handle.id, [])
            if f"signal/{key}" not in keys:
                keys.append(f"signal/{key}")

    async def _until_waiting(self, handle: RunHandle[Any], name: str) -> None:
        while not any(wait.name == name for wait in await patiently(handle.waits)):
            if (await patiently(handle.info)).status.terminal:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def stories(self) -> list[Story]:
        """Every run that was started, and its children."""
        expected = {shape.name: shape.expected for shape in SHAPES}
        stories: list[Story] = []
        for shape, n, _ in self.started:
            stories.extend(await collected(self._engine, f"{shape.name}-{n}", shape.expected(n), expected))
        for story in stories:
            story.signals = self.signals.get(story.id, [])
        return stories


async def collected(
    engine: Engine, key: str, expected: Any, children: Mapping[str, Callable[[int], Any]]
) -> list[Story]:
    """The run of that key and its children, from the public history."""
    handle = await engine.find(key)
    assert handle is not None, f"I1 the run of key {key} is gone"
    own = await _story(handle, engine, expected)
    stories = [own]
    for event in own.events:
        if event.kind == "child_started":
            child: RunHandle[Any] = engine.handle(event.data["run"])
            n = next(iter([e async for e in child.events()])).data["input"]
            stories.append(await _story(child, engine, children[event.data["workflow"]](n)))
    return stories


async def _story(handle: RunHandle[Any], engine: Engine, expected: Any) -> Story:
    events = [event async for event in handle.events()]
    info = await handle.info()
    return Story(
        id=handle.id,
        shape=events[0].data["workflow"],
        status=info.status,
        output=None if info.output is None else json.loads(info.output),
        result=events[-1].data.get("result"),
        expected=expected,
        events=events,
        folded=(await handle.state()).status,
        tickets=len(await engine.store.read_tickets(handle.id)),
    )


async def _ended(handle: RunHandle[Any]) -> None:
    async def has_ended() -> bool:
        return (await handle.info()).status.terminal

    await until(has_ended, seconds=math.inf)


async def until(question: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Poll: other processes do not notify us."""
    deadline = time.monotonic() + seconds
    while True:
        if await patiently(question):
            return
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(LOOK_SECONDS)


async def patiently(ask: Callable[[], Awaitable[T]], seconds: float = 60.0) -> T:
    """Retry while the database is away."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await ask()
        except StoreError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Engine]:
    engine = Engine(url, workflows=WORKFLOWS, worker=False, settings=Settings(poll_seconds=1.0))
    async with engine:
        yield engine


async def gathered(outside: Outside, fleet: Fleet, ledger: LedgerProcess) -> Evidence:
    return Evidence(
        stories=await outside.stories(),
        entries=read_ledger(ledger.file),
        faults=fleet.faults,
        identities=fleet.identities(),
        wall_ns=time.time_ns() - time.monotonic_ns(),
    )
