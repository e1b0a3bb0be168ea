"""The sync client: reading and following events, and iterators that are left, interrupted or outlived."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

from stepwell import Context, SyncClient, workflow
from stepwell.errors import InvalidInput, InvalidRequest, NotWaitingYet, RunEnded, RunNotFound
from tests.engines import PATIENCE, Engines


@workflow
async def counting(ctx: Context, count: int) -> int:
    for n in range(count):
        ctx.publish("line", n)
        await ctx.signal("next")
    return count


@workflow
async def many(ctx: Context, count: int) -> int:
    for n in range(count):
        ctx.publish("line", n)
    return count


@workflow
async def asking(ctx: Context) -> bool:
    return await ctx.approval(bool, name="approve")


@pytest.mark.req("F12", "F15")
def test_events_are_followed_live_until_the_end(engines: Engines) -> None:
    """The run continues only when the news of its last step has arrived."""
    lines: list[int] = []
    with SyncClient(engine=engines.new(counting)) as client:
        run = client.start(counting, 3)
        for event in run.events(follow=True):
            if event.kind == "published":
                lines.append(event.data.get("data", 0))
                run.signal("next")

        assert lines == [0, 1, 2]
        assert run.result(PATIENCE) == 3


@pytest.mark.req("F15")
def test_events_and_log_are_read_in_chunks_and_in_order(sqlite: Engines) -> None:
    with SyncClient(engine=sqlite.new(many)) as client:
        run = client.start(many, 2500)
        run.result(PATIENCE)

        events = list(run.events())

        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert len([event for event in events if event.kind == "published"]) == 2500
        assert [row.seq for row in run.log()] == [event.seq for event in events]
        assert [event.seq for event in run.events(after=2000)] == list(range(2001, len(events) + 1))


@pytest.mark.req("F15")
def test_an_iterator_that_is_left_frees_what_it_used(sqlite: Engines) -> None:
    engine = sqlite.new(counting)
    with SyncClient(engine=engine) as client:
        run = client.start(counting, 1)
        for event in run.events(follow=True):
            if event.kind == "published":
                break
        run.signal("next")

        assert run.result(PATIENCE) == 1
        assert not engine.notifier.followed


@pytest.mark.req("F15")
def test_errors_of_an_iterator_reach_the_caller(memory_engines: Engines) -> None:
    wrong: Any = "last"
    with SyncClient(engine=memory_engines.new(counting)) as client:
        run = client.start(counting, 0)
        with pytest.raises(InvalidInput, match="after"):
            next(run.events(after=wrong))
        with pytest.raises(RunNotFound):
            list(client.handle("0" * 32).events(follow=True))
        with pytest.raises(RunNotFound):
            list(client.handle("0" * 32).log())


@pytest.mark.req("F15")
def test_an_iterator_ends_with_its_client(sqlite: Engines) -> None:
    with SyncClient(engine=sqlite.new(counting)) as client:
        events = client.start(counting, 1).events(follow=True)
        next(events)

    with pytest.raises(InvalidRequest, match="not open"):
        list(events)


@pytest.mark.req("F15", "F16")
def test_sync_code_awaits_a_wait_too(durable_engines: Engines) -> None:
    with SyncClient(engine=durable_engines.new(asking)) as client:
        run = client.start(asking)

        assert run.waiting_for("approve", PATIENCE).what == "approval"
        with pytest.raises(NotWaitingYet):
            run.waiting_for("deny", timeout=0.05)
        run.decide(True)
        with pytest.raises(RunEnded):
            run.waiting_for("deny", PATIENCE)


INTERRUPTED = """
import os, signal, threading
from stepwell import Context, Engine, SyncClient, workflow

@workflow
async def waiting(ctx: Context) -> int:
    return await ctx.signal("go", int)

with SyncClient(engine=Engine("app.db", workflows=[waiting])) as client:
    run = client.start(waiting)
    kept = run.events(follow=True)
    next(kept)
    try:
        for event in run.events(follow=True):
            if event.kind == "wait_opened":
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    except KeyboardInterrupt:
        run.signal("go", 42)
        print(run.result(timeout=40), flush=True)
        raise
"""


@pytest.mark.req("A4", "F15")
@pytest.mark.slow
def test_ctrl_c_ends_following_and_leaves_the_client_usable(tmp_path: Any) -> None:
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
    assert "ignored" not in done.stderr
