"""Steps: the steps of one activation, from asking to a recorded result.

A local step runs at once in this worker; a remote one becomes a ticket for the workers of its
queue. A failed attempt is a fact with the delay until the next; only the last failure is an answer.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import limited
from stepwell.domain.commit import Commit, NewTicket
from stepwell.domain.control_flow import Unwind
from stepwell.domain.duration import chosen
from stepwell.domain.ids import needs_step
from stepwell.domain.messages import EndNotice
from stepwell.domain.problems import problem_of
from stepwell.domain.steps import InCommit, NotYet, encode_arguments
from stepwell.engine.execution.attempt import Running, StepAttempt, step_attempt
from stepwell.engine.run import documents
from stepwell.engine.run.answers import RecordedResult
from stepwell.engine.run.calls import StepCall
from stepwell.engine.run.port import RunParts, check_open
from stepwell.errors import OutcomeUnknown, StepTimedOut, StepwellError, StoreUnavailable, excerpt

_LEASE_LOOK = 0.1  # seconds
_OUTAGE_PAUSE = 0.5


class Steps:
    def __init__(self, run: RunParts) -> None:
        self._run = run
        self.executing: dict[str, Running] = {}

    # Beginning

    def recall(self, call: StepCall) -> None:
        """Take up how far it got: a result that came with the claim is taken before it starts."""
        record = self._run.journal.steps.get(call.path)
        if record is not None:
            call.attempt, call.failures = record.attempt, record.failures
            call.retrying = record.retry_at is not None

    def next_attempt(self, call: StepCall) -> None:
        call.retrying = False
        call.attempt += 1
        if call.queue:
            self._schedule(call)
        elif self._run.writer.losses > 0 and not call.polls:
            self._announce(call)
        else:
            self._execute(call)

    def _announce(self, call: StepCall) -> None:
        """A worker was lost in this run: from now on the log says what is begun before it begins."""
        self._run.hold()
        self._run.record(ev.StepStarted(step=call.spec.name), call.path, call.attempt)
        self._run.writer.after_commit(lambda at: self._begin_held(call))

    def _begin_held(self, call: StepCall) -> None:
        self._run.release_hold()
        if self._run.closed is not None:
            return
        if call.withdrawn or call.future.done():
            self._run.advance()  # it was all that kept the run from parking
            return
        try:
            self._execute(call)
        except Exception:
            self._run.abandon()

    def _execute(self, call: StepCall) -> None:
        run = self._run
        services = run.services
        if not services.lease_valid():
            # Our lease may be over. Nothing begins until the store has said otherwise; if it says
            # that we were reaped, the activation is lost.
            run.hold()
            services.loop.call_later(_LEASE_LOOK, self._begin_held, call)
            return
        spec = call.spec
        if spec.provided or services.stand_ins:
            spec = services.spec_to_run(spec)
        execution = self.executing[call.path] = step_attempt(
            services,
            spec,
            call.args,
            call.kwargs,
            run_id=run.run_id,
            path=call.path,
            attempt=call.attempt,
            lease=run.writer.lease,
            root=run.journal.accepted.root,
            variables=call.variables,
        )
        if spec.wants_context:
            execution.context.tell = partial(self._tell, call)
        if call.spec.transactional and not call.spec.provided:
            transaction = self._guarded(self._transact(call, execution))
            services.runner.spawn(transaction, execution.variables)
        else:
            execution.run(partial(self._ended, call, execution))

    def _tell(self, call: StepCall, topic: str, data: bytes) -> None:
        """A step publishes something, from any thread."""
        limit = self._run.services.payload_bytes_max
        news = limited(data, f"what {call.path} publishes on {topic}", limit)
        self._run.services.loop.call_soon_threadsafe(self._told, call, call.attempt, topic, news)

    def _told(self, call: StepCall, attempt: int, topic: str, data: bytes) -> None:
        """Record it, unless the attempt is over: then nobody waits for news of it."""
        run = self._run
        if call.path not in self.executing or call.attempt != attempt or run.closed is not None:
            return
        if run.services.redact is not None:
            data = run.services.redact(data)
        run.record(ev.Published(topic=topic, data=Raw(data)), call.path, attempt)
        run.settle()

    # Ending

    def _ended(
        self, call: StepCall, execution: StepAttempt, result: Any, error: BaseException | None
    ) -> None:
        """The function returned or raised; what it did counts only if we still own the run."""
        run = self._run
        if type(result) is InCommit and call.path in self.executing and run.closed is None:
            transaction = self._guarded(self._transact(call, execution, result))
            run.services.runner.spawn(transaction, execution.variables)
            return
        if self.executing.pop(call.path, None) is None or run.closed is not None:
            return
        try:
            if type(result) is NotYet:
                self._call_again(call, result.seconds)
            elif error is None:
                self._returned(call, execution, result)
            else:
                if execution.saved:
                    documents.record_details(run, execution.saved, call.path, call.attempt)
                chance = run.services.ids.jitter()
                self._failed(call, error, call.spec.retry.wait_after(call.failures + 1, error, chance))
        except Exception:
            run.abandon()
        run.advance()

    def _call_again(self, call: StepCall, seconds: float) -> None:
        """The same attempt, later. Nothing is written: the next owner begins with a call of its own."""
        call.attempt -= 1
        call.retrying = True
        self._run.timers.dues[call.path] = self._run.timers.now() + seconds

    def _returned(self, call: StepCall, execution: StepAttempt, result: Any) -> None:
        run = self._run
        try:
            data = self._encoded(call, result)
            if execution.saved:
                limit = run.services.payload_bytes_max
                saved = documents.checked(execution.saved, call.path, limit)
                if run.services.redact is not None:
                    saved = documents.redacted(saved, run.services.redact)
                documents.record(run, saved, call.path, call.attempt)
        except StepwellError as refusal:
            self._failed(call, refusal, retry_in=None)
        else:
            call.answered = True
            run.record(self._completed(call, Raw(data)), call.path, call.attempt)

    def _encoded(self, call: StepCall, result: Any) -> bytes:
        services = self._run.services
        data = call.spec.returns.encode(result)
        if services.redact is not None:
            data = services.redact(data)  # here, so that a replay sees what the code saw
        limit = services.payload_bytes_max
        return data if len(data) <= limit else limited(data, f"the result of {call.path}", limit)

    def _failed(self, call: StepCall, error: BaseException, retry_in: float | None) -> None:
        self._record_failure(call, problem_of(error, call.path), retry_in)

    def _record_failure(
        self,
        call: StepCall,
        problem: ev.Problem,
        retry_in: float | None,
        worker: str = "",
        since: float = 0.0,
    ) -> None:
        call.failures += 1
        if self._run.services.redact is not None:
            redacted = self._run.services.redact(msgspec.json.encode(problem))
            problem = msgspec.json.decode(redacted, type=ev.Problem)
        fact = ev.StepFailed(
            error=problem,
            retry_in=retry_in,
            digest=call.digest,
            worker=worker,
            since=since,
            args=self._args(call),
        )
        self._run.record(fact, call.path, call.attempt)
        if retry_in is None:
            call.answered = True
        else:
            call.retrying = True
            self._run.writer.due(call.path, retry_in)

    def due(self, call: StepCall) -> None:
        """The time of its next attempt has come, or that of a remote step has run out."""
        if call.retrying:
            self.next_attempt(call)
            return
        limit = self._limit(call) or 0.0
        error = StepTimedOut(f"{call.path} on queue {excerpt(call.queue)} was not done within {limit:g} s")
        self._run.writer.close_ticket(call.path)
        chance = self._run.services.ids.jitter()
        self._failed(call, error, call.spec.retry.wait_after(call.failures + 1, error, chance))

    # Remote

    def _schedule(self, call: StepCall) -> None:
        run, spec = self._run, call.spec
        try:
            args = limited(
                encode_arguments(spec, call.args, call.kwargs),
                f"the arguments of {call.path}",
                run.services.payload_bytes_max,
            )
        except StepwellError as error:
            self._failed(call, error, retry_in=None)
            return
        limit = self._limit(call)
        root = run.journal.accepted.root
        fact = ev.StepScheduled(
            step=spec.name,
            queue=call.queue,
            args=Raw(args),
            timeout=limit,
            digest=call.digest,
            root="" if root == run.run_id else root,
        )
        run.record(fact, call.path, call.attempt)
        run.writer.open_ticket(
            NewTicket(
                path=call.path,
                queue=call.queue,
                needs=needs_step(spec.name),
                seq=run.writer.future_seq,
            )
        )
        if limit is not None:
            run.writer.due(call.path, limit)
        run.writer.after_commit(lambda at: run.services.notifier.notify_work())

    def _limit(self, call: StepCall) -> float | None:
        return chosen(call.spec.timeout, self._run.services.step_timeout)

    def remote_ended(self, call: StepCall, payload: bytes) -> None:
        """A remote worker's result came through the inbox. That of an old attempt does not count."""
        ending = msgspec.json.decode(payload, type=EndNotice)
        if call.retrying or ending.attempt != call.attempt:
            return
        run, path = self._run, call.path
        run.timers.dues.pop(path, None)
        run.writer.forget_due(path)
        if ending.error is None:
            documents.record(run, ending.documents, path, call.attempt)
            done = self._completed(call, ending.result)
            fact = msgspec.structs.replace(done, worker=ending.worker, since=ending.since)
            call.answered = True
            run.record(fact, path, call.attempt)
        else:
            run.journal.steps.pop(path, None)  # this settles what it said
            documents.record_details(run, ending.documents, path, call.attempt)
            # The caller's policy counts, not that of the worker which ran it.
            chance = self._run.services.ids.jitter()
            retry_in = call.spec.retry.wait_after(call.failures + 1, ending.failure, chance)
            self._record_failure(call, ending.error, retry_in, ending.worker, ending.since)

    # Transactional

    async def _guarded(self, work: Awaitable[None]) -> None:
        """For a task beside the run, which nobody awaits."""
        try:
            await work
        except Exception:
            self._run.abandon()

    async def _transact(self, call: StepCall, execution: StepAttempt, own: InCommit | None = None) -> None:
        """The user's writes, or `own` ones, and the step's event in one transaction of the store."""
        store = self._run.services.store
        error: BaseException | None = None
        try:
            if store.sync_transactions:
                await self._run.writer.turn_free()
                self._run.writer.hold_turn(call.path)
            if own is not None:
                committed = await store.transact(own.body, lambda done: self._turn(call, own.result(done)))
            else:
                body = execution.body if store.sync_transactions else execution.timed_body
                committed = await store.transact(body, lambda result: self._turn(call, result))
                await execution.log_written()
                execution.end_span(None)
            self._run.writer.transacted(committed)
        except Unwind:
            return  # the run was lost while this waited for its turn: nothing was written
        except StoreUnavailable:
            # The step did not fail, the database did: nothing was written, so it begins again.
            self._begin_later(call)
            return
        except OutcomeUnknown:
            # Only the log knows whether it was written: the next owner reads it.
            self._run.abandon(expected=True)
            return
        except Exception as failure:
            error = failure if own is None else own.error(failure)
            self._run.writer.give_turn_back(call.path)
            if own is None:
                await execution.log_written()
                execution.end_span(error)
        self.executing.pop(call.path, None)
        if self._run.closed is not None:
            return
        if error is not None:
            chance = self._run.services.ids.jitter()
            self._failed(call, error, call.spec.retry.wait_after(call.failures + 1, error, chance))
        self._run.advance()

    def _begin_later(self, call: StepCall) -> None:
        run = self._run
        run.writer.give_turn_back(call.path)
        self.executing.pop(call.path, None)
        if run.closed is None:
            run.hold()
            run.services.loop.call_later(_OUTAGE_PAUSE, self._begin_held, call)
            run.advance()

    def _turn(self, call: StepCall, result: Any) -> Any:
        data = self._encoded(call, result)
        fact = self._completed(call, Raw(data))
        if self._run.services.store.sync_transactions:
            return self._transaction(call, fact)
        return self._take_turn(call, fact)

    async def _take_turn(self, call: StepCall, fact: ev.StepCompleted) -> Commit:
        await self._run.writer.turn_free()
        check_open(self._run)
        self._run.writer.hold_turn(call.path)
        return self._transaction(call, fact)

    def _transaction(self, call: StepCall, fact: ev.StepCompleted) -> Commit:
        writer, answers = self._run.writer, self._run.calls.answers

        def answer(at: float) -> None:
            call.answered = True
            answers.appendleft(RecordedResult(writer.head, call.path, fact))  # before what came meanwhile

        return writer.transaction(fact, call.path, call.attempt, answer)

    def _completed(self, call: StepCall, result: Raw) -> ev.StepCompleted:
        if not self._run.services.step_inputs:
            return ev.StepCompleted(result=result, digest=call.digest, undo=call.undo)
        return ev.StepCompleted(result=result, digest=call.digest, undo=call.undo, args=self._args(call))

    def _args(self, call: StepCall) -> Raw:
        """What the step was called with, if that is kept. It is for readers: nothing fails because of it."""
        if not self._run.services.step_inputs or call.queue:  # StepScheduled has those of a remote step
            return ev.NULL
        try:
            data = encode_arguments(call.spec, call.args, call.kwargs)
        except StepwellError:
            return ev.NULL
        return Raw(data) if len(data) <= self._run.services.payload_bytes_max else ev.NULL

    # Stopping

    def withdraw(self, call: StepCall) -> None:
        execution = self.executing.pop(call.path, None)
        if execution is not None:
            execution.stop()
        if call.queue:
            self._run.writer.close_ticket(call.path, needed=True)
        if self._logged(call) or (execution is not None and execution.noted):
            self._run.record(ev.WaitEnded(outcome="withdrawn"), call.path)

    def _logged(self, call: StepCall) -> bool:
        """The log has it as under way: unless it says otherwise, the run would work on it forever."""
        if call.answered or call.path in self._run.calls.recorded:
            return False
        if call.attempt > 0 and (call.queue or call.failures > 0):
            return True
        record = self._run.journal.steps.get(call.path)
        return record is not None and record.open

    def stop_all(self) -> None:
        for execution in list(self.executing.values()):  # a transition's body takes itself out
            execution.stop()
        self.executing.clear()

    def note_long(self, mark: float) -> bool:
        """Log steps that have been running since before `mark`."""
        noted = False
        for path, execution in self.executing.items():
            if not execution.noted and execution.began < mark and not execution.spec.transactional:
                execution.noted = noted = True
                if self._run.writer.losses == 0:
                    fact = ev.StepStarted(step=execution.spec.name)
                    self._run.record(fact, path, execution.attempt)
        return noted
