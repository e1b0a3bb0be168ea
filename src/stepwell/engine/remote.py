"""RemoteStep: a claimed ticket of a step that another worker's run asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import limited
from stepwell.domain.commit import Claim
from stepwell.domain.messages import Ending, step_ended
from stepwell.domain.problems import problem_of
from stepwell.domain.steps import decode_arguments
from stepwell.engine.ending import POISON_LOSSES
from stepwell.engine.execution import Execution
from stepwell.engine.services import Services
from stepwell.errors import StepwellError, StoreError

_log = logging.getLogger("stepwell.engine")


class RemoteStep:
    def __init__(self, services: Services, claim: Claim) -> None:
        self.claim = claim
        self._services = services
        self._execution: Execution | None = None
        self._closed = False
        self.began = services.clock.monotonic()
        self.on_end: Callable[[RemoteStep], None] | None = None
        row = claim.log[0]
        self._attempt = row.attempt
        self._scheduled = ev.read_as(ev.StepScheduled, row)
        self._spec = services.steps[self._scheduled.step]

    def begin(self) -> None:
        if self.claim.losses >= POISON_LOSSES:
            problem = ev.Problem(
                code="WORKER_CRASHED",
                message=f"{self.claim.losses} workers died while they ran {self.claim.path}",
                path=self.claim.path,
            )
            self._report(Ending(status="failed", error=problem, attempt=self._attempt))
            return
        try:
            args, kwargs = decode_arguments(self._spec, self._scheduled.args)
        except StepwellError as error:
            self._report(self._failure(error, None))
            return
        self._execution = Execution(
            self._services,
            self._spec,
            tuple(args),
            kwargs,
            run_id=self.claim.run_id,
            path=self.claim.path,
            attempt=self._attempt,
            lease=self.claim.lease,
        )
        self._execution.run(self._ended)

    def _ended(self, result: Any, error: BaseException | None) -> None:
        if self._closed:
            return
        if error is None:
            try:
                data = limited(
                    self._spec.returns.encode(result),
                    f"the result of {self.claim.path}",
                    self._services.payload_bytes_max,
                )
            except StepwellError as refusal:
                self._report(self._failure(refusal, None))
            else:
                saved = list(self._execution.saved) if self._execution is not None else []
                self._report(
                    Ending(status="completed", result=Raw(data), attempt=self._attempt, documents=saved)
                )
        else:
            chance = self._services.ids.jitter()
            retry_in = self._spec.retry.wait_after(self._attempt, error, chance)
            self._report(self._failure(error, retry_in))

    def _failure(self, error: BaseException, retry_in: float | None) -> Ending:
        problem = problem_of(error, self.claim.path)
        return Ending(status="failed", error=problem, retry_in=retry_in, attempt=self._attempt)

    def _report(self, ending: Ending) -> None:
        self._services.runner.spawn(self._deliver(ending))

    async def _deliver(self, ending: Ending) -> None:
        message = step_ended(self.claim.run_id, self.claim.path, self._attempt, ending)
        while not self._closed:
            try:
                await self._services.store.finish_remote(self.claim, message)
                break
            except StoreError as error:
                _log.warning("result of remote step %s not answered: %s", self.claim.path, error.message)
                await asyncio.sleep(0.1)
        self._services.bulletin.work(self.claim.run_id)
        self.close()

    def lose(self) -> None:
        """The ticket is gone (timed out, cancelled, or another worker has it): stop."""
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._execution is not None:
                self._execution.stop()
            if self.on_end is not None:
                self.on_end(self)
