"""Child: a started child as workflow code has it. Its end is asked for once, whoever awaits it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from stepwell.domain.ids import RunId
from stepwell.domain.program import Startable
from stepwell.engine.calls import Call, ResultCall
from stepwell.engine.journal import result_path
from stepwell.engine.turns import TurnLoop
from stepwell.errors import AskedWrongly, StepError


class Child:
    """`await child` gives its result, as often as it is awaited."""

    def __init__(
        self,
        turns: TurnLoop,
        answer: Callable[[Call], Awaitable[Any]],
        path: str,
        *,
        run_id: RunId,
        workflow: Startable[Any, Any],
        detached: bool,
    ) -> None:
        self._turns = turns
        self._answer = answer
        self._path = path
        self._workflow = workflow
        self._detached = detached
        self._asked: asyncio.Future[Any] | None = None  # by one of those who await it
        self._result: bytes | None = None
        self._error: StepError | None = None
        self.id = run_id

    def __await__(self) -> Any:
        return self.result().__await__()

    async def result(self) -> Any:
        if self._detached:
            raise AskedWrongly(
                "a detached child lives on its own; its result does not come here",
                hint="start it without detached=True to await it",
            )
        while self._result is None and self._error is None:
            if self._asked is None:
                await self._ask()
            else:  # if whoever asked was cancelled, we ask again
                await asyncio.wait([self._asked])
        if self._error is not None:
            raise self._error.with_traceback(None)
        return self._workflow.decode_result(self._result or b"null")

    async def _ask(self) -> None:
        self._asked = self._turns.create_future()
        try:
            self._result = bytes(await self._answer(ResultCall(result_path(self._path), self._asked)))
        except StepError as error:
            self._error = error
        finally:
            self._asked = None
