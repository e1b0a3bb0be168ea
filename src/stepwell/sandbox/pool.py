"""SandboxPool: processes that run one piece of code at a time, and are killed when it does not end.

A process works for one owner, a workspace: code that breaks its interpreter meets no data of another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from stepwell.sandbox.errors import CodeError
from stepwell.sandbox.places import Places

LENGTH = struct.Struct(">I")
_ANSWER_BYTES_MAX = 16 * 1024 * 1024
_RUNS_MAX = 500  # of one process; a leak in an interpreter must not add up
_IDLE_MAX = 8  # processes of all owners
_LATE_SECONDS = 0.25  # after its own limit the process is killed
FORBIDDEN_CALL = (-signal.SIGSYS, 128 + signal.SIGSYS)  # how a process ends that begins another; in a jail
NO_PROCESSES = "code of nodes has one process; let a step of a worker start others"


class SandboxPool:
    def __init__(self, command: Sequence[str], *, size: int) -> None:
        self._command = list(command)
        self._places = Places(size)
        self._idle: deque[_Child] = deque()
        self._busy: set[_Child] = set()

    async def run(self, request: dict[str, Any], timeout: float, *, owner: str = "") -> dict[str, Any]:
        """Run it in a process of its owner; CodeError if the process dies or has to be killed.

        The timeout begins when there is a place for it.
        """
        async with self._places.taken(owner):
            child = self._taken(owner) or await _Child.started(self._command, owner)
            self._busy.add(child)
            try:
                async with asyncio.timeout(timeout + _LATE_SECONDS):
                    answer = await child.answer(msgspec.json.encode(request))
            except TimeoutError:
                raise CodeError("CODE_TIMEOUT", f"the code took longer than {timeout:g} s") from None
            finally:
                self._busy.discard(child)
                await self._keep(child)
            return answer

    def _taken(self, owner: str) -> _Child | None:
        for child in reversed(self._idle):
            if child.owner == owner:
                self._idle.remove(child)
                return child
        return None

    async def _keep(self, child: _Child) -> None:
        """Keep it for its owner, instead of the one that was idle for longest if they are too many."""
        if not child.usable:
            return await child.end()
        self._idle.append(child)
        if len(self._idle) > _IDLE_MAX:
            await self._idle.popleft().end()

    async def close(self) -> None:
        children = [*self._idle, *self._busy]
        self._idle.clear()
        for child in children:
            await child.end()


class _Child:
    def __init__(self, process: asyncio.subprocess.Process, owner: str) -> None:
        self.owner = owner
        self._process = process
        self._runs = 0
        self.usable = False

    @classmethod
    async def started(cls, command: Sequence[str], owner: str) -> _Child:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,  # so that it can be killed with all that it starts
            limit=_ANSWER_BYTES_MAX,
        )
        return cls(process, owner)

    async def answer(self, request: bytes) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.usable = False
        self._runs += 1
        try:
            self._process.stdin.write(LENGTH.pack(len(request)) + request)
            await self._process.stdin.drain()
            length = LENGTH.unpack(await self._process.stdout.readexactly(LENGTH.size))[0]
            if length > _ANSWER_BYTES_MAX:
                raise CodeError("OUTPUT_TOO_LARGE", f"the code's answer is {length:,} bytes")
            data = await self._process.stdout.readexactly(length)
            answer = msgspec.json.decode(data, type=dict[str, Any])
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.DecodeError, RecursionError):
            raise await self._death() from None
        self.usable = self._runs < _RUNS_MAX and not answer.get("ends")
        return answer

    async def _death(self) -> CodeError:
        """Say why there is no answer. Its output is closed, so it ends now, or is killed soon."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LATE_SECONDS):
                await self._process.wait()
        if self._process.returncode in FORBIDDEN_CALL:
            return CodeError("CODE_PROCESS_LIMIT", "the code tried to start a process", hint=NO_PROCESSES)
        return CodeError(
            "CODE_CRASHED", "the process of the code died", hint="it used too much memory, or ended itself"
        )

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill it, and wait until its pipes are closed: they are also if the caller is cancelled."""
        await asyncio.shield(self._end())

    async def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.kill()
        self._process.stdin.close()
        with contextlib.suppress(ConnectionError):
            await self._process.stdin.wait_closed()
        with contextlib.suppress(RuntimeError):  # the call that waits for an answer reads to its end
            while await self._process.stdout.read(65_536):
                pass
        await self._process.wait()
