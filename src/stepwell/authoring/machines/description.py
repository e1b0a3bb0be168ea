"""A machine as JSON: its places, transitions and schemas, for Studio and for those without its code."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from stepwell.authoring.machines.exits import START, Exit
from stepwell.domain.duration import seconds

if TYPE_CHECKING:
    from stepwell.authoring.machines.machine import Plan


def describe(plan: Plan, *, name: str, version: str) -> bytes:
    """Equal machines, equal bytes: the hash of a definition is made from it."""
    machine = plan.machine
    return msgspec.json.encode(
        {
            "name": name,
            "version": version,
            "source": f"{machine.__module__}:{machine.__qualname__}",
            "description": inspect.cleandoc(machine.__doc__ or "") if "__doc__" in vars(machine) else "",
            "start": START,
            "ends": sorted(plan.ends),
            "places": [_place(place, plan) for place in place_names(plan)],
            "transitions": [_transition(exit, plan) for exit in plan.exits],
            "input": plan.input.schema(),
            "state": plan.state.schema(),
        },
        order="deterministic",
    )


def place_names(plan: Plan) -> list[str]:
    """In the order in which a reader meets them; the ends last."""
    found = dict.fromkeys([START])
    for exit in plan.exits:
        found.update(dict.fromkeys(exit.sources))
        found.update(dict.fromkeys(place for _, place in leads_to(exit)))
    return [*(p for p in found if p not in plan.ends), *(p for p in found if p in plan.ends)]


def leads_to(exit: Exit) -> list[tuple[str, str]]:
    """Each place that it can lead to, with why: done | error | timeout."""
    move = next(iter(exit.moves.values()))
    ways = [("done", exit.target)]
    if move.on_error or move.retry.then:
        ways.append(("error", move.on_error or move.retry.then))
    if move.on_timeout:
        ways.append(("timeout", move.on_timeout))
    return ways


def _place(place: str, plan: Plan) -> dict[str, Any]:
    exits = plan.places.get(place)
    return {
        "name": place,
        "kind": "start" if place == START else "end" if place in plan.ends else "place",
        "waits": bool(exits and exits.waiting),
    }


def _transition(exit: Exit, plan: Plan) -> dict[str, Any]:
    move = next(iter(exit.moves.values()))
    retry = move.retry
    return {
        "name": exit.name,
        "description": inspect.cleandoc(exit.function.__doc__ or ""),
        "sources": list(exit.sources),
        "target": exit.target,
        "wait": exit.waits,
        "form": plan.payloads[exit.name].schema() if exit.waits else None,
        "guarded": exit.when is not None,
        "priority": exit.priority,
        "timeout": move.timeout,
        "retry": {
            "attempts": retry.attempts,
            "delay": seconds(retry.delay),
            "backoff": retry.backoff,
            "max_delay": retry.longest,
            "then": retry.then,
        },
        "on_error": move.on_error,
        "on_timeout": move.on_timeout,
        "line": exit.function.__code__.co_firstlineno,
    }
