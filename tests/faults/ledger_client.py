"""Ledger client: a step reports that an effect begins, and that it has ended."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

from stepwell import StepContext

PORT_VARIABLE = "FAULTS_LEDGER_PORT"
ANSWER_SECONDS = 30.0


def entry(step: StepContext, phase: str, mode: str, seconds: float) -> bytes:
    entry = {
        "key": step.key,
        "run": step.run_id,
        "path": step.path,
        "attempt": step.attempt,
        "lease": step.lease,
        "pid": os.getpid(),
        "phase": phase,
        "mode": mode,
        "seconds": seconds,
    }
    return json.dumps(entry).encode() + b"\n"


def port() -> int:
    return int(os.environ[PORT_VARIABLE])


async def effect(step: StepContext, *, mode: str = "raw", seconds: float = 0.0) -> dict[str, Any]:
    """One effect over a real socket; a kill between its start and its end leaves it half done."""
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port())
        try:
            writer.write(entry(step, "start", mode, seconds))
            answer: dict[str, Any] = json.loads(await reader.readline())
            writer.write(entry(step, "end", mode, 0.0))
            await reader.readline()
        finally:
            writer.close()
    return answer


def effect_in_thread(step: StepContext, *, mode: str = "raw", seconds: float = 0.0) -> dict[str, Any]:
    """The same for plain functions."""
    with socket.create_connection(("127.0.0.1", port()), timeout=ANSWER_SECONDS) as link:
        lines = link.makefile("rb")
        link.sendall(entry(step, "start", mode, seconds))
        answer: dict[str, Any] = json.loads(lines.readline())
        link.sendall(entry(step, "end", mode, 0.0))
        lines.readline()
        lines.close()
    return answer
