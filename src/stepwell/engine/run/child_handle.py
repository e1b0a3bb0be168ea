"""Child: a started child as workflow code has it. Its end is asked for once, whoever awaits it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from stepwell.domain.ids import RunId
from stepwell.domain.program import Startable
from stepwell.engine.run.answers import result_path
from stepwell.engine.run.calls import Call, ResultCall
from stepwell.engine.run.workflow_loop import WorkflowLoop
from stepwell.errors import InvalidRequest, Unwind


class _End(asyncio.Future[Any]):
    """A child's end. Each of those who await it waits on a future of its own: leaving takes only that.

    They are woken where the end is set, in the order in which they came, and not by a callback: so one
    that waits alone goes on exactly when the code of any other call would.
    """

    def __init__(self, turns: WorkflowLoop) -> None:
        super().__init__(loop=turns)
        self._turns = turns
        self._awaiting: dict[asyncio.Future[None], None] = {}

    @property
    def awaited(self) -> bool:
        return bool(self._awaiting)

    @property
    def unwound(self) -> bool:
        """The code was told to leave, which says nothing of the child."""
        return self.done() and isinstance(self.exception(), Unwind)

    async def come(self) -> None:
        if self.done():
            return
        mine = self._turns.create_future()
        self._awaiting[mine] = None
        try:
            await mine
        finally:
            del self._awaiting[mine]

    def set_result(self, result: Any) -> None:
        super().set_result(result)
        self._wake()

    def set_exception(self, exception: type | BaseException) -> None:
        super().set_exception(exception)
        self.exception()  # seen, also when everybody has just left
        self._wake()

    def _wake(self) -> None:
        for awaiting in self._awaiting:
            if not awaiting.done():
                awaiting.set_result(None)


class Child:
    """`await child` gives its result, as often as it is awaited.

    The child is cancelled when the last of those who await it has left, not before.
    """

    def __init__(
        self,
        turns: WorkflowLoop,
        ask: Callable[[Call], object],
        left: Callable[[Call | None], BaseException],
        path: str,
        *,
        run_id: RunId,
        workflow: Startable[Any, Any],
        detached: bool,
    ) -> None:
        self._turns = turns
        self._ask = ask
        self._left = left
        self._path = path
        self._workflow = workflow
        self._detached = detached
        self._asked: tuple[ResultCall, _End] | None = None
        self.id = run_id

    def __await__(self) -> Any:
        return self.result().__await__()

    async def result(self) -> Any:
        if self._detached:
            raise InvalidRequest(
                "a detached child lives on its own; its result does not come here",
                hint="start it without detached=True to await it",
            )
        call, end = self._question()
        try:
            await end.come()
        except asyncio.CancelledError:
            raise self._left(None if end.done() or end.awaited else call) from None
        error = end.exception()
        if error is not None:
            raise error.with_traceback(None)
        return self._workflow.decode_result(bytes(end.result()) or b"null")

    def _question(self) -> tuple[ResultCall, _End]:
        """The one that was asked; a new one if that was given up, for its answer does not come."""
        if self._asked is not None:
            call, end = self._asked
            if not (call.withdrawn or end.unwound):
                return self._asked
        end = _End(self._turns)
        call = ResultCall(result_path(self._path), end)
        self._ask(call)
        self._asked = call, end
        return self._asked
