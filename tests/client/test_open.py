"""Engines and clients: opened twice, used where they are not open, carried where they cannot go."""

from __future__ import annotations

import asyncio
import copy
import os
import signal
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, GraphBuilder, SyncClient, step, workflow
from stepwell.errors import InvalidRequest
from tests.engines import PATIENCE, Engines


@step
async def add(n: int) -> int:
    return n + 1


@workflow
async def adding(ctx: Context, n: int) -> int:
    return await ctx.step(add, n)


@pytest.mark.req("A4", "F11")
async def test_an_engine_that_is_not_open_starts_nothing(engines: Engines) -> None:
    """Nobody here would run it; on PostgreSQL it would even connect again."""
    engine = engines.new(adding)

    with pytest.raises(InvalidRequest, match="not open"):
        await engine.start(adding, 1)
    async with engine:
        assert await (await engine.start(adding, 1)).result() == 2
    with pytest.raises(InvalidRequest, match="not open"):
        await engine.start(adding, 1)

    async with engine:  # again
        assert await (await engine.start(adding, 2)).result() == 3
        assert len(await engine.runs(workflow="adding")) == 2


@pytest.mark.req("A4")
async def test_an_open_engine_is_not_opened_again(memory_engines: Engines) -> None:
    async with memory_engines.new(adding) as engine:
        with pytest.raises(InvalidRequest, match="already open"):
            await engine.open()
        with pytest.raises(InvalidRequest, match="already open"), SyncClient(engine=engine):
            pass

        assert await (await engine.start(adding, 1)).result() == 2


@pytest.mark.req("A4")
async def test_an_engine_without_workflows_works_each_time_it_is_open(memory_engines: Engines) -> None:
    g = GraphBuilder("brought")
    g.start() >> g.end("done", output={"ok": True})
    engine = memory_engines.new()
    with pytest.raises(InvalidRequest, match="not open"):
        await engine.start_graph(g)
    assert engine.worker is None

    for _ in range(2):
        async with engine:
            assert await (await engine.start_graph(g)).result() == {"ok": True}


@pytest.mark.req("A4")
def test_an_engine_is_used_in_the_loop_that_opened_it(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "app.db", workflows=[adding])
    asyncio.run(engine.open())  # its worker ends with this loop

    with pytest.raises(InvalidRequest, match="another loop"):
        asyncio.run(_start(engine))
    asyncio.run(_all_over(engine))


@pytest.mark.req("A4")
def test_an_engine_that_works_in_another_thread_is_refused_here(tmp_path: Path) -> None:
    """Begun here, the run would hang, and the worker with it."""
    engine = Engine(tmp_path / "app.db", workflows=[adding])
    with SyncClient(engine=engine) as client:
        with pytest.raises(InvalidRequest, match="another loop"):
            asyncio.run(_start(engine))

        assert client.run(adding, 1) == 2


async def _start(engine: Engine) -> None:
    await engine.start(adding, 1)


async def _all_over(engine: Engine) -> None:
    async with engine:
        assert await (await engine.start(adding, 1)).result() == 2


@pytest.mark.req("A4")
def test_a_client_of_before_a_fork_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    told, tell = os.pipe()
    with SyncClient(engine=Engine(tmp_path / "app.db", workflows=[adding])) as client:
        child = os.fork()
        if child == 0:
            try:
                client.__exit__(None, None, None)  # leaving it must not wait either
                client.start(adding, 1)
            except BaseException as error:
                os.write(tell, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)

        assert b"opened before this process was forked" in os.read(told, 1000)
        assert client.run(adding, 1) == 2
    os.close(told)
    os.close(tell)


@pytest.mark.req("A4")
def test_a_client_used_in_its_own_loop_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    clients: list[SyncClient] = []

    @step
    async def ask() -> str:
        try:
            return str(clients[0].run(adding, 1))
        except InvalidRequest as error:
            return error.message

    @workflow
    async def asking(ctx: Context) -> str:
        return await ctx.step(ask)

    with SyncClient(engine=Engine(tmp_path / "app.db", workflows=[adding, asking])) as client:
        clients.append(client)

        assert "on its own loop" in client.start(asking).result(timeout=PATIENCE)


INTERRUPTED = """
import os, signal, threading
from stepwell import Context, Engine, SyncClient, workflow

@workflow
async def waiting(ctx: Context) -> int:
    return await ctx.signal("go", int)

with SyncClient(engine=Engine("app.db", workflows=[waiting])) as client:
    run = client.start(waiting)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        run.result()
    except KeyboardInterrupt:
        run.signal("go", 42)  # the client is as good as before
        print(run.result(timeout=40))
        raise
"""


@pytest.mark.req("A4")
def test_ctrl_c_leaves_the_client_usable_and_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", INTERRUPTED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )

    assert done.returncode == -signal.SIGINT, done.stderr
    assert done.stdout.strip() == "42"
    assert "destroyed" not in done.stderr  # a pending task
    assert "never" not in done.stderr


@pytest.mark.req("A4", "F2")
def test_steps_and_workflows_are_pickled_by_name_and_handles_not_at_all(tmp_path: Path) -> None:
    """A step is still a function: a pool of processes can take it."""
    things: list[Any] = [add, adding]

    assert all(ForkingPickler.loads(ForkingPickler.dumps(thing)) is thing for thing in things)
    assert copy.deepcopy(things) == things
    with (
        SyncClient(engine=Engine(tmp_path / "app.db", workflows=[adding])) as client,
        pytest.raises(TypeError, match=r"pass run\.id"),
    ):
        ForkingPickler.dumps(client.start(adding, 1))
