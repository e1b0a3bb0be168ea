"""The calls of a machine: its triggers, its transitions, and the time until a transition's next attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN, Codec
from stepwell.domain.machine import Transition
from stepwell.engine.run.calls import TimerCall, WaitCall
from stepwell.engine.run.journal import ReceivedMessage
from stepwell.engine.run.port import Call, RunParts
from stepwell.errors import CodeChanged, excerpt


class TriggerCall(WaitCall, kw_only=True):
    """Waits at a place of a machine for one of the transitions that must be triggered."""

    codecs: Mapping[str, Codec]
    codec: Codec = PLAIN

    @property
    def text(self) -> str:
        return f"at {self.name}: waiting for {' or '.join(self.codecs)}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.codecs)

    def decode(self, name: str, payload: Raw) -> Any:
        codec = self.codecs.get(name)
        if codec is None:  # an older version of the code had asked
            raise CodeChanged(f"nothing that {excerpt(name)} triggers leaves {excerpt(self.name)} now")
        return codec.decode(payload)

    @property
    def choices(self) -> list[ev.TriggerChoice]:
        return [
            ev.TriggerChoice(name=name, form=Raw(msgspec.json.encode(codec.schema())))
            for name, codec in self.codecs.items()
        ]

    def question(self) -> object:
        return None  # its path says to which place it belongs: the choices there may change

    def reply(self, message: ReceivedMessage) -> Any:
        return message  # its name is the choice


class Begins(Protocol):
    """What a transition's call asks of the machine's driver."""

    def begin_attempt(self, call: TransitionCall) -> None: ...
    def cleans_up(self, call: TransitionCall) -> bool: ...


class TransitionCall(Call, kw_only=True):
    """Asks to run a transition's code once. The answer is the state that it leaves."""

    transition: Transition
    body: Callable[[Any], Any]
    attempt: int
    driver: Begins
    announced: bool = False
    variables: Context = msgspec.field(default_factory=copy_context)
    running: Any = None  # its `TransitionAttempt`, once it has begun

    is_effect = True
    under_way = True

    @property
    def text(self) -> str:
        return f"at {self.transition.source}: {self.transition.name}"

    def begin(self, run: RunParts) -> None:
        self.driver.begin_attempt(self)

    def cancel(self, run: RunParts) -> None:
        if not self.driver.cleans_up(self):  # else its code hears of it, then the machine
            super().cancel(run)


class BackoffCall(TimerCall, kw_only=True):
    """Waits for the time of a transition's next attempt: a timer that its failure has set."""

    transition: Transition
    due_at: float
    seconds: float = 0.0
    retry: bool = True

    under_way = True

    @property
    def text(self) -> str:
        return f"at {self.transition.source}: retry of {self.transition.name}"

    def begin(self, run: RunParts) -> None:
        if not run.writer.is_due(self.path):  # else it is counted from the commit
            run.timers.dues[self.path] = self.due_at

    def due(self, run: RunParts) -> None:
        del run.calls.pending[self.path]
        self.future.set_result(None)
