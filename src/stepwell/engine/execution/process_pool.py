"""ProcessPool: runs steps with isolation="process". A hung or crashing child never takes the worker down.

A child is a fresh interpreter that imports the step by name and exchanges length-prefixed JSON over its
pipes; nothing is pickled. It is reused after a clean call, killed after anything else, and ends with its
worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from stepwell.domain.program import StepContext
from stepwell.domain.retry import RemoteError, class_name
from stepwell.domain.steps import StepSpec, encode_arguments
from stepwell.engine.execution.process_child import StepReply, StepRequest
from stepwell.engine.execution.step_log import StepLog, observed
from stepwell.errors import Exited, InvalidDefinition, Permanent, RetryAfter


class ProcessCrashed(Exception):
    """The child process died while it ran the step."""


class _Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> _Child:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "stepwell.engine.execution.process_child",
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=64 * 1024 * 1024,
            start_new_session=True,
        )
        return cls(process)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, request: StepRequest, log: StepLog | None) -> StepReply:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        data = msgspec.json.encode(request)
        try:
            self._process.stdin.write(len(data).to_bytes(8, "big") + data)
            await self._process.stdin.drain()
            while True:
                size = int.from_bytes(await self._process.stdout.readexactly(8), "big")
                data = await self._process.stdout.readexactly(size)
                reply = msgspec.json.decode(data, type=StepReply)
                if reply.line is None:
                    return reply
                if log is not None:
                    log.add(msgspec.json.encode(reply.line))
        except (asyncio.IncompleteReadError, ConnectionError, BrokenPipeError):
            code = await self._process.wait()
            raise ProcessCrashed(f"the step's process died with exit code {code}") from None

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


class ProcessPool:
    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[_Child] = []
        self._dying: set[_Child] = set()  # killed, but perhaps not waited for yet

    async def run(
        self,
        spec: StepSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: StepContext,
        *,
        begun: Callable[[], None],
        log: StepLog | None,
    ) -> Any:
        request = self._request(spec, args, kwargs, context, log)
        async with self._slots:
            child = await self._idle_child()
            begun()
            try:
                reply = await child.ask(request, log)
            except BaseException:
                self._dying.add(child)
                await asyncio.shield(self._reap(child))  # we may be cancelled again meanwhile
                raise
            self._idle.append(child)
        context.saved.extend(reply.documents)
        return _outcome(spec, reply)

    def _request(
        self,
        spec: StepSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        context: StepContext,
        log: StepLog | None,
    ) -> StepRequest:
        function = getattr(spec.function, "__wrapped__", spec.function)
        module, name = function.__module__, function.__qualname__
        if "<locals>" in name or "<lambda>" in name:
            raise InvalidDefinition(
                f"{name} cannot run in a process of its own: it is not importable",
                hint="define the step at the top level of a module",
            )
        if module == "__main__":
            module = _main_module()
        passed = args[1:] if spec.wants_context else args
        return StepRequest(
            path=sys.path,
            module=module,
            name=name,
            arguments=msgspec.Raw(encode_arguments(spec, passed, kwargs)),
            run_id=context.run_id,
            step_path=context.path,
            attempt=context.attempt,
            lease=context.lease,
            secrets=dict(context.secrets),
            log_bytes_max=0 if log is None else log.bytes_max,
            capture=observed(),
        )

    async def _idle_child(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
        return await _Child.start()

    async def _reap(self, child: _Child) -> None:
        await child.kill()
        self._dying.discard(child)

    async def close(self) -> None:
        """Leave nothing running: a child whose pipes outlive the loop breaks the next loop."""
        while self._idle:
            await self._idle.pop().kill()
        for child in list(self._dying):
            await child.kill()


def _outcome(spec: StepSpec, reply: StepReply) -> Any:
    problem = reply.error
    if problem is None:
        return spec.returns.decode(reply.result)
    if reply.retry_after is not None:
        raise RetryAfter(reply.retry_after, problem.message)
    if reply.permanent:
        raise Permanent(problem.message)
    if class_name(Exited) in reply.kinds:
        raise Exited(problem.message)
    error = RemoteError(problem.type, problem.message, reply.kinds, problem.code)
    error.hint, error.trace = problem.hint, problem.traceback
    raise error


def _main_module() -> str:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    return f"file:{getattr(main, '__file__', '')}"
