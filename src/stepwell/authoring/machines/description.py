"""Describe a machine as JSON: places, transitions and schemas, for readers without its code."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from stepwell.authoring.machines.plan import MachinePlan
from stepwell.domain.duration import seconds
from stepwell.domain.machine import START, Transition


def describe(plan: MachinePlan, *, name: str, version: str) -> bytes:
    """Return the description. Equal machines have equal bytes: a definition's hash is computed from them."""
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
            "transitions": [_transition(transition, plan) for transition in plan.transitions],
            "input": plan.input.schema(),
            "state": plan.state.schema(),
        },
        order="deterministic",
    )


def place_names(plan: MachinePlan) -> list[str]:
    """List the places in source order, the ends last."""
    places = dict.fromkeys([START])
    for transition in plan.transitions:
        places.update(dict.fromkeys(transition.sources))
        places.update(dict.fromkeys(place for _, place in transition.destinations()))
    return [*(p for p in places if p not in plan.ends), *(p for p in places if p in plan.ends)]


def _place(place: str, plan: MachinePlan) -> dict[str, Any]:
    leaving = plan.outgoing.get(place)
    return {
        "name": place,
        "kind": "start" if place == START else "end" if place in plan.ends else "place",
        "waits": bool(leaving and leaving.waiting),
    }


def _transition(transition: Transition, plan: MachinePlan) -> dict[str, Any]:
    retry = transition.retry
    return {
        "name": transition.name,
        "description": inspect.cleandoc(transition.function.__doc__ or ""),
        "sources": list(transition.sources),
        "target": transition.target,
        "wait": transition.waits,
        "form": plan.payloads[transition.name].schema() if transition.waits else None,
        "guarded": transition.when is not None,
        "priority": transition.priority,
        "timeout": None if transition.timeout is None else float(transition.timeout),
        "retry": {
            "attempts": retry.attempts,
            "delay": seconds(retry.delay),
            "backoff": retry.backoff,
            "max_delay": retry.longest,
            "then": retry.then,
        },
        "on_error": transition.on_error,
        "on_timeout": transition.on_timeout,
        "line": transition.function.__code__.co_firstlineno,
    }
