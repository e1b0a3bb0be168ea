"""A greeting that survives its process: kill it during the sleep, and start it again."""

import asyncio

from stepwell import Context, Engine, step, workflow


@step
async def greet(name: str) -> str:
    return f"hello {name}"


@workflow
async def hello(ctx: Context, name: str) -> str:
    greeting = await ctx.step(greet, name)  # recorded: never done again, whatever happens next
    await ctx.sleep("1s")  # durable: kill the process, and it wakes up in the next one
    return f"{greeting}, good to see you again"


async def main() -> None:
    async with Engine("hello.db", workflows=[hello]) as engine:  # or "postgresql://user@host/database"
        run = await engine.start(hello, "Ada", key="ada")  # the same key is the same run
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main())
