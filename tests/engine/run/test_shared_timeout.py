"""Timers that are shared by all who wait equally long."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from stepwell.domain.ids import RunId
from stepwell.shared_timeout import SharedTimeout
from stepwell.store.wakeups import Notifier
from tests.engines import until


async def test_one_who_fails_to_give_up_keeps_nobody_waiting() -> None:
    loop = asyncio.get_running_loop()
    troubles: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, trouble: troubles.append(trouble))
    heard: list[str] = []

    def give_up(who: str) -> None:
        heard.append(who)
        if who == "first":
            raise RuntimeError("a fault")

    timeout = SharedTimeout(0.01, give_up)
    for who in ("first", "second", "third"):
        timeout.begin(who, loop)
    await until(lambda: len(heard) == 3)

    assert heard == ["first", "second", "third"]
    assert [str(trouble["exception"]) for trouble in troubles] == ["a fault"]


async def test_who_gives_up_may_begin_and_end_others() -> None:
    loop = asyncio.get_running_loop()
    heard: list[str] = []

    def give_up(who: str) -> None:
        heard.append(who)
        if who == "first":
            timeout.end("second")
            timeout.end("third")
            timeout.begin("fourth", loop)

    timeout = SharedTimeout(0.01, give_up)
    for who in ("first", "second", "third"):
        timeout.begin(who, loop)
    await until(lambda: "fourth" in heard)

    assert heard == ["first", "fourth"]


def test_a_watch_outlives_a_loop_that_was_left_in_the_middle() -> None:
    watch = Notifier().watch(RunId("r"))

    def begun(loop: asyncio.AbstractEventLoop, wait: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = loop.create_task(wait)
        loop.run_until_complete(asyncio.sleep(0))
        return task

    left = asyncio.new_event_loop()
    task = begun(left, watch.wait(0.01, watch.news))
    left.close()

    asyncio.run(asyncio.wait_for(watch.wait(0.01, watch.news), 20))
    assert not task.done()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
