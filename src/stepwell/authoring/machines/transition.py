"""@transition: a way from one place of a machine to another, and the code that is run on it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import FrameType
from typing import Any, TypeVar

from stepwell.authoring.decorator import declares
from stepwell.domain.duration import Duration
from stepwell.domain.machine import TRANSITION_TIMEOUT
from stepwell.domain.retry import ONCE, Retry
from stepwell.errors import InvalidDefinition

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__stepwell_transition__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What was written, unchecked: the machine tells of all that is wrong at once."""

    source: Any
    target: Any
    wait: Any
    when: Any
    retry: Any
    timeout: Any
    on_error: Any
    on_timeout: Any
    priority: Any
    replaces: int = 0  # the line of another of that name, which is lost
    twice: bool = False  # there is another @transition on the same method


@declares('@transition("review", "paid")')
def transition(
    source: str | Sequence[str],
    target: str,
    *,
    wait: Any = False,
    when: Callable[..., bool] | None = None,
    retry: Retry = ONCE,
    timeout: Duration | None = TRANSITION_TIMEOUT,
    on_error: str = "",
    on_timeout: str = "",
    priority: int = 0,
) -> Callable[[F], F]:
    """Declare a method of a Machine as the way from `source` (or several) to `target`.

    Without `wait` it is taken by itself when the machine is at `source`; with `wait=True`, or the type
    of what must come along, it waits to be triggered: `run.trigger("approve", {...})`. Of several ways
    the first whose `when(state, input)` holds is taken, higher `priority` first, those without `when`
    last. A failing body leaves no trace; `retry` says how often it is tried, `on_error`, `on_timeout`
    and `Retry(then=...)` where to go after that. `timeout` is for one attempt; `None` disables it.
    """
    declared = Declared(
        source=source,
        target=target,
        wait=wait,
        when=when,
        retry=retry,
        timeout=timeout,
        on_error=on_error,
        on_timeout=on_timeout,
        priority=priority,
    )

    def decorate(method: F) -> F:
        ours = inspect.currentframe()
        outside = ours.f_back if ours else None  # the body of the class
        earlier: Any = outside.f_locals.get(getattr(method, "__name__", "")) if outside else None
        line = inspect.unwrap(earlier).__code__.co_firstlineno if hasattr(earlier, MARK) else 0
        twice = hasattr(method, MARK) and not hasattr(method, "__wrapped__")  # wrappers copy the mark
        try:
            setattr(method, MARK, replace(declared, replaces=line, twice=twice))
        except AttributeError:
            raise _no_method(method, outside) from None
        if not hasattr(method, "__name__") or isinstance(method, type):
            raise _no_method(method, outside)
        return method

    return decorate


def _no_method(given: object, outside: FrameType | None) -> InvalidDefinition:
    """It cannot carry what is said of it, so it is refused where it stands."""
    where = f"{PurePath(outside.f_code.co_filename).name}:{outside.f_lineno} " if outside else ""
    return InvalidDefinition(
        f"{where}@transition is on {given!r} ({type(given).__name__}), which is no method",
        hint="decorate a method: async def go(self, ctx: Context) -> None; call what you have from there",
    )
