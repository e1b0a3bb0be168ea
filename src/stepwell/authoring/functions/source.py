"""@source: a trigger type written as a function that finds events and remembers where to continue."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, overload

import msgspec

from stepwell.domain.codec import codec_for
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.schema import Schema
from stepwell.domain.steps import annotations_of, checked_name
from stepwell.domain.triggers.event_runs import SourceEvent
from stepwell.errors import InvalidDefinition, InvalidInput, excerpt


class Source:
    """A trigger type. `schema` is the JSON Schema of its configuration."""

    def __init__(self, function: Callable[..., Any], *, name: str, every: float) -> None:
        parameters = list(inspect.signature(function).parameters)
        self.listens = inspect.isasyncgenfunction(function)
        if len(parameters) != 2 or not (self.listens or inspect.iscoroutinefunction(function)):
            raise InvalidDefinition(
                f"source {excerpt(name or function.__name__)} does not take (config, cursor)",
                hint="write `async def inbox(config: Inbox, cursor: str | None) -> list[SourceEvent]`",
            )
        self.name = checked_name(name or function.__name__, "a source")
        self.every = every
        self._function = function
        self._codec = codec_for(annotations_of(function).get(parameters[0], Any))
        self.schema = self._codec.schema()

    def check(self, config: Any) -> None:
        try:
            Schema(self.schema).check(config)
        except InvalidInput as error:
            raise InvalidInput(f"the config of source {self.name}: {error.message}", field="config") from None

    async def batches(self, config: bytes, cursor: Any) -> AsyncIterator[Sequence[SourceEvent]]:
        """Yield the events: all at once from a function, one by one from a generator."""
        answer = self._function(self._codec.decode(config), cursor)
        if not self.listens:
            yield _checked(self.name, list(await answer))
            return
        async for event in answer:
            yield _checked(self.name, [event])

    def __repr__(self) -> str:
        return f"<source {self.name}>"


def _checked(name: str, events: list[Any]) -> list[SourceEvent]:
    for event in events:
        if not isinstance(event, SourceEvent) or not event.id:
            raise InvalidDefinition(
                f"source {name} found {excerpt(event)}", hint='give SourceEvent("id", payload, cursor)'
            )
        msgspec.json.encode(event.cursor)
    return events


@overload
def source(function: Callable[..., Any], /) -> Source: ...
@overload
def source(*, name: str = "", every: Duration = "30s") -> Callable[[Callable[..., Any]], Source]: ...
def source(function: Callable[..., Any] | None = None, /, *, name: str = "", every: Duration = "30s") -> Any:
    """Declare a type of trigger: `@source`, or `@source(every="1m")`; give it to `Engine(sources=[inbox])`.

    The function takes its config and its last cursor. It returns a list of SourceEvent, and is asked again
    after `every`; or it is a generator that yields them as they come.
    """
    length = seconds(every, name="@source every")

    def decorate(target: Callable[..., Any]) -> Source:
        return Source(target, name=name, every=length)

    return decorate if function is None else decorate(function)
