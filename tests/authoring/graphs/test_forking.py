"""Forks of graph runs whose waits had been answered: what is kept, asked again, or answered otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import NodeResult, Retry, RunHandle, node
from stepwell.errors import InvalidInput, StepNotFound
from tests.authoring.graphs.graphs import START, a, chart, traced
from tests.engines import Engines, all_events, suspended, until

_END = a("Z", "end", output={"h": "{{ctx.h.response}}", "w": "{{default(ctx?.w, 0)}}"})
_BODY = chart(
    [START, a("H", "approval", outputVariable="h"), a("W", "wait", event="go", outputVariable="w"), _END],
    "S>H H-approved>W W>Z H-denied>Z",
)


async def _answered(run: RunHandle[Any]) -> dict[str, Any]:
    await suspended(run)
    await run.decide("approved", path="0/H", by="ana")
    await run.event("go", {"n": 1})
    found: dict[str, Any] = await run.result(timeout=60)
    return found


async def _asked(run: RunHandle[Any], path: str) -> None:
    async def there() -> bool:
        return path in (await run.state()).waits

    await until(there)


@pytest.mark.req("K26", "G9")
async def test_a_decision_and_an_event_are_edited_in_a_fork(engines: Engines) -> None:
    async with engines.new(_BODY) as engine:
        run = await engine.start("chart", {})
        assert await _answered(run) == {"h": "approved", "w": {"n": 1}}
        last = (await all_events(run))[-1].seq

        other = await engine.fork(run, at=last, outputs={"W": {"n": 2}})
        assert await other.result(timeout=60) == {"h": "approved", "w": {"n": 2}}
        denied = await engine.fork(run, at=last, outputs={"H": {"response": "denied", "comment": "no"}})
        assert await denied.result(timeout=60) == {"h": "denied", "w": 0}
        same = await engine.fork(run, at=last)
        assert await same.result(timeout=60) == {"h": "approved", "w": {"n": 1}}
        assert (await traced(same))["W"].output == {"n": 1}


@pytest.mark.req("K26", "G9")
async def test_what_is_done_again_is_asked_again(engines: Engines) -> None:
    async with engines.new(_BODY) as engine:
        run = await engine.start("chart", {})
        await _answered(run)

        again = await engine.rerun_from_node(run, "H")
        await _asked(again, "0/H")
        assert await _answered(again) == {"h": "approved", "w": {"n": 1}}
        later = await engine.rerun_from_node(run, "W")
        await _asked(later, "0/W")
        await later.event("go", 7)
        assert await later.result(timeout=60) == {"h": "approved", "w": 7}


@pytest.mark.req("K26")
async def test_an_event_that_nobody_had_taken_is_there_in_the_fork_too(memory_engines: Engines) -> None:
    waits = [a(id, "wait", event="go", key=id, outputVariable=id.lower()) for id in ("V", "W")]
    body = chart([START, *waits, a("Z", "end", output={"v": "{{ctx.v}}", "w": "{{ctx.w}}"})], "S>V V>W W>Z")
    async with memory_engines.new(body) as engine:
        run = await engine.start("chart", {})
        await suspended(run)
        await run.event("go", "w", key="W")  # taken out of the mailbox when its wait begins
        await run.event("go", "v", key="V")
        assert await run.result(timeout=60) == {"v": "v", "w": "w"}
        log = await all_events(run)

        first = next(e.seq for e in log if e.kind == "received")
        early = await engine.fork(run, at=first)  # V had got nothing yet
        await early.event("go", "x", key="V")
        assert await early.result(timeout=60) == {"v": "x", "w": "w"}
        other = await engine.fork(run, at=log[-1].seq, outputs={"W": "y"})
        assert await other.result(timeout=60) == {"v": "v", "w": "y"}


@pytest.mark.req("K26")
async def test_a_wait_that_ran_out_is_answered_in_a_fork(memory_engines: Engines) -> None:
    waits = [a("H", "approval", timeoutMs=1, outputVariable="h"), a("D", "delay", ms=1)]
    end = a("Z", "end", output={"h": "{{ctx.h}}"})
    body = chart([START, *waits, end], "S>D D>H H-approved>Z H-timeout>Z")
    async with memory_engines.new(body) as engine:
        run = await engine.start("chart", {})
        assert await run.result(timeout=60) == {"h": {"timedOut": True}}
        last = (await all_events(run))[-1].seq

        forked = await engine.fork(run, at=last, outputs={"H": "approved"})
        assert await forked.result(timeout=60) == {"h": {"response": "approved"}}
        with pytest.raises(InvalidInput, match="H"):
            await engine.fork(run, at=last, outputs={"H": "perhaps"})
        with pytest.raises(InvalidInput, match="decides which handle it takes"):
            await engine.fork(run, at=last, outputs={"H": NodeResult("approved", "denied")})
        with pytest.raises(InvalidInput, match="D waits for a time"):
            await engine.fork(run, at=last, outputs={"D": 1})
        opened = next(e.seq for e in await all_events(run) if e.kind == "wait_opened")
        with pytest.raises(StepNotFound, match="0/H"):
            await engine.fork(run, at=opened, outputs={"H": "approved"})


@pytest.mark.req("K26", "N17", "N20")
async def test_what_was_tried_again_is_done_again_from_its_first_attempt(memory_engines: Engines) -> None:
    begun: list[str] = []

    @node("fragile", retry=Retry(1))
    async def fragile(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> int:
        begun.append(helpers.node)
        if begun.count(helpers.node) % 2:
            raise ValueError("again")
        return len(begun)

    kid = chart([START, a("B", "fragile"), a("Z", "end")], "S>B B>Z", name="kid")
    nodes = [
        a("R", "retry", maxAttempts=2, delayMs=1),
        a("A", "fragile", "R"),
        a("W", "workflow", workflow="kid", retry={"maxAttempts": 2, "delayMs": 1}),
    ]
    body = chart([START, *nodes, a("Z", "end")], "S>R R>W W>Z")
    async with memory_engines.new(body, kid, nodes=[fragile]) as engine:
        run = await engine.start("chart", {})
        assert await run.result(timeout=60) == {}
        assert begun == ["A", "A", "B", "B"]

        await (await engine.rerun_from_node(run, "W")).result(timeout=60)
        assert begun == ["A", "A", "B", "B", "B", "B"]
        await (await engine.rerun_from_node(run, "R")).result(timeout=60)
        assert begun[6:] == ["A", "A", "B", "B"]
