"""Another process on the same SQLite file, for tests: `python -m tests.store.sqlite_process VERB PATH`.

It says a line when it is ready, obeys when a line comes in, and ends with its input.
"""

from __future__ import annotations

import asyncio
import sys
import time

from stepwell.domain.commit import ClaimRequest, WorkerInfo
from stepwell.domain.ids import LeaseId, WorkerId
from stepwell.store.sqlite.store import SqliteStore
from stepwell.testing.clock import FakeClock
from stepwell.testing.stores.scene import NEEDS, QUEUE, Scene


def say(text: str) -> None:
    print(text, flush=True)


async def line() -> str:
    line: str = await asyncio.to_thread(sys.stdin.readline)
    return line.strip()


async def own(store: SqliteStore) -> None:
    """Take what is due as worker `far`, then live until killed."""
    worker = WorkerId("far")
    await store.register(WorkerInfo(id=worker, lease_seconds=60.0, name="far:1"))
    request = ClaimRequest(
        worker=worker, queues=[QUEUE], needs=[NEEDS], limit=10, leases=[LeaseId(f"l{n}") for n in range(10)]
    )
    claims = await store.claim(request)
    say(f"owns {len(claims.claims)}")
    await line()


async def listen(store: SqliteStore) -> None:
    """Say each hint that comes."""
    store.listen(lambda text: say(text or "hint"))
    say("listens")
    await line()


async def hint(store: SqliteStore) -> None:
    say("ready")
    while await line():
        store.hint()


async def busy(store: SqliteStore) -> None:
    """Write without a pause: while one transaction is on its way, the next ones wait already."""
    scene = Scene(store, FakeClock())
    prefix = f"busy{time.monotonic_ns()}-"
    asking = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    wrote = 0

    async def keep_writing() -> None:
        nonlocal wrote
        while not asking.done():
            await store.start([scene.new_run(id=f"{prefix}{scene.fresh('n')}")])
            wrote += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(100):
            group.create_task(keep_writing())
        say("writes")
    say(f"wrote {wrote}")


async def main(verb: str, path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    await {"own": own, "listen": listen, "hint": hint, "busy": busy}[verb](store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
