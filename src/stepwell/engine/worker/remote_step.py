"""RemoteStep: a claimed ticket of a step that a run of another worker called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import limited
from stepwell.domain.commit import Claim
from stepwell.domain.documents import DETAILS, USAGE
from stepwell.domain.messages import EndNotice, step_ended, step_failed
from stepwell.domain.problems import problem_of
from stepwell.domain.steps import decode_arguments
from stepwell.engine.execution.attempt import StepAttempt, step_attempt
from stepwell.engine.run.documents import checked
from stepwell.engine.run.services import Services
from stepwell.errors import StepNotBegun, StepwellError
from stepwell.store.outage import outlast

_PAUSE = 0.1  # seconds, when the store does not answer


class RemoteStep:
    def __init__(self, services: Services, claim: Claim, now: float) -> None:
        self.claim = claim
        self._since = now  # by the store's clock
        self._services = services
        self._execution: StepAttempt | None = None
        self._closed = False
        self.began = services.clock.monotonic()
        self.on_end: Callable[[RemoteStep], None] | None = None
        row = claim.log[0]
        self._attempt = row.attempt
        self._scheduled = ev.read_as(ev.StepScheduled, row)
        # The timeout of the call counts, not the one registered here; retries are up to the run's owner.
        self._spec = replace(services.steps[self._scheduled.step], timeout=self._scheduled.timeout)

    def begin(self) -> None:
        if self.claim.losses >= self._services.lost_leases_max:
            problem = ev.Problem(
                code="WORKER_CRASHED",
                message=f"{self.claim.losses} workers died while they ran {self.claim.path}",
                path=self.claim.path,
            )
            self._report(EndNotice(status="failed", error=problem, attempt=self._attempt, permanent=True))
            return
        try:
            args, kwargs = decode_arguments(self._spec, self._scheduled.args)
        except StepwellError as error:
            self._report(self._failure(error, final=True))
            return
        self._execution = step_attempt(
            self._services,
            self._spec,
            tuple(args),
            kwargs,
            run_id=self.claim.run_id,
            path=self.claim.path,
            attempt=self._attempt,
            lease=self.claim.lease,
            root=self._scheduled.root,
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
                saved = checked(self._saved(), self.claim.path, self._services.payload_bytes_max)
            except StepwellError as refusal:
                self._report(self._failure(refusal, final=True))
            else:
                self._report(
                    EndNotice(
                        status="completed", result=Raw(data), attempt=self._attempt, documents=list(saved)
                    )
                )
        else:
            self._report(self._failure(error))

    def _saved(self) -> Sequence[ev.DocumentSaved]:
        return self._execution.saved if self._execution is not None else ()

    def _failure(self, error: BaseException, *, final: bool = False) -> EndNotice:
        shown = [one for one in self._saved() if one.name in (DETAILS, USAGE)]
        problem = problem_of(error, self.claim.path)
        return step_failed(error, problem, self._attempt, final=final, documents=shown)

    def _report(self, notice: EndNotice) -> None:
        self._services.runner.spawn(self._deliver(msgspec.structs.replace(notice, since=self._since)))

    async def _deliver(self, notice: EndNotice) -> None:
        await deliver(self._services, self.claim, notice, lambda: self._closed)
        self.close()

    def vanish(self) -> None:
        """For tests: the process dies, so nobody hears of the end."""
        self.on_end = None
        self.lose()

    def lose(self) -> None:
        """The ticket is gone (timed out, cancelled, or owned by another worker): stop."""
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._execution is not None:
                self._execution.stop()
            if self.on_end is not None:
                self.on_end(self)


async def deliver(
    services: Services, claim: Claim, notice: EndNotice, unwanted: Callable[[], bool] = lambda: False
) -> None:
    """Finish the ticket with its result, however long the store takes."""
    notice = msgspec.structs.replace(notice, worker=services.worker)
    message = step_ended(claim.run_id, claim.path, notice.attempt, notice)

    async def finish() -> None:
        if not unwanted():
            await services.store.finish_remote(claim, message)

    await outlast(finish, "result of remote step %s", claim.path, pause=_PAUSE, longest=_PAUSE)
    services.notifier.notify_work(claim.run_id)


def failed_to_start(claim: Claim, error: Exception) -> EndNotice:
    """This worker could not begin the step: the attempt has failed, and its caller decides what is next."""
    refusal = StepNotBegun(
        f"{claim.path} could not be started: {type(error).__name__}: {error}",
        hint="see that worker's log; its code may be older or newer than the caller's",
        error_type=type(error).__name__,
    )
    attempt = claim.log[0].attempt if claim.log else 0
    return step_failed(refusal, problem_of(refusal, claim.path), attempt)
