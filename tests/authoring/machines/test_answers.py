"""What a transition's body was left waiting for reaches it when it has begun again."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Machine, Retry, RunHandle, StepContext, step, transition
from tests.engines import Engines, all_events, kinds, parked, suspended, until

FAR = "far"


@step
async def weigh(ctx: StepContext, n: int) -> int:
    return n + ctx.attempt


@step(retry=Retry(2, delay=0.01))
async def stumble(ctx: StepContext, n: int) -> int:
    if ctx.attempt == 1:
        raise ValueError("not yet")
    return n + 10


class Parcel(Machine[dict[str, Any]]):
    @transition("start", "end")
    async def pack(self, ctx: Context) -> None:
        far = ctx.step.on(queue=FAR)
        self.state["one"] = await far(weigh, 1)
        self.state["two"] = await ctx.all(far(weigh, 2), far(stumble, 3))


class Asking(Machine[dict[str, Any]]):
    @transition("start", "end")
    async def ask(self, ctx: Context) -> None:
        self.state["first"] = await ctx.approval(str, name="first")
        self.state["both"] = await ctx.all(
            ctx.approval(int, name="second"), ctx.approval(int, name="third"), ctx.signal("go", int)
        )


class Stubborn(Machine[dict[str, Any]]):
    """Begun for the second time, it fails before it comes to its question."""

    begun = 0

    @transition("start", "end", retry=Retry(2, delay=0.01))
    async def ask(self, ctx: Context) -> None:
        type(self).begun += 1
        if self.begun == 2:
            raise ValueError("the question is asked anew")
        self.state["answer"] = await ctx.approval(str, name="ask")


@pytest.mark.req("M9", "K21")
async def test_a_remote_step_of_a_body_comes_back_after_a_park(engines: Engines) -> None:
    async with engines.new(Parcel) as engine:
        run = await engine.start(Parcel, None)
        await parked(run)
        # Only now somebody takes it: the run is parked when each result comes.
        async with engines.new(steps=[weigh, stumble], queues=[FAR]):
            assert await run.result(30) == {"one": 2, "two": [3, 13]}

        assert (await kinds(run)).count("step_completed") == 3


async def _asked(run: RunHandle[Any], *names: str) -> dict[str, str]:
    """The paths of these questions, once the run has parked at all of them."""

    async def there() -> dict[str, str]:
        waits = {wait.name: wait.path for wait in await run.waits()}
        return {name: waits[name] for name in names} if set(names) <= set(waits) else {}

    found: dict[str, str] = await until(there)
    await suspended(run)
    return found


@pytest.mark.req("M9", "K15")
async def test_a_decision_for_a_body_comes_after_a_park(engines: Engines) -> None:
    async with engines.new(Asking) as engine:
        run = await engine.start(Asking, None)
        [first] = (await _asked(run, "first")).values()
        await run.decide("yes", path=first, by="ana")
        asked = await _asked(run, "second", "third", "go")

        await run.decide(3, path=asked["third"], by="ana")
        await run.signal("go", 4)
        await run.decide(2, path=asked["second"], by="ben")

        assert await run.result(30) == {"first": "yes", "both": [2, 3, 4]}


@pytest.mark.req("M9", "K15")
async def test_an_answer_that_the_attempt_did_not_ask_for_is_set_aside(engines: Engines) -> None:
    Stubborn.begun = 0
    async with engines.new(Stubborn) as engine:
        run = await engine.start(Stubborn, None)
        [path] = (await _asked(run, "ask")).values()
        await run.decide("old", path=path, by="ana")

        async def asked_anew() -> bool:
            return (await kinds(run)).count("wait_opened") == 2

        await until(asked_anew)
        await run.decide("new", path=path, by="ben")

        assert await run.result(30) == {"answer": "new"}
        received = [event.data for event in await all_events(run) if event.kind == "received"]
        assert [(data["by"], bool(data.get("rejected"))) for data in received] == [
            ("ana", True),
            ("ben", False),
        ]
