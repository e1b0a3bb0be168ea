"""StepCalls: the steps of one activation, from asking to a recorded result.

A local step runs at once in this worker; a remote one becomes a ticket for the workers of its
queue. A failed attempt is a fact with the delay until the next; only the last failure is an answer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import limited
from stepwell.domain.commit import Commit, NewTicket
from stepwell.domain.ids import needs_step
from stepwell.domain.messages import EndNotice
from stepwell.domain.problems import problem_of
from stepwell.domain.steps import encode_arguments
from stepwell.engine.execution.attempt import Running, StepAttempt
from stepwell.engine.run import documents
from stepwell.engine.run.answers import RecordedResult
from stepwell.engine.run.calls import StepCall
from stepwell.engine.run.own_faults import give_back, guarded
from stepwell.errors import OutcomeUnknown, StepTimedOut, StepwellError, StoreUnavailable, Unwind, excerpt

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation


_LEASE_LOOK = 0.1  # seconds
_OUTAGE_PAUSE = 0.5


class Steps:
    def __init__(self, activation: Activation) -> None:
        self._activation = activation
        self.executing: dict[str, Running] = {}

    # Beginning

    def start(self, call: StepCall) -> None:
        """Begin where the log left it: fresh, between two attempts, or already with a remote worker."""
        record = self._activation.journal.steps.get(call.path)
        if record is None:
            if not call.retrying:  # else the failure of its remote attempt came with the claim
                self._next_attempt(call)
            return
        self.recall(call)
        if record.retry_at is not None:
            self._activation.timers.dues[call.path] = record.retry_at
        elif record.scheduled_at is None:
            self._next_attempt(call)
        elif record.timeout is not None:
            self._activation.timers.dues[call.path] = record.scheduled_at + record.timeout

    def recall(self, call: StepCall) -> None:
        """How far the log says it got: a result that came with the claim is taken before it starts."""
        record = self._activation.journal.steps.get(call.path)
        if record is not None:
            call.attempt, call.failures = record.attempt, record.failures
            call.retrying = record.retry_at is not None

    def _next_attempt(self, call: StepCall) -> None:
        call.retrying = False
        call.attempt += 1
        if call.queue:
            self._schedule(call)
        elif self._activation.losses > 0:
            self._announce(call)
        else:
            self._execute(call)

    def _announce(self, call: StepCall) -> None:
        """A worker was lost in this run: from now on the log says what is begun before it begins."""
        self._activation.busy += 1
        self._activation.record(ev.StepStarted(step=call.spec.name), call.path, call.attempt)
        self._activation.writer.draft.then_do.append(lambda at: self._begin_held(call))

    def _begin_held(self, call: StepCall) -> None:
        self._activation.busy -= 1
        if self._activation.closed is not None:
            return
        if call.withdrawn or call.future.done():
            self._activation.advance()  # it was all that kept the run from parking
            return
        try:
            self._execute(call)
        except Exception:
            give_back(self._activation)

    def _execute(self, call: StepCall) -> None:
        activation = self._activation
        services = activation.services
        if not services.lease_valid():
            # Our lease may be over. Nothing begins until the store has said otherwise; if it says
            # that we were reaped, the activation is lost.
            activation.busy += 1
            services.loop.call_later(_LEASE_LOOK, self._begin_held, call)
            return
        execution = self.executing[call.path] = StepAttempt(
            services,
            services.stand_ins.get(call.spec.name, call.spec) if services.stand_ins else call.spec,
            call.args,
            call.kwargs,
            run_id=activation.run_id,
            path=call.path,
            attempt=call.attempt,
            lease=activation.claim.lease,
            variables=call.variables,
        )
        if call.spec.transactional:
            transaction = guarded(activation, self._transact(call, execution))
            services.runner.spawn(transaction, execution.variables)
        else:
            execution.run(partial(self._ended, call, execution))

    # Ending

    def _ended(
        self, call: StepCall, execution: StepAttempt, result: Any, error: BaseException | None
    ) -> None:
        """The function returned or raised; what it did counts only if we still own the run."""
        activation = self._activation
        if self.executing.pop(call.path, None) is None or activation.closed is not None:
            return
        try:
            if error is None:
                self._returned(call, execution, result)
            else:
                chance = activation.services.ids.jitter()
                self._failed(call, error, call.spec.retry.wait_after(call.failures + 1, error, chance))
        except Exception:
            give_back(activation)
        activation.advance()

    def _returned(self, call: StepCall, execution: StepAttempt, result: Any) -> None:
        activation = self._activation
        try:
            data = self._encoded(call, result)
            if execution.saved:
                limit = activation.services.payload_bytes_max
                saved = documents.checked(execution.saved, call.path, limit)
                documents.record(activation, saved, call.path, call.attempt)
        except StepwellError as refusal:
            self._failed(call, refusal, retry_in=None)
        else:
            call.answered = True
            activation.record(_completed(call, Raw(data)), call.path, call.attempt)

    def _encoded(self, call: StepCall, result: Any) -> bytes:
        data = call.spec.returns.encode(result)
        limit = self._activation.services.payload_bytes_max
        return data if len(data) <= limit else limited(data, f"the result of {call.path}", limit)

    def _failed(self, call: StepCall, error: BaseException, retry_in: float | None) -> None:
        self._record_failure(call, problem_of(error, call.path), retry_in)

    def _record_failure(
        self, call: StepCall, problem: ev.Problem, retry_in: float | None, worker: str = ""
    ) -> None:
        call.failures += 1
        fact = ev.StepFailed(error=problem, retry_in=retry_in, digest=call.digest, worker=worker)
        self._activation.record(fact, call.path, call.attempt)
        if retry_in is None:
            call.answered = True
        else:
            call.retrying = True
            self._activation.writer.draft.dues[call.path] = retry_in

    def due(self, call: StepCall) -> None:
        """The time of its next attempt has come, or that of a remote step has run out."""
        if call.retrying:
            if not self._activation.draining:  # else the run parks soon, and the next owner begins it
                self._next_attempt(call)
            return
        limit = call.spec.timeout or 0.0
        error = StepTimedOut(f"{call.path} on queue {excerpt(call.queue)} was not done within {limit:g} s")
        self._activation.writer.draft.rest.tickets_closed.append(call.path)
        chance = self._activation.services.ids.jitter()
        self._failed(call, error, call.spec.retry.wait_after(call.failures + 1, error, chance))

    # Remote

    def _schedule(self, call: StepCall) -> None:
        activation, spec = self._activation, call.spec
        try:
            args = limited(
                encode_arguments(spec, call.args, call.kwargs),
                f"the arguments of {call.path}",
                activation.services.payload_bytes_max,
            )
        except StepwellError as error:
            self._failed(call, error, retry_in=None)
            return
        fact = ev.StepScheduled(
            step=spec.name, queue=call.queue, args=Raw(args), timeout=spec.timeout, digest=call.digest
        )
        activation.record(fact, call.path, call.attempt)
        activation.writer.draft.rest.tickets_opened.append(
            NewTicket(
                path=call.path,
                queue=call.queue,
                needs=needs_step(spec.name),
                seq=activation.writer.future_seq,
            )
        )
        if spec.timeout is not None:
            activation.writer.draft.dues[call.path] = spec.timeout
        activation.writer.draft.then_do.append(lambda at: activation.services.notifier.work())

    def remote_ended(self, path: str, payload: bytes) -> None:
        """A remote worker's result came through the inbox; an old attempt's is no news."""
        call = self._activation.calls.get(path)
        ending = msgspec.json.decode(payload, type=EndNotice)
        if not isinstance(call, StepCall) or call.retrying or ending.attempt != call.attempt:
            return
        self._activation.timers.dues.pop(path, None)
        self._activation.writer.draft.dues.pop(path, None)
        if ending.error is None:
            documents.record(self._activation, ending.documents, path, call.attempt)
            fact = msgspec.structs.replace(_completed(call, ending.result), worker=ending.worker)
            call.answered = True
            self._activation.record(fact, path, call.attempt)
        else:
            self._activation.journal.steps.pop(path, None)  # what it said is settled by this
            # The caller's policy counts, not that of the worker which ran it.
            chance = self._activation.services.ids.jitter()
            retry_in = call.spec.retry.wait_after(call.failures + 1, ending.failure, chance)
            self._record_failure(call, ending.error, retry_in, ending.worker)

    # Transactional

    async def _transact(self, call: StepCall, execution: StepAttempt) -> None:
        """The user's writes and the step's event in one transaction of the store."""
        store = self._activation.services.store
        error: BaseException | None = None
        try:
            if store.turn_first:
                await self._activation.writer.turn_free()
                self._activation.writer.hold_turn(call.path)
            body = execution.body if store.turn_first else execution.timed_body
            committed = await store.transact(body, lambda result: self._turn(call, result))
            self._activation.writer.transacted(committed)
        except Unwind:
            return  # the run was lost while this waited for its turn: nothing was written
        except StoreUnavailable:
            # The database's trouble is no failure of the step: nothing was written, it begins again.
            self._begin_later(call)
            return
        except OutcomeUnknown:
            # Only the log knows whether it was written: whoever claims the run next reads it.
            self._activation.broken = True
            self._activation.lose()
            return
        except Exception as failure:
            error = failure
            self._activation.writer.give_turn_back(call.path)
        self.executing.pop(call.path, None)
        if self._activation.closed is not None:
            return
        if error is not None:
            chance = self._activation.services.ids.jitter()
            self._failed(call, error, call.spec.retry.wait_after(call.failures + 1, error, chance))
        self._activation.advance()

    def _begin_later(self, call: StepCall) -> None:
        activation = self._activation
        activation.writer.give_turn_back(call.path)
        self.executing.pop(call.path, None)
        if activation.closed is None:
            activation.busy += 1
            activation.services.loop.call_later(_OUTAGE_PAUSE, self._begin_held, call)
            activation.advance()

    def _turn(self, call: StepCall, result: Any) -> Any:
        data = self._encoded(call, result)
        fact = _completed(call, Raw(data))
        if self._activation.services.store.turn_first:
            return self._transaction(call, fact)
        return self._take_turn(call, fact)

    async def _take_turn(self, call: StepCall, fact: ev.StepCompleted) -> Commit:
        await self._activation.writer.turn_free()
        self._activation.check_open()
        self._activation.writer.hold_turn(call.path)
        return self._transaction(call, fact)

    def _transaction(self, call: StepCall, fact: ev.StepCompleted) -> Commit:
        writer, answers = self._activation.writer, self._activation.answers

        def answer(at: float) -> None:
            call.answered = True
            answers.appendleft(
                RecordedResult(writer.head, call.path, fact)
            )  # what came meanwhile is behind it

        return writer.transaction(fact, call.path, call.attempt, answer)

    # Stopping

    def withdraw(self, call: StepCall) -> None:
        execution = self.executing.pop(call.path, None)
        if execution is not None:
            execution.stop()
        if call.queue:
            self._activation.writer.draft.rest.tickets_closed.append(call.path)
            self._activation.writer.draft.needed = True
        if self._told(call) or (execution is not None and execution.noted):
            self._activation.record(ev.WaitEnded(outcome="withdrawn"), call.path)

    def _told(self, call: StepCall) -> bool:
        """The log has it as under way: unless it says otherwise, the run would work on it for ever."""
        if call.answered or call.path in self._activation.recorded:
            return False
        if call.attempt > 0 and (call.queue or call.failures > 0):
            return True
        known = self._activation.journal.steps.get(call.path)
        return known is not None and known.open

    def stop_all(self) -> None:
        for execution in list(self.executing.values()):  # a transition's body takes itself out
            execution.stop()
        self.executing.clear()

    def note_long(self, mark: float) -> bool:
        """Tell the log of steps that have been running since before `mark`."""
        noted = False
        for path, execution in self.executing.items():
            if not execution.noted and execution.began < mark and not execution.spec.transactional:
                execution.noted = noted = True
                if self._activation.losses == 0:
                    fact = ev.StepStarted(step=execution.spec.name)
                    self._activation.record(fact, path, execution.attempt)
        return noted


def _completed(call: StepCall, result: Raw) -> ev.StepCompleted:
    return ev.StepCompleted(result=result, digest=call.digest, undo=call.undo)
