"""@transition: a way from one place of a machine to another, and the code that is run on it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from stepwell.domain.duration import Duration
from stepwell.domain.moves import TRANSITION_TIMEOUT
from stepwell.domain.retry import ONCE, Retry

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
        body = inspect.currentframe()  # ours; outside is the body of the class
        earlier: Any = body.f_back.f_locals.get(method.__name__) if body and body.f_back else None
        line = earlier.__code__.co_firstlineno if hasattr(earlier, MARK) else 0
        setattr(method, MARK, replace(declared, replaces=line))
        return method

    return decorate
