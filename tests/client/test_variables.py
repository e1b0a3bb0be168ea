"""Operators: set a variable of a graph run that waits."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import Context, Permanent, RunHandle, node, workflow
from stepwell.errors import InvalidInput, NotSettable, PayloadTooLarge, RunEnded, RunFailed, RunNotFound
from tests.authoring.graphs.graphs import START, a, chart
from tests.engines import Engines, crash, kinds, suspended, until

# Sets an amount, waits for `go`, and adds one to it.
PAYING = chart(
    [
        START,
        a("A", "set", values={"amount": 1, "note": "first"}),
        a("W", "wait", mode="event", event="go"),
        a("T", "transform", expression="ctx.amount + 1", outputVariable="next"),
        a("Z", "end", output={"amount": "{{ctx.amount}}", "next": "{{ctx.next}}", "note": "{{ctx.note}}"}),
    ],
    "S>A A>W W>T T>Z",
)
# Two branches wait; what they wrote comes together in a join that refuses conflicts.
BRANCHES = chart(
    [
        START,
        a("A", "set", values={"amount": 1}),
        a("L", "set", values={"amount": 2}),
        a("W1", "wait", mode="event", event="one"),
        a("W2", "wait", mode="event", event="two"),
        a("T", "transform", expression="ctx.amount", outputVariable="seen"),
        a("J", "merge", onConflict="error"),
        a("Z", "end", output={"amount": "{{ctx.amount}}", "seen": "{{ctx.seen}}"}),
    ],
    "S>A A>L L>W1 A>W2 W2>T W1>J T>J J>Z",
)
# Waits in the body of a loop, whose next iterations see the variable as well.
LOOPING = chart(
    [
        START,
        a("A", "set", values={"factor": 1}),
        a("each", "loop", items="[1, 2]", collect="ctx.v", outputVariable="all"),
        a("W", "wait", "each", mode="event", event="next"),
        a("T", "transform", "each", expression="loop.item * ctx.factor", outputVariable="v"),
        a("Z", "end", output={"all": "{{ctx.all.results}}", "factor": "{{ctx.factor}}"}),
    ],
    "S>A A>each W>T each>Z",
)


@workflow
async def listens(ctx: Context, n: int) -> str:
    return str(await ctx.signal("go"))


async def taken(run: RunHandle[Any], count: int = 1) -> None:
    """Until the run has taken the values in, and waits again."""

    async def there() -> bool:
        return (await kinds(run)).count("variable_set") == count

    await until(there)
    await suspended(run)


async def set_once_it_waits(run: RunHandle[Any], name: str, value: Any) -> None:
    async def accepted() -> bool:
        try:
            await run.set_variable(name, value)
        except NotSettable:
            return False
        return True

    await until(accepted)


@pytest.mark.req("K39", "G13")
async def test_what_is_decided_later_sees_the_value_that_a_person_set(engines: Engines) -> None:
    async with engines.new(PAYING) as engine:
        run = await engine.start("chart", {})
        await suspended(run)

        await run.set_variable("amount", 41, by="ann", reason="the invoice was wrong")
        await taken(run)

        state = await run.state()
        assert state.variables == {"amount": 41, "note": "first"}
        assert state.nodes["A"] == {"amount": 1, "note": "first"}
        [event] = [event async for event in run.events() if event.kind == "variable_set"]
        assert event.type == "variable_set"
        assert (event.data["name"], event.data["value"]) == ("amount", 41)
        assert (event.data["by"], event.data["reason"]) == ("ann", "the invoice was wrong")
        before = await run.state(at=event.seq - 1)
        assert before.variables == {"amount": 1, "note": "first"}
        await run.event("go", {})
        assert await run.result("20s") == {"amount": 41, "next": 42, "note": "first"}
        trace = {entry.name: entry for entry in await run.trace()}
        assert trace["W"].input["amount"] == 1  # what the node saw when it began
        assert trace["T"].input["amount"] == 41
        assert trace["T"].output == 42


@pytest.mark.req("K39")
async def test_variables_are_set_one_right_after_the_other(engines: Engines) -> None:
    """The first one wakes the run for a moment: it still waits."""
    async with engines.new(PAYING) as engine:
        run = await engine.start("chart", {})
        await suspended(run)

        for amount in range(10):
            await run.set_variable("amount", amount)
        await run.event("go", {})

        assert (await run.result("20s"))["amount"] == 9


@pytest.mark.req("K39", "K1")
async def test_a_set_variable_survives_the_worker(engines: Engines) -> None:
    async with engines.client() as client:
        engine = engines.new(PAYING)
        await engine.open()
        run = await engine.start("chart", {})
        await suspended(run)
        await run.set_variable("amount", [1, {"deep": None}])
        await run.set_variable("note", "second")
        await taken(run, 2)
        await crash(engine)

        handle = client.handle(run.id)
        await handle.set_variable("amount", 9)  # nobody is there to take it in
        async with engines.new(PAYING):
            await taken(handle, 3)
            await handle.event("go", {})
            assert await handle.result("20s") == {"amount": 9, "next": 10, "note": "second"}


@pytest.mark.req("K39")
async def test_branches_do_not_conflict_about_what_a_person_set(engines: Engines) -> None:
    async with engines.new(BRANCHES) as engine:
        run = await engine.start("chart", {})
        await suspended(run)

        await run.set_variable("amount", 7)
        await taken(run)

        await run.event("two", {})
        await run.event("one", {})
        assert await run.result("20s") == {"amount": 7, "seen": 7}


@pytest.mark.req("K39")
async def test_iterations_see_what_a_person_set(engines: Engines) -> None:
    async with engines.new(LOOPING) as engine:
        run = await engine.start("chart", {})
        await suspended(run)

        await run.set_variable("factor", 10)
        await taken(run)
        await run.event("next", {})
        await run.event("next", {})

        assert await run.result("20s") == {"all": [10, 20], "factor": 10}


@pytest.mark.req("K39")
async def test_the_same_id_sets_a_variable_once(engines: Engines) -> None:
    async with engines.new(PAYING) as engine:
        run = await engine.start("chart", {})
        await suspended(run)

        await run.set_variable("amount", 5, id="one")
        await taken(run)
        await run.set_variable("amount", 6)
        await taken(run, 2)
        await run.set_variable("amount", 5, id="one")
        await set_once_it_waits(run, "note", "last")  # the repeated message may wake it first
        await taken(run, 3)

        assert (await run.state()).variables == {"amount": 6, "note": "last"}


@pytest.mark.req("K39")
async def test_a_held_run_takes_the_value_when_it_is_released(engines: Engines) -> None:
    async with engines.new(PAYING) as engine:
        run = await engine.start("chart", {})
        await suspended(run)
        await run.hold(by="ann")
        await run.event("go", {})

        await run.set_variable("note", "held")
        await run.release()

        # The event came before the value, but the run had not moved since.
        assert await run.result("20s") == {"amount": 1, "next": 2, "note": "held"}


@pytest.mark.req("K39")
async def test_a_variable_is_refused_with_the_reason(engines: Engines) -> None:
    async with engines.new(PAYING, listens) as engine:
        run, other = await engine.start("chart", {}), await engine.start(listens, 1)
        await suspended(run)
        await suspended(other)

        with pytest.raises(NotSettable, match="is a function, not a graph"):
            await other.set_variable("amount", 1)
        with pytest.raises(NotSettable, match="neither reads nor writes a variable amuont") as unknown:
            await run.set_variable("amuont", 1)
        assert unknown.value.context["variables"] == "amount, next, note"
        for name in ("", "ctx.amount", "__class__", "9lives", "a" * 65, 7, None):
            wrong: Any = name
            with pytest.raises(InvalidInput, match="the name is"):
                await run.set_variable(wrong, 1)
        for name, hint in {"input": "fork", "error": "engine", "secrets": "not variables"}.items():
            with pytest.raises(InvalidInput, match="can be set") as taken_name:
                await run.set_variable(name, 1)
            assert hint in taken_name.value.hint
        with pytest.raises(PayloadTooLarge):
            await run.set_variable("amount", "x" * 3_000_000)
        assert "variable_set" not in await kinds(run)

        await run.event("go", {})
        await run.result("20s")
        with pytest.raises(RunEnded, match="variables cannot be set"):
            await run.set_variable("amount", 1)
        with pytest.raises(RunNotFound):
            await engine.handle("nobody").set_variable("amount", 1)


@pytest.mark.req("K39")
async def test_a_run_that_works_is_not_interrupted(engines: Engines) -> None:
    async with engines.new(PAYING, worker=False) as client:
        run = await client.start("chart", {})  # nobody serves it, so it never waits

        with pytest.raises(NotSettable, match="is pending: it does not wait"):
            await run.set_variable("amount", 1)
        await run.hold()
        await run.set_variable("amount", 1)


@pytest.mark.req("K39", "K19")
async def test_a_fork_keeps_what_a_person_set_before_it(engines: Engines) -> None:
    async with engines.new(PAYING) as engine:
        run = await engine.start("chart", {})
        await suspended(run)
        first = [event.seq async for event in run.events()][-1]
        await run.set_variable("amount", 41)
        await taken(run)
        last = [event.seq async for event in run.events()][-1]
        await run.event("go", {})
        await run.result("20s")

        before = await engine.fork(run.id, at=first)
        after = await engine.fork(run.id, at=last)
        anew = await engine.rerun(run.id)
        from_node = await engine.rerun_from(run.id, "T")
        from_start = await engine.rerun_from(run.id, "A")
        for waiting in (before, after, anew, from_start):
            await suspended(waiting)
            await waiting.event("go", {})
        assert (await before.result("20s"))["next"] == 2
        assert (await after.result("20s"))["next"] == 42
        assert (await anew.result("20s"))["next"] == 2
        assert (await from_node.result("20s"))["next"] == 42
        assert (await from_start.result("20s"))["next"] == 2  # the node wrote the variable again


@node("test:check")
async def check(config: dict[str, Any], ctx: dict[str, Any], helpers: Any) -> dict[str, Any]:
    if not config["ok"]:
        raise Permanent("not ok")
    return {"ok": True}


@pytest.mark.req("K39")
async def test_a_retried_run_still_has_what_a_person_set(engines: Engines) -> None:
    nodes = [
        START,
        a("A", "set", values={"left": False, "right": False}),
        a("W", "wait", mode="event", event="go"),
        a("C", "test:check", ok="{{ctx.left}}"),
        a("D", "wait", mode="event", event="further"),
        a("E", "test:check", ok="{{ctx.right}}"),
        a("Z", "end", output={"left": "{{ctx.left}}", "right": "{{ctx.right}}"}),
    ]
    async with engines.new(chart(nodes, "S>A A>W W>C C>D D>E E>Z"), nodes=[check]) as engine:
        run = await engine.start("chart", {})
        await suspended(run)
        await run.set_variable("left", True)
        await taken(run)
        await run.event("go", {})
        await run.waiting_for("D")
        await suspended(run)
        await run.event("further", {})
        with pytest.raises(RunFailed):
            await run.result("20s")

        await run.retry()
        with pytest.raises(RunFailed, match="not ok"):
            await run.result("20s")
        assert (await run.state()).variables["left"] is True
