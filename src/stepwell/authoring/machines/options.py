"""Options: what a machine's class says about all of its runs, and where it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from stepwell.authoring.machines.checks import Problems
from stepwell.domain.duration import timeout_seconds
from stepwell.domain.limits import checked_concurrency
from stepwell.domain.program import RunOptions, checked_on_failure
from stepwell.domain.steps import checked_name
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import InvalidDefinition

T = TypeVar("T")

NAMES = ("abstract", "concurrency", "name", "on_failure", "priority", "queue", "timeout", "version")


def checked_options(given: Mapping[str, Any], unknown: Mapping[str, Any], problems: Problems) -> RunOptions:
    """The options of a class; `unknown` are those that nobody takes."""
    for name in unknown:
        problems.add(None, f"{name}= is no option of a machine; {did_you_mean_one_of(name, NAMES)}")
    priority = given["priority"]
    if not isinstance(priority, int) or isinstance(priority, bool):
        problems.add(None, f"priority={priority!r} is no whole number")
    return RunOptions(
        timeout=_told(problems, None, lambda: timeout_seconds(given["timeout"])),
        queue=_told(problems, "", lambda: checked_name(given["queue"])),
        priority=priority,
        concurrency=_told(problems, None, lambda: checked_concurrency(given["concurrency"], "the class")),
        on_failure=_told(problems, "compensate", lambda: checked_on_failure(given["on_failure"])),
    )


def told_name(name: Any, what: str, problems: Problems) -> str:
    return _told(problems, "", lambda: checked_name(name, what))


def checked_ends(ends: Any, problems: Problems) -> frozenset[str]:
    if isinstance(ends, str) or not isinstance(ends, set | frozenset | list | tuple):
        problems.add(None, f"ends = {ends!r} is no set of places; write ends = {{'end'}}")
        return frozenset({ends} if isinstance(ends, str) else ())
    for place in ends:
        if not isinstance(place, str) or not place:
            problems.add(None, f"{place!r} in ends is no place; places are text")
    return frozenset(place for place in ends if isinstance(place, str))


def _told(problems: Problems, instead: T, read: Callable[[], T]) -> T:
    try:
        return read()
    except InvalidDefinition as error:
        problems.add(None, f"{error.message}; {error.hint}" if error.hint else error.message)
        return instead
