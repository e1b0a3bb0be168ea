"""Retry: how many attempts a step has, and how long to wait between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stepwell.domain.duration import Duration, seconds
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import InvalidDefinition, Permanent, RetryAfter, StepError, excerpt

_MAX_DELAY = 300.0  # seconds
_ATTEMPTS_MAX = 10**9

Backoff = Literal["exponential", "linear", "fixed"]


@dataclass(frozen=True, slots=True)
class Retry:
    """`Retry(5)`: at most five attempts, with delays of 1 s, 2 s, 4 s and 8 s between them.

    No delay is longer than `max_delay`: 5 minutes, or the `delay` itself if that is longer.
    `on` names the errors worth another attempt (all by default), `never` those that are not.
    `jitter` subtracts up to that share of each delay at random, so that retries spread out. `then` is for
    transitions of a machine: the place to go to after the last attempt.
    """

    attempts: int = 3
    delay: Duration = 1.0
    backoff: Backoff = "exponential"
    max_delay: Duration | None = None
    jitter: float = 0.0
    on: tuple[type[BaseException], ...] = (Exception,)
    never: tuple[type[BaseException], ...] = ()
    then: str = ""

    def __post_init__(self) -> None:
        whole_number(
            self.attempts, "Retry.attempts", 1, _ATTEMPTS_MAX, "the first execution counts: give 1 or more"
        )
        if self.backoff not in ("exponential", "linear", "fixed"):
            raise InvalidDefinition(
                f"Retry(backoff={excerpt(self.backoff)})", hint="use 'exponential', 'linear' or 'fixed'"
            )
        jitter: object = self.jitter  # callers without a type checker may pass anything
        if not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
            raise InvalidDefinition(
                f"Retry(jitter={excerpt(self.jitter)})", hint="jitter is a share between 0 and 1"
            )
        _check_errors("on", self.on)
        _check_errors("never", self.never)
        if not isinstance(self.then, str):
            raise InvalidDefinition(f"Retry(then={excerpt(self.then)})", hint="name a place of the machine")
        seconds(self.delay, name="Retry.delay")
        if self.max_delay is not None:
            seconds(self.max_delay, name="Retry.max_delay")

    @property
    def longest(self) -> float:
        """The longest possible delay, in seconds."""
        first = seconds(self.delay)
        return max(_MAX_DELAY, first) if self.max_delay is None else seconds(self.max_delay)

    def wait_after(self, failures: int, error: BaseException, chance: float) -> float | None:
        """Seconds to wait after the `failures`-th failure; None: give up.

        `chance` in [0, 1) is the jitter's random number.
        """
        if is_permanent(error) or failures >= self.attempts:
            return None
        if isinstance(error, RetryAfter):
            return max(0.0, error.seconds)
        if _is_a(error, self.never) or not _is_a(error, self.on):
            return None
        delay = backoff_delay(seconds(self.delay), self.backoff, failures, self.longest)
        return delay * (1 - self.jitter * chance)


def _check_errors(option: str, kinds: object) -> None:
    listed = kinds if isinstance(kinds, tuple) else ()
    if not isinstance(kinds, tuple) or any(
        not isinstance(kind, type) or not issubclass(kind, BaseException) for kind in listed
    ):
        raise InvalidDefinition(
            f"Retry({option}={excerpt(kinds)})",
            hint=f"pass a tuple of exception classes: {option}=(ValueError,)",
        )


def is_permanent(error: BaseException) -> bool:
    """Whether its author says that another attempt cannot help, here or in a step inside."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_permanent(inner) for inner in error.exceptions)
    if isinstance(error, StepError):
        return error.permanent
    return _is_a(error, (Permanent,))


class RemoteError(Exception):
    """An error that a step raised in another process; `kinds` are the names of its classes."""

    def __init__(self, type_name: str, message: str, kinds: list[str], code: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name
        self.kinds = kinds
        self.code = code
        self.hint = ""
        self.trace = ""  # the traceback in that process


def kinds_of(error: BaseException) -> list[str]:
    """The names of its classes, so that a policy in another process can recognise them."""
    if isinstance(error, RemoteError):
        return error.kinds
    return [class_name(kind) for kind in type(error).__mro__]


def class_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_a(error: BaseException, kinds: tuple[type[BaseException], ...]) -> bool:
    """Like isinstance; an error from another process knows only the names of its classes."""
    if isinstance(error, RemoteError):
        return any(class_name(kind) in error.kinds for kind in kinds)
    return isinstance(error, kinds)


ONCE = Retry(1)


def backoff_delay(first: float, backoff: Backoff, failures: int, longest: float) -> float:
    """1 s, 2 s, 4 s ... after the first, second, third failure, never above `longest`."""
    if backoff == "fixed":
        return min(first, longest)
    if backoff == "linear":
        return min(first * failures, longest)
    return min(first * float(2 ** min(failures - 1, 62)), longest)
