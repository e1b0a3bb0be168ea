"""Wrong calls, one a marked line: both type checkers must reject exactly these."""

from __future__ import annotations

from stepwell import Context, Engine, SyncClient, step, workflow


def double(n: int) -> int:
    return 2 * n


@step
async def later(n: int) -> int:
    return n


def undo(result: str) -> None: ...


@step(compensate=undo)  # WRONG
async def add(n: int) -> int:
    return n


@workflow
async def count(ctx: Context, n: int) -> int:
    await ctx.step(double, "x")  # WRONG
    await ctx.step(later, "x")  # WRONG
    await ctx.step(later)  # WRONG
    await ctx.step(double, 1, 2)  # WRONG
    await ctx.run(count, "x")  # WRONG
    await ctx.map(double, ["x"])  # WRONG
    text: str = await ctx.step(later, 1)  # WRONG
    return len(text)


async def outside(engine: Engine) -> None:
    await engine.start(count, "x")  # WRONG
    run = await engine.start(count, 1)
    text: str = await run.result()  # WRONG
    await engine.start(count, 1, keey="x")  # WRONG
    print(text)


def plain(client: SyncClient) -> None:
    client.start(count, "x")  # WRONG
    client.start(count, 1, keey="x")  # WRONG
    client.start_many(count, [1], delay=[])  # WRONG
    client.run(count, 1, priority="high")  # WRONG
    client.rerun("id", inputs=1)  # WRONG
    client.rerun_from("id", "ship", output={})  # WRONG
    client.fork("id", at=3, states=1)  # WRONG
    client.runs(limit="all")  # WRONG
    run = client.start(count, 1)
    run.waiting_for(1)  # WRONG
    run.signal("go", idd="x")  # WRONG
    run.events(since=1)  # WRONG
    text: str = run.status().terminal  # WRONG
    print(text)
