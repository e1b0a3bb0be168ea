"""A worker process whose transactional step is killed at a failpoint: `python -m … <database> <run id>`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from stepwell import Context, Engine, Settings, step, workflow

SETTINGS = Settings(lease_seconds=1.0, heartbeat_seconds=0.2, reap_seconds=0.2)


def insert_sqlite(connection: Any, who: str) -> int:
    connection.execute("INSERT INTO payments (who) VALUES (?)", (who,))
    return 1


async def insert_postgres(connection: Any, who: str) -> int:
    await connection.execute("INSERT INTO payments (who) VALUES ($1)", who)
    return 1


pay_sqlite = step(transactional=True, name="pay")(insert_sqlite)
pay_postgres = step(transactional=True, name="pay")(insert_postgres)


@workflow
async def paying(ctx: Context, database: str) -> int:
    pay: Any = pay_sqlite if database == "sqlite" else pay_postgres
    return int(await ctx.step(pay, "ana"))


async def main(database: str, run_id: str) -> None:
    async with Engine(database, workflows=[paying], settings=SETTINGS) as engine:
        print(await engine.handle(run_id).result(20))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
