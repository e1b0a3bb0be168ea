"""StepRunner: where step functions run. Holds the thread, process and task pools, and background tasks."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from typing import Any

from stepwell.domain.steps import StepSpec
from stepwell.engine.execution.attempt import Running, StepAttempt
from stepwell.engine.execution.process_pool import ProcessPool
from stepwell.engine.execution.task_pool import TaskPool
from stepwell.engine.execution.thread_pool import ThreadPool
from stepwell.telemetry.measures import WorkerMeasures

_log = logging.getLogger("stepwell.engine")


class StepRunner:
    def __init__(
        self,
        *,
        threads: int,
        workflow_threads: int,
        processes: int,
        measures: WorkerMeasures | None = None,
    ) -> None:
        self.measures = measures  # None: lines are not kept
        self._threads = ThreadPool("stepwell-step", threads)
        # Sync workflows have their own threads: in a shared pool they would starve their own steps.
        self.workflow_threads = ThreadPool("stepwell-workflow", workflow_threads)
        self._processes = ProcessPool(processes)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.loop = TaskPool()
        self.running: dict[Running, None] = {}

    def spawn(
        self, work: Coroutine[Any, Any, Any], variables: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        """Run a background task: keep a reference to it, and log its errors."""
        task = asyncio.get_running_loop().create_task(work, context=variables)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("unexpected error in a background task", exc_info=task.exception())

    async def in_thread(
        self,
        spec: StepSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        execution: Running,
    ) -> Any:
        context = contextvars.copy_context()

        def call() -> Any:
            execution.begin()
            return context.run(spec.function, *args, **kwargs)

        return await self._threads.run(call)

    async def in_process(
        self, spec: StepSpec, args: tuple[Any, ...], kwargs: dict[str, Any], execution: StepAttempt
    ) -> Any:
        return await self._processes.run(
            spec, args, kwargs, execution.context, begun=execution.begin, log=execution.log
        )

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.loop.close()
        await self._processes.close()
        self._threads.close()
        self.workflow_threads.close()
