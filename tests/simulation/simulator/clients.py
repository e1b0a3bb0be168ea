"""Clients: each starts a run, does what its shape's script says, and waits for the end.

They repeat calls that were not answered, always with the same key, and record what was acknowledged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from stepwell.client import Client
from stepwell.client.handle import RunHandle
from stepwell.domain.commit import RunRow
from stepwell.domain.documents import Documents
from stepwell.domain.state import fold
from stepwell.domain.status import Status
from stepwell.errors import AlreadyDecided, Conflict, NotRetryable, RunEnded, StoreError, WrongPlace
from tests.simulation.checker.evidence import Operated, Seen, Sent, Wanted
from tests.simulation.simulator import changes, operators
from tests.simulation.simulator.shapes import Shape

T = TypeVar("T")
_LOOK_SECONDS = 0.8
_RETRIES_MAX = 12
_STARTS_MAX = 40  # how often to check whether a worker has started the run
_START_LOOK_SECONDS = 0.05

StartAtWork = Callable[[Any, Any, str], "asyncio.Task[Any] | None"]


class SimulatedClients:
    def __init__(self, client: Client, rng: random.Random, start_at_work: StartAtWork) -> None:
        self._client = client
        self._start_at_work = start_at_work
        self._rng = rng
        self.accepted: list[str] = []
        self.wanted: dict[str, Wanted] = {}
        self.signals: list[Sent] = []
        self.decisions: list[Sent] = []
        self.operated: list[Operated] = []
        self.seen: dict[str, list[str]] = {}
        self.looks: list[Seen] = []
        self.operations = 0
        self.busy = 0
        self.healed = False  # from here on the store must answer everything
        self.refused: list[str] = []

    async def use(self, shape: Shape, number: int) -> None:
        """The whole life of one run, seen from its client."""
        self.busy += 1
        await asyncio.sleep(self._rng.choice((0.0, 0.5, 4.0)) * self._rng.random())
        plan = shape.input(self._rng)
        key = f"{shape.workflow.definition.name}-{number}"
        if self._rng.random() < 0.5:
            await self._ask_a_worker(shape, plan, key)
        handle = await self._surely(lambda: self._client.start(shape.workflow, plan, key=key))
        self.accepted.append(handle.id)
        self.wanted[handle.id] = shape.wanted(plan)
        await getattr(self, f"_{shape.script}")(handle, plan)
        self.busy -= 1

    async def _ask_a_worker(self, shape: Shape, plan: dict[str, Any], key: str) -> None:
        """Let a worker start the run: it then owns the run. It may die while doing so."""
        begun = self._start_at_work(shape.workflow, plan, key)
        for _ in range(_STARTS_MAX):
            if begun is None or begun.done():
                break
            await asyncio.sleep(_START_LOOK_SECONDS)

    async def _surely(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            self.operations += 1
            healed = self.healed  # a call sent before that may still be refused
            try:
                return await ask()
            except StoreError as error:
                if healed:
                    self.refused.append(error.message)
                await asyncio.sleep(0.3)

    async def _ended(self, handle: RunHandle[Any]) -> RunRow:
        """Read its status periodically until it has ended."""
        seen = self.seen.setdefault(handle.id, [])
        while True:
            row = await self._surely(handle.info)
            if not seen or seen[-1] != row.status:
                seen.append(str(row.status))
            if row.status.terminal:
                return row
            await asyncio.sleep(_LOOK_SECONDS)

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.choice((0.0, 0.1, 1.0, 3.0)) * self._rng.random())

    # Scripts

    async def _wait(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        """Wait until it has ended; an operator retries a run that lost too many workers."""
        for _ in range(_RETRIES_MAX):
            row = await self._ended(handle)
            if row.status is not Status.FAILED or not _crashed(row):
                return
            await self._retry_once(handle)

    async def _retry_once(self, handle: RunHandle[Any]) -> None:
        try:
            await self._surely(handle.retry)
        except NotRetryable:
            pass  # the first, unanswered one was executed

    async def _signals(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        surplus = self._rng.choice((0, 0, 1))
        for number in range(plan["n"] + surplus):
            await self._pause()
            if not await self._signal(handle, "go", number):
                break
        await self._wait(handle, plan)

    async def _signal(self, handle: RunHandle[Any], name: str, value: Any) -> bool:
        id = self._client.token()
        try:
            await self._surely(lambda: handle.signal(name, value, id=id))
        except RunEnded:
            return False
        self.signals.append(Sent(handle.id, f"signal/{id}", name))
        return True

    async def _both(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        await self._pause()
        await self._signal(handle, "other", "other")
        await self._pause()
        await self._signal(handle, "go", 0)
        await self._wait(handle, plan)

    async def _two_signals(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        """Often send them close together: then they, and due timers, come with one claim."""
        names = self._rng.sample(("a", "b"), 2)
        await asyncio.sleep(self._rng.choice((0.0, 1.0)) * plan["seconds"])
        for name in names:
            await self._signal(handle, name, name)
            if self._rng.random() < 0.3:
                await self._pause()
        await self._wait(handle, plan)

    async def _pester(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        """Signals that nobody waits for, until it has ended."""
        for number in range(40):
            if not await self._signal(handle, "late", number):
                break
            await asyncio.sleep(0.1 * self._rng.random())
        await self._wait(handle, plan)

    async def _go_and_cancel(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        for number in range(self._rng.randint(0, 3)):
            await self._pause()
            await self._signal(handle, "go", number)
        await self._cancel(handle, plan)

    async def _events(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        await self._pause()
        number, row = 0, await self._surely(handle.info)
        while not row.status.terminal:
            id = f"{plan['key']}-{number}"
            await self._surely(
                lambda id=id: self._client.emit("news", f"news {id}", key=plan["key"], id=id)  # type: ignore[misc]  # bound
            )
            number += 1
            # Far apart: a run that takes the second although the first was for it is caught.
            await asyncio.sleep(30.0)
            row = await self._surely(handle.info)
        await self._wait(handle, plan)

    async def _bursts(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        """Events close together, under several keys, from the start until it has ended."""
        number, name = 0, plan["name"]
        while True:
            row = await self._surely(handle.info)
            if row.status is Status.FAILED and _crashed(row):
                await self._retry_once(handle)
            elif row.status.terminal:
                return await self._wait(handle, plan)
            for _ in range(self._rng.randint(1, 4)):
                key, id = self._rng.choice("aab"), f"{number % 3}-{name}-{number}"
                await self._surely(partial(self._client.emit, name, number, key=key, id=id))
                number += 1
            await self._pause()

    async def _approvals(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        answered = 0
        while answered < plan["n"]:
            await self._pause()
            try:
                await self._surely(lambda answer=answered: handle.decide(answer))  # type: ignore[misc]  # bound
                answered += 1
                continue
            except RunEnded:
                break
            except AlreadyDecided:
                pass  # not open yet, or open and answered by a decision whose answer was lost
            answered = max(answered, await self._questions_answered(handle))
            await asyncio.sleep(0.3)
        await self._wait(handle, plan)

    async def _decides(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        await changes.decide(self, handle, plan)

    async def _holds(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        await operators.hold(self, handle, plan)

    async def _forces(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        await operators.force(self, handle, plan)

    async def _skips(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        await operators.skip(self, handle, plan)

    async def _sets_variables(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        await operators.set_variables(self, handle, plan)

    async def _questions_answered(self, handle: RunHandle[Any]) -> int:
        rows = await self._surely(lambda: self._client.store.read_log(handle.id))
        return sum(row.kind == "wait_ended" for row in rows)

    async def _retry(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        """It fails until it has been retried often enough."""
        for _ in range(_RETRIES_MAX):
            row = await self._ended(handle)
            if row.status is not Status.FAILED:
                return
            await self._pause()
            await self._retry_once(handle)

    async def _triggers(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        """Trigger repeatedly and look at the state; the first trigger that fits counts."""
        for _ in range(400):
            await self._pause()
            await self._look(handle)
            row = await self._surely(handle.info)
            if row.status.terminal and not (row.status is Status.FAILED and _crashed(row)):
                break
            if row.status is Status.FAILED:
                await self._retry_once(handle)
            try:
                await self._surely(lambda: handle.trigger("approve", "ana", by="ana"))
            except (AlreadyDecided, WrongPlace, RunEnded):
                pass
        await self._wait(handle, plan)
        await self._look(handle)

    async def _look(self, handle: RunHandle[Any]) -> None:
        """Record the state and the documents as a reader sees them at one moment."""
        events = await self._surely(handle._events)
        checkpoint = fold(events).checkpoint
        if checkpoint is not None:
            documents = Documents()
            for event in events:
                documents.take(event)
            visible = tuple(sorted(document.id for document in documents.latest.values()))
            state = msgspec.json.decode(checkpoint.state)
            self.looks.append(Seen(handle.id, checkpoint.version, checkpoint.place, state, visible))

    async def _cancel(self, handle: RunHandle[Any], plan: dict[str, Any]) -> None:
        await self._pause()
        for _ in range(_RETRIES_MAX):
            await self._surely(lambda: handle.cancel("enough"))
            row = await self._ended(handle)
            if row.status is not Status.FAILED:
                return
            try:
                await self._retry_once(handle)
            except Conflict:
                continue


def _crashed(row: RunRow) -> bool:
    """It failed only because its workers died (or those of a child)."""
    text = (row.error or b"").decode()
    return bool(text) and ("workers died" in text or msgspec.json.decode(text)["code"] == "WORKER_CRASHED")
