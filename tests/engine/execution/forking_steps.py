"""Steps that fork, for test_exiting: `python -m tests.engine.execution.forking_steps PATH WHERE END`."""

from __future__ import annotations

import asyncio
import os
import sys

from stepwell import Context, Engine, workflow


def fork(end: str) -> int:
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if end == "raise":
        raise ValueError("in the child")
    if end == "return":
        return 0
    sys.exit(7)


async def fork_on_the_loop(end: str) -> int:
    return fork(end)


async def fork_later(end: str) -> int:
    await asyncio.sleep(0)
    return fork(end)


@workflow
async def forking(ctx: Context, how: list[str]) -> int:
    where, end = how
    if where == "thread":
        return await ctx.step(fork, end)
    return await ctx.step(fork_on_the_loop if where == "loop" else fork_later, end)


async def main(path: str, *how: str) -> None:
    async with Engine(path, workflows=[forking]) as engine:
        run = await engine.start(forking, list(how))
        print(await run.result(20))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
