"""Calls: what workflow code has asked for and not been told yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import PLAIN, Codec
from stepwell.domain.commit import NewRun
from stepwell.domain.events import Undo
from stepwell.domain.machine import Transition
from stepwell.domain.steps import StepSpec
from stepwell.errors import CodeChanged, excerpt


class Call:
    """One pending question of workflow code, answered through its future."""

    __slots__ = ("after", "future", "path", "withdrawn")
    is_effect = False  # something begins outside: only when the log has all that led to it
    digest = ""  # of a step's arguments

    def __init__(self, path: str, future: asyncio.Future[Any]) -> None:
        self.path = path
        self.future = future
        self.withdrawn = False
        self.after = 0  # effects may start once the log has reached this seq

    @property
    def text(self) -> str:
        """For people: what the run waits for."""
        return self.path


class StepCall(Call):
    __slots__ = (
        *("args", "kwargs", "spec", "queue", "digest", "undo", "variables"),
        *("answered", "attempt", "failures", "retrying"),
    )
    is_effect = True

    def __init__(
        self,
        path: str,
        future: asyncio.Future[Any],
        spec: StepSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        queue: str,
        digest: str,
    ) -> None:
        self.path = path
        self.future = future
        self.withdrawn = False
        self.after = 0
        self.spec = spec
        self.args = args
        self.kwargs = kwargs
        self.queue = queue
        self.digest = digest
        self.attempt = 0
        self.failures = 0
        self.retrying = False  # waits for its next attempt
        self.answered = False  # by this activation; what the log had before is in `recorded`
        self.variables = copy_context()  # of the code that asks: its attempts have copies of them
        self.undo: Undo | None = None  # of a step that is to be undone when the run ends badly

    @property
    def text(self) -> str:
        return f"retry of {self.path}" if self.retrying else f"step {self.path}"


class TimerCall(Call):
    __slots__ = ("retry", "seconds")

    def __init__(
        self, path: str, future: asyncio.Future[Any], seconds: float, *, retry: bool = False
    ) -> None:
        super().__init__(path, future)
        self.seconds = seconds
        self.retry = retry  # something is tried again then: the run is not suspended meanwhile

    @property
    def text(self) -> str:
        return f"retry at {self.path}" if self.retry else "sleeping"


class WaitCall(Call):
    __slots__ = ("assignees", "codec", "key", "name", "timeout", "title", "what")

    def __init__(
        self,
        path: str,
        future: asyncio.Future[Any],
        *,
        what: str,
        name: str,
        codec: Codec,
        timeout: float | None,
        key: str = "",
        title: str = "",
        assignees: tuple[str, ...] = (),
    ) -> None:
        super().__init__(path, future)
        self.what = what
        self.name = name
        self.codec = codec
        self.timeout = timeout
        self.key = key
        self.title = title
        self.assignees = assignees

    @property
    def text(self) -> str:
        return f"waiting for {self.what} {self.name}"

    @property
    def names(self) -> tuple[str, ...]:
        """The signals that answer it; whoever waits for an event or a decision takes none."""
        return (self.name,) if self.what == "signal" else ()

    def decode(self, name: str, payload: Raw) -> Any:
        """The answer in its type; InvalidInput when it does not fit."""
        return self.codec.decode(payload)

    @property
    def choices(self) -> list[ev.TriggerChoice]:
        return []


class TriggerCall(WaitCall):
    """Waits at a place of a machine for one of the transitions that must be triggered."""

    __slots__ = ("codecs",)

    def __init__(
        self, path: str, future: asyncio.Future[Any], place: str, codecs: Mapping[str, Codec]
    ) -> None:
        super().__init__(path, future, what="trigger", name=place, codec=PLAIN, timeout=None)
        self.codecs = codecs

    @property
    def text(self) -> str:
        return f"at {self.name}: waiting for {' or '.join(self.codecs)}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.codecs)

    def decode(self, name: str, payload: Raw) -> Any:
        codec = self.codecs.get(name)
        if codec is None:  # an older version of the code had asked
            raise CodeChanged(f"nothing that {excerpt(name)} triggers leaves {excerpt(self.name)} any more")
        return codec.decode(payload)

    @property
    def choices(self) -> list[ev.TriggerChoice]:
        return [
            ev.TriggerChoice(name=name, form=Raw(msgspec.json.encode(codec.schema())))
            for name, codec in self.codecs.items()
        ]


class BodyCall(Call):
    """Asks for a transition's code to be run once; answered with the state that it leaves."""

    __slots__ = ("announced", "attempt", "body", "move", "running", "variables")
    is_effect = True

    def __init__(
        self,
        path: str,
        future: asyncio.Future[Any],
        move: Transition,
        body: Callable[[Any], Any],
        attempt: int,
    ) -> None:
        self.path = path
        self.future = future
        self.withdrawn = False
        self.after = 0
        self.move = move
        self.body = body
        self.attempt = attempt
        self.announced = False
        self.variables = copy_context()
        self.running: Any = None  # the engine's Body, once it has begun

    @property
    def text(self) -> str:
        return f"at {self.move.source}: {self.move.name}"


class BackoffCall(TimerCall):
    """Waits for the time of a transition's next attempt: a timer that its failure has set."""

    __slots__ = ("due_at", "move")

    def __init__(self, path: str, future: asyncio.Future[Any], move: Transition, due_at: float) -> None:
        super().__init__(path, future, 0.0, retry=True)
        self.move = move
        self.due_at = due_at

    @property
    def text(self) -> str:
        return f"at {self.move.source}: retry of {self.move.name}"


class ChildCall(Call):
    """Asks for a child to be started; answered when that is on disk. `new` is None when it is."""

    __slots__ = ("detached", "new", "trigger")
    is_effect = True

    def __init__(
        self,
        path: str,
        future: asyncio.Future[Any],
        new: NewRun | None,
        detached: bool,
        trigger: str = "",
    ) -> None:
        super().__init__(path, future)
        self.new = new
        self.detached = detached
        self.trigger = trigger


class ResultCall(Call):
    """Asks for a child's end."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return f"waiting for child {self.path.rstrip('!')}"
