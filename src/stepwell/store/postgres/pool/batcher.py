"""Batcher: sends the calls of many tasks as one statement.

While one batch is under way the next one collects. There is no timer, so a lone call is sent at once. A
cancelled caller does not stop its batch. As long as calls come one after the other, the caller sends the
statement itself, without a task in between: that saves two passes of the event loop. Cancelling that caller
cancels the statement; as with any lost answer, it may have committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from stepwell.errors import InvalidInput
from stepwell.store.postgres.pool.errors import Refused

Q = TypeVar("Q")
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    def __init__(self, send: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], members_max: int) -> None:
        self._send = send
        self._members_max = members_max
        self._waiting: list[tuple[Sequence[Q], asyncio.Future[Sequence[A]]]] = []
        self._task: asyncio.Task[None] | None = None
        self._sequential = True  # the last batch was a single call
        self._direct: asyncio.Future[None] | None = None  # ends when a direct call does

    async def submit(self, questions: Sequence[Q]) -> Sequence[A]:
        if not questions:
            return []
        if self._sequential and self._direct is None and self._task is None:
            return await self._submit_directly(questions)
        answered: asyncio.Future[Sequence[A]] = asyncio.get_running_loop().create_future()
        self._waiting.append((questions, answered))
        if self._direct is None:
            self._begin()
        return await answered

    async def submit_one(self, question: Q) -> A:
        return (await self.submit([question]))[0]

    async def _submit_directly(self, questions: Sequence[Q]) -> Sequence[A]:
        self._direct = asyncio.get_running_loop().create_future()
        try:
            return await self._send(questions)
        except Refused as error:
            raise cannot_hold(error) from error
        finally:
            self._direct.set_result(None)
            self._direct = None
            if self._waiting:
                self._begin()

    def _begin(self) -> None:
        if self._task is None or self._task.done():  # cancelled before it began
            self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._answer(self._next())
        finally:
            self._task = None
            for _, answered in self._waiting:  # not empty only if this task was cancelled
                answered.cancel()
            self._waiting.clear()

    def _next(self) -> list[tuple[Sequence[Q], asyncio.Future[Sequence[A]]]]:
        """Take whole calls up to the maximum, but always one."""
        size = taken = 0
        for questions, _ in self._waiting:
            if taken and size + len(questions) > self._members_max:
                break
            size += len(questions)
            taken += 1
        calls, self._waiting = self._waiting[:taken], self._waiting[taken:]
        self._sequential = taken == 1 and not self._waiting
        return calls

    async def _answer(self, calls: list[tuple[Sequence[Q], asyncio.Future[Sequence[A]]]]) -> None:
        questions = [question for part, _ in calls for question in part]
        try:
            answers = await self._send(questions)
        except Refused as error:
            if len(calls) > 1:  # only the caller with the bad value gets the error
                for call in calls:
                    await self._answer([call])
                return
            _fail(calls, cannot_hold(error))
        except asyncio.CancelledError:
            for _, answered in calls:
                answered.cancel()
            raise
        except Exception as error:
            _fail(calls, error)
        else:
            place = 0
            for part, answered in calls:
                if not answered.done():
                    answered.set_result(answers[place : place + len(part)])
                place += len(part)

    async def close(self) -> None:
        if self._direct is not None:
            await asyncio.wait([self._direct], timeout=30.0)
        if self._task is not None:
            await asyncio.wait([self._task], timeout=30.0)


def cannot_hold(error: Refused) -> InvalidInput:
    return InvalidInput(f"PostgreSQL cannot hold this value: {error}")


def _fail(calls: list[tuple[Sequence[Any], asyncio.Future[Any]]], error: Exception) -> None:
    for _, answered in calls:
        if not answered.done():
            answered.set_exception(error)
