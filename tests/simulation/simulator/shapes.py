"""Shapes: which input a run of each workflow gets, and which end is right for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from stepwell.domain.program import Startable
from tests.simulation.checker.evidence import Wanted
from tests.simulation.simulator import contests as c
from tests.simulation.simulator import listeners as li
from tests.simulation.simulator import machines as m
from tests.simulation.simulator import workflows as w


class Shape(NamedTuple):
    workflow: Startable[Any, Any]
    input: Callable[[random.Random], dict[str, Any]]
    wanted: Callable[[dict[str, Any]], Wanted]
    script: str = "wait"  # what its client does


def _is(result: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Wanted]:
    return lambda plan: Wanted(fits=lambda output: output == result(plan))


def _chain(rng: random.Random) -> dict[str, Any]:
    return {"n": rng.randint(1, 5), "fails": rng.choice((0, 0, 1, 3))}


def _branches(rng: random.Random) -> dict[str, Any]:
    return {"n": rng.randint(2, 4), "seconds": rng.choice((0.01, 0.7, 4.0))}


def _sleeper(rng: random.Random) -> dict[str, Any]:
    return {"sleeps": [rng.choice((0.0, 0.05, 0.9, 3.0, 9.0)) for _ in range(rng.randint(1, 3))]}


def _count(rng: random.Random) -> dict[str, Any]:
    return {"n": rng.randint(1, 4)}


def _raced(output: Any) -> bool:
    return len(output) == 2 and output[0] in ("left", "right", "timer") and output[1] == "after"


def _impatient(output: Any) -> bool:
    return str(output) in ("0+other", "too late+other")


def _together(rng: random.Random) -> dict[str, Any]:
    return {"seconds": rng.choice((0.05, 0.6, 3.0)), "pause": rng.choice((0.05, 0.9))}


def _all_seen(output: Any) -> bool:
    same, *seen = output
    return same is True and sorted(set(seen) - {"one", "two"}) == ["a", "b"] and len(seen) <= 3


def _mixed(rng: random.Random) -> dict[str, Any]:
    return {
        "n": rng.randint(2, 5),
        "seconds": rng.choice((0.0, 0.02, 0.2)),
        "pause": rng.choice((0.05, 0.9)),
    }


def _endless(rng: random.Random) -> dict[str, Any]:
    return {"seconds": rng.choice((0.5, 1.0)), "steps": rng.random() < 0.5, "gone": 0}


def _sender(stays: bool) -> Callable[[random.Random], dict[str, Any]]:
    return lambda rng: {"seconds": rng.choice((0.1, 3.0)), "stays": stays}


def _fails(plan: dict[str, Any]) -> Wanted:
    return Wanted(("failed",)) if plan["fails"] else Wanted(fits=lambda output: output == "won")


CONTESTS: tuple[Shape, ...] = (
    Shape(c.together, _together, lambda p: Wanted(fits=_all_seen), "two_signals"),
    Shape(
        c.mixed,
        _mixed,
        _is(lambda p: [True, *(f"{n}.{turn}" for n in range(p["n"]) for turn in (0, 1))]),
    ),
    Shape(c.endless, _endless, lambda p: Wanted(("cancelled",)), "go_and_cancel"),
    Shape(
        c.limited, lambda rng: {"times": rng.randint(0, 2)}, _is(lambda p: ["beside", "slow", "timed out"])
    ),
    Shape(c.overdue, lambda rng: {"sleeps": rng.random() < 0.5}, lambda p: Wanted(("timed_out",))),
    Shape(c.sender, _sender(stays=False), _is(lambda p: ["first"])),
    Shape(c.sender, _sender(stays=True), lambda p: Wanted(("cancelled",)), "cancel"),
    Shape(c.leaver, lambda rng: {"fails": rng.random() < 0.5}, _fails, "pester"),
    Shape(c.forgetful, lambda rng: {}, _is(lambda p: ["Broken", "c0"]), "pester"),
)


def _listens(rng: random.Random, **plan: Any) -> dict[str, Any]:
    return {"name": f"n{rng.getrandbits(40):x}", "n": rng.randint(2, 4), **plan}


def _follower(rng: random.Random) -> dict[str, Any]:
    return _listens(rng, first=rng.random() < 0.5, generations=rng.randint(1, 3), got=[])


def _crowd(rng: random.Random) -> dict[str, Any]:
    return _listens(rng, keys=rng.choice((["a", "a"], ["", "a"], ["a", ""], ["", ""], ["b", "", "a"])))


def _rising(numbers: list[int]) -> bool:
    return all(before < after for before, after in pairwise(numbers))


def _shared(plan: dict[str, Any]) -> Wanted:
    def fits(parts: Any) -> bool:
        taken = [number for part in parts for number in part]
        return all(map(_rising, parts)) and len(set(taken)) == len(plan["keys"]) * plan["n"]

    return Wanted(fits=fits)


# The client decides which events there are: the checker knows which of them must have been taken.
LISTENERS: tuple[Shape, ...] = (
    Shape(
        li.follower,
        _follower,
        lambda p: Wanted(fits=lambda got: _rising(got) and len(got) == p["n"] * p["generations"]),
        "bursts",
    ),
    Shape(li.crowd, _crowd, _shared, "bursts"),
    Shape(
        li.doubter,
        lambda rng: _listens(rng, timeout=rng.choice((0.005, 0.02, 0.3))),
        lambda p: Wanted(fits=lambda got: _rising(got) and len(got) == p["n"]),
        "bursts",
    ),
    Shape(
        li.TrackedTask,
        _listens,
        lambda p: Wanted(fits=lambda end: _rising(end["got"]) and len(end["got"]) == p["n"]),
        "bursts",
    ),
)
PROBE = Shape(w.chain, _chain, _is(lambda p: [f"c{i}" for i in range(p["n"])]))  # after healing
SHAPES: tuple[Shape, ...] = (
    PROBE,
    *CONTESTS,
    *LISTENERS,
    Shape(w.branches, _branches, _is(lambda p: [[f"b{i}a", f"b{i}b"] for i in range(p["n"])])),
    Shape(
        w.mapped,
        lambda rng: {"n": rng.randint(1, 9), "limit": rng.randint(1, 4)},
        _is(lambda p: [f"item{i}" for i in range(p["n"])]),
    ),
    Shape(w.sleeper, _sleeper, _is(lambda p: ["rested"])),
    Shape(w.signalled, _count, _is(lambda p: list(range(p["n"]))), "signals"),
    Shape(
        w.impatient,
        lambda rng: {"timeout": rng.choice((0.3, 2.0, 8.0))},
        lambda p: Wanted(fits=_impatient),
        "both",
    ),
    Shape(
        w.raced,
        lambda rng: {"seconds": rng.choice((0.01, 0.1, 3.0))},
        lambda p: Wanted(fits=_raced),
    ),
    Shape(
        w.informed,
        lambda rng: {"key": f"k{rng.getrandbits(40):x}"},
        lambda p: Wanted(fits=lambda output: str(output).startswith("news")),
        "events",
    ),
    Shape(w.approved, lambda rng: {"n": rng.randint(1, 2)}, _is(lambda p: list(range(p["n"]))), "approvals"),
    Shape(
        w.generations,
        lambda rng: {"n": rng.randint(2, 4), "got": []},
        _is(lambda p: list(range(p["n"]))),
        "signals",
    ),
    Shape(
        w.remote,
        lambda rng: {"fails": rng.choice((0, 0, 1))},
        _is(lambda p: ["near", "far", "further", "last"]),
    ),
    Shape(w.booked, lambda rng: {}, _is(lambda p: ["before", "own", "one", "beside", "two"])),
    Shape(
        w.parent,
        lambda rng: {},
        _is(lambda p: [["item0", "item1", "item2"], ["c0"], ["c0", "c1"], "own"]),
    ),
    Shape(w.forgiving, lambda rng: {}, _is(lambda p: ["Broken", "child failed", "forgiven"])),
    Shape(
        w.retried, lambda rng: {"fails": rng.choice((2, 3, 4))}, _is(lambda p: ["kept", "mended"]), "retry"
    ),
    Shape(
        w.cancelled,
        lambda rng: {"seconds": rng.choice((0.1, 3.0, 900.0))},
        lambda p: Wanted(("cancelled",), steps=("cleanup",)),
        "cancel",
    ),
    Shape(w.abandoned, lambda rng: {}, lambda p: Wanted(("cancelled",)), "cancel"),
)


def _case(rng: random.Random) -> dict[str, Any]:
    return {
        "fails": rng.choice((0, 1, 2, 3)),
        "hangs": rng.choice((0, 0, 1, 2)),
        "breaks": rng.random() < 0.3,
    }


def _undone(rng: random.Random) -> dict[str, Any]:
    return {"n": rng.randint(0, 3), "fails": rng.choice((0, 1, 3)), "waits": False}


def _undone_by_cancel(rng: random.Random) -> dict[str, Any]:
    return {**_undone(rng), "waits": True, "seconds": rng.choice((0.1, 3.0, 900.0))}


# Simulated separately: that shows more of each in fewer seeds.
MACHINES: tuple[Shape, ...] = (
    Shape(m.Case, _case, _is(m.case_state), "triggers"),
    Shape(m.Case, _case, lambda p: Wanted(("cancelled",)), "cancel"),
    Shape(m.Held, lambda rng: {"fails": rng.choice((2, 3, 5))}, _is(lambda p: ["begin", "go"]), "retry"),
    Shape(m.SagaMachine, _undone, lambda p: Wanted(("failed",))),
    Shape(m.SagaMachine, _undone_by_cancel, lambda p: Wanted(("cancelled",)), "cancel"),
    Shape(w.saga, _undone, lambda p: Wanted(("failed",))),
    Shape(w.saga, _undone_by_cancel, lambda p: Wanted(("cancelled",)), "cancel"),
)
