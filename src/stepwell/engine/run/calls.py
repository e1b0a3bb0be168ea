"""Calls: what workflow code can ask for, and how each kind begins, ends and is withdrawn."""

from __future__ import annotations

from contextvars import Context, copy_context
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import Codec
from stepwell.domain.events import Undo
from stepwell.domain.steps import StepSpec
from stepwell.engine.run.answers import RecordedResult
from stepwell.engine.run.arguments import same_arguments
from stepwell.engine.run.port import Call, OpenCalls, RunParts


class StepCall(Call, kw_only=True):
    spec: StepSpec
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    queue: str
    digest: str
    attempt: int = 0
    failures: int = 0
    retrying: bool = False  # waiting for its next attempt
    answered: bool = False  # recorded by this activation; `recorded` has what the log had before
    variables: Context = msgspec.field(
        default_factory=copy_context
    )  # context variables of the calling code; attempts get copies
    undo: Undo | None = None  # for a step that is undone if the run ends badly

    is_effect = True
    under_way = True
    working = True

    @property
    def text(self) -> str:
        return f"retry of {self.path}" if self.retrying else f"step {self.path}"

    def begin(self, run: RunParts) -> None:
        """Where the log left it: at the start, between two attempts, or with a remote worker."""
        if run.calls.arguments.displaced:
            run.calls.arguments.check_moved(self)
        record = run.journal.steps.get(self.path)
        if record is None:
            if not self.retrying:  # else the failure of its remote attempt came with the claim
                run.steps.next_attempt(self)
            return
        run.steps.recall(self)
        if record.retry_at is not None:
            run.timers.dues[self.path] = record.retry_at
        elif record.scheduled_at is None:
            run.steps.next_attempt(self)
        elif record.timeout is not None:
            run.timers.dues[self.path] = record.scheduled_at + record.timeout

    def recall(self, run: RunParts) -> None:
        run.steps.recall(self)

    def due(self, run: RunParts) -> None:
        run.steps.due(self)

    def withdraw(self, run: RunParts) -> None:
        run.steps.withdraw(self)

    def remote_ended(self, run: RunParts, payload: bytes) -> None:
        run.steps.remote_ended(self, payload)

    @property
    def parkable(self) -> bool:
        return self.retrying or bool(self.queue)

    @property
    def may_end_soon(self) -> bool:
        return bool(self.queue) and not self.retrying

    def matches(self, recorded: RecordedResult, *, retried: bool) -> bool:
        if isinstance(recorded.fact, ev.StepCompleted | ev.StepFailed):
            # Before the failure the code called `notify("failed")`, now `notify("paid")`: another step.
            return same_arguments(self, recorded.fact.digest)
        return super().matches(recorded, retried=retried)

    def check_recorded(self, fact: ev.Fact, calls: OpenCalls) -> None:
        if isinstance(fact, ev.StepCompleted | ev.StepFailed):
            calls.arguments.compare(self, fact, calls.answers)


class PollCall(StepCall):
    """A step that is called repeatedly until it has a result. The run is suspended between calls."""

    working = False
    polls = True

    @property
    def text(self) -> str:
        return f"looking at {self.path}"


class TimerCall(Call, kw_only=True):
    seconds: float
    retry: bool = False  # an attempt is repeated then, so the run is not suspended meanwhile

    asks = True

    @property
    def text(self) -> str:
        return f"retry at {self.path}" if self.retry else "sleeping"

    def begin(self, run: RunParts) -> None:
        run.waits.set_timer(self)

    def due(self, run: RunParts) -> None:
        run.waits.fire_timer(self)

    def withdraw(self, run: RunParts) -> None:
        run.waits.withdraw_timer(self)

    @property
    def working(self) -> bool:
        return self.retry

    def question(self) -> object:
        return self.seconds


class WaitCall(Call, kw_only=True):
    what: str
    name: str
    codec: Codec
    key: str = ""
    title: str = ""
    assignees: tuple[str, ...] = ()
    required: int = 1
    bar_starter: bool = False

    asks = True

    @property
    def text(self) -> str:
        return f"waiting for {self.what}" + (f" {self.name}" if self.name != self.what else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The signals that answer it; a wait for an event or a decision takes none."""
        return (self.name,) if self.what == "signal" else ()

    def decode(self, name: str, payload: Raw) -> Any:
        """The answer in its type; InvalidInput when it does not fit."""
        return self.codec.decode(payload)

    @property
    def choices(self) -> list[ev.TriggerChoice]:
        return []

    def begin(self, run: RunParts) -> None:
        run.waits.open(self)

    def recall(self, run: RunParts) -> None:
        run.waits.recall(self)

    def due(self, run: RunParts) -> None:
        run.waits.due(self)

    def withdraw(self, run: RunParts) -> None:
        run.waits.withdraw(self)

    def question(self) -> object:
        form = msgspec.json.decode(msgspec.json.encode(self.codec.schema()))
        return self.what, self.name, self.key, self.title, [*self.assignees], form


class ChildCall(Call, kw_only=True):
    """Asks for a child to be started; answered when that is on disk. `new` is None when it is."""

    detached: bool
    trigger: str = ""

    is_effect = True

    def begin(self, run: RunParts) -> None:
        run.waits.start_child(self)

    def matches(self, recorded: RecordedResult, *, retried: bool) -> bool:
        if isinstance(recorded.fact, ev.ChildStarted):
            digest = recorded.fact.digest
            return self.new is None or not digest or digest == self.new.digest
        return super().matches(recorded, retried=retried)


class ResultCall(Call):
    """Asks for a child's end, which comes as a message."""

    may_end_soon = True

    @property
    def text(self) -> str:
        return f"waiting for child {self.path.rstrip('!')}"

    def withdraw(self, run: RunParts) -> None:
        run.waits.withdraw_child(self.path.rstrip("!"))
