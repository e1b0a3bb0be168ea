"""Processes of steps end with their engine, also when whoever waited for their end was cancelled."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import warnings
from typing import Any

import pytest

from stepwell.domain.program import StepContext
from stepwell.domain.steps import StepSpec
from stepwell.engine.execution.process_pool import ProcessPool


def stands_still() -> None:
    time.sleep(60)


async def cancelled_twice() -> None:
    processes, begun = ProcessPool(1), asyncio.Event()
    spec = StepSpec(name="stands_still", function=stands_still, isolation="process")
    context = StepContext(run_id="r", path="0/s", attempt=1, lease="l")
    call = asyncio.ensure_future(processes.run(spec, (), {}, context, begun=begun.set, log=None))
    await begun.wait()
    for _ in range(2):  # the second time while the process is being killed
        call.cancel()
        await asyncio.sleep(0)
    await processes.close()


@pytest.mark.req("K12")
def test_a_process_is_gone_when_its_engine_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of it would be found much later, and break whatever runs then."""
    broken: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", broken.append)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(cancelled_twice())
        gc.collect()

    assert broken == []
    assert [str(found.message) for found in warned if found.category is ResourceWarning] == []
