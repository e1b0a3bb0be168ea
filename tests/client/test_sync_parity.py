"""The sync client and its handles mirror the async ones: the same verbs, parameters, defaults and words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_overloads, get_type_hints

import pytest

from stepwell import RunHandle, SyncClient, SyncRunHandle
from stepwell.client import Client
from stepwell.client.schedules import Schedules
from stepwell.client.triggers import NamedTriggers
from stepwell.sync_client import SyncSchedules

# Public methods that are not verbs, with the reason why sync code has no use for them.
INTERNAL = {
    "check_usable": "the guard of a start, for Engine to override",
    "built": "for what workflows declare",
    "within": "for servers; sync code opens a SyncClient with a workspace",
}

LEFT_OUT: Any = "left to the async verb"
Parameters = dict[str, tuple[Any, Any]]


def verbs(kind: type) -> dict[str, Callable[..., Any]]:
    """Its own verbs, and those that it shares with other triggers."""
    owners = (NamedTriggers, kind) if issubclass(kind, NamedTriggers) else (kind,)
    return {
        name: member
        for owner in owners
        for name, member in vars(owner).items()
        if inspect.isfunction(member) and not name.startswith("_") and name not in INTERNAL
    }


def signatures(verb: Callable[..., Any]) -> list[Parameters]:
    """The parameters of each overload: kind and default by name. An Unpack counts as its keywords."""
    return [parameters(function) for function in get_overloads(inspect.unwrap(verb)) or [verb]]


def parameters(function: Callable[..., Any]) -> Parameters:
    expanded: Parameters = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self":
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            (options,) = get_args(get_type_hints(inspect.unwrap(function))[name])
            keywords = get_type_hints(options)
            expanded |= {keyword: (parameter.KEYWORD_ONLY, LEFT_OUT) for keyword in keywords}
        else:
            expanded[name] = (parameter.kind, parameter.default)
    return expanded


def same_parameters(one: Parameters, other: Parameters) -> bool:
    return one.keys() == other.keys() and all(
        kind is other[name][0] and (default == other[name][1] or LEFT_OUT in (default, other[name][1]))
        for name, (kind, default) in one.items()
    )


def first_line(verb: Callable[..., Any]) -> str:
    return (inspect.getdoc(verb) or "").partition("\n")[0]


def differences(asynchronous: type, sync: type) -> Iterator[str]:
    theirs, ours = verbs(asynchronous), verbs(sync)
    for name, verb in theirs.items():
        mirror = ours.get(name)
        at = f"{sync.__name__}.{name}"
        if mirror is None:
            how = "_iterator" if inspect.isasyncgenfunction(verb) else "_verb"
            line = f"`{name} = {how}({asynchronous.__name__}.{name})`"
            yield f"{at} is missing: add {line} to sync_client.py, or forward it if it takes or gives handles"
        elif len(signatures(mirror)) != len(signatures(verb)) or not all(
            map(same_parameters, signatures(verb), signatures(mirror))
        ):
            yield f"{at} takes {inspect.signature(mirror)}, the async verb {inspect.signature(verb)}"
        elif first_line(mirror) != first_line(verb):
            yield f"{at} is described as {first_line(mirror)!r}, the async verb as {first_line(verb)!r}"
    yield from (f"{sync.__name__}.{name} has no async verb" for name in ours.keys() - theirs.keys())


@pytest.mark.req("F15")
@pytest.mark.parametrize(
    ("asynchronous", "sync"),
    [(Client, SyncClient), (RunHandle, SyncRunHandle), (Schedules, SyncSchedules)],
    ids=["client", "handle", "schedules"],
)
def test_every_async_verb_has_a_sync_one_with_the_same_parameters(asynchronous: type, sync: type) -> None:
    assert not list(differences(asynchronous, sync))


@pytest.mark.req("F15")
def test_no_sync_verb_gives_something_to_await() -> None:
    mirrors = {**verbs(SyncClient), **verbs(SyncRunHandle)}

    asynchronous = [
        name
        for name, verb in mirrors.items()
        if inspect.iscoroutinefunction(verb) or inspect.isasyncgenfunction(verb)
    ]

    assert not asynchronous


class Verbs:
    async def hold(self, reason: str = "", *, by: str = "") -> None:
        """Hold the run."""

    async def log(self) -> Any:
        """Read the log."""
        yield 1


class Fewer:
    def log(self) -> None:
        """Read a log."""


class Other:
    def hold(self, reason: str = "none", *, by: str = "") -> None:
        """Hold the run."""

    def log(self) -> None:
        """Read the log."""

    def free(self) -> None: ...


def test_a_verb_that_is_missing_or_differs_is_named() -> None:
    missing, described = differences(Verbs, Fewer)
    differs, extra = differences(Verbs, Other)

    assert "Fewer.hold is missing: add `hold = _verb(Verbs.hold)`" in missing
    assert described == "Fewer.log is described as 'Read a log.', the async verb as 'Read the log.'"
    assert "Other.hold takes (self, reason: 'str' = 'none'" in differs
    assert extra == "Other.free has no async verb"
