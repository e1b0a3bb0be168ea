"""@transition: declare a method as the way from one place of a machine to another."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import PurePath
from types import FrameType
from typing import Any, TypeVar

from stepwell.authoring.decorator import declares
from stepwell.domain.duration import Duration
from stepwell.domain.machine import TRANSITION_TIMEOUT, Transition
from stepwell.domain.retry import ONCE, Retry
from stepwell.errors import InvalidDefinition

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__stepwell_transition__"


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

    Without `wait` it is taken automatically when the machine is at `source`. With `wait=True`, or with
    the type of the payload, it waits to be triggered: `run.trigger("approve", {...})`. If several can be
    taken, the first whose `when(state, input)` holds is: higher `priority` first, those without `when`
    last. A failed attempt changes nothing. `retry` sets the number of attempts; `on_error`, `on_timeout`
    and `Retry(then=...)` name the place to go to after the last one. `timeout` limits one attempt;
    `None` disables it.
    """
    # Unchecked: the machine's class reports every mistake at once.
    options: dict[str, Any] = {
        "sources": source,
        "target": target,
        "wait": wait,
        "when": when,
        "retry": retry,
        "timeout": timeout,
        "on_error": on_error,
        "on_timeout": on_timeout,
        "priority": priority,
    }

    def decorate(method: F) -> F:
        frame = inspect.currentframe()
        class_body = frame.f_back if frame else None
        name = getattr(method, "__name__", "")
        mistakes = _mistakes(method, class_body.f_locals.get(name) if class_body else None)
        try:
            setattr(method, MARK, Transition(name=name, function=method, mistakes=mistakes, **options))
        except AttributeError:
            raise _not_a_method(method, class_body) from None
        if not name or isinstance(method, type):
            raise _not_a_method(method, class_body)
        return method

    return decorate


def _mistakes(method: Callable[..., Any], earlier: Any) -> tuple[str, ...]:
    """What only the decorator can see: a transition that this one makes disappear."""
    mistakes = []
    if hasattr(method, MARK) and not hasattr(method, "__wrapped__"):  # wrappers copy the mark
        mistakes.append(
            "it has @transition twice, and one is lost: name several sources in a list, or write two methods"
        )
    if hasattr(earlier, MARK):
        line = inspect.unwrap(earlier).__code__.co_firstlineno
        mistakes.append(f"it replaces the transition of that name at line {line}: give one another name")
    return tuple(mistakes)


def _not_a_method(decorated: object, class_body: FrameType | None) -> InvalidDefinition:
    """It cannot carry the mark, so the class could not report it."""
    where = f"{PurePath(class_body.f_code.co_filename).name}:{class_body.f_lineno} " if class_body else ""
    return InvalidDefinition(
        f"{where}@transition is on {decorated!r} ({type(decorated).__name__}), which is not a method",
        hint="decorate a method: async def go(self, ctx: Context) -> None; and call it from there",
    )
