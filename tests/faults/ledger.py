"""Ledger: the outside world. A separate process that records every effect.

    python -m tests.faults.ledger FILE

It prints its port, reads one JSON object a line on loopback and answers with one. It knows nothing
about the project under test. Every line of FILE is on disk before its caller gets the answer:
`n, key, run, path, attempt, lease, pid, phase (start | end), mode, applied, at (monotonic ns)`.
Modes: `raw` counts every call, `idempotent` applies each key once, `slow` answers `seconds` late.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from typing import Any


class Ledger:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lines: list[bytes] = []
        self._written = asyncio.Event()
        self._wanted = asyncio.Event()
        self._applied: set[str] = set()
        self._n = 0

    async def write(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Append one entry; returns when it is on disk."""
        self._n += 1
        first = entry["key"] not in self._applied
        applied = first or entry["mode"] != "idempotent"
        if entry["phase"] == "start":
            self._applied.add(entry["key"])
        line = {"n": self._n, **entry, "applied": applied, "at": time.monotonic_ns()}
        self._lines.append(json.dumps(line).encode() + b"\n")
        written = self._written
        self._wanted.set()
        await written.wait()
        return {"n": line["n"], "applied": applied}

    async def run(self) -> None:
        """One sync for all entries that came since the last one."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            lines, self._lines = self._lines, []
            written, self._written = self._written, asyncio.Event()
            os.write(self._file, b"".join(lines))
            await asyncio.to_thread(os.fdatasync, self._file)
            written.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Expected: a caller that was killed in the middle of a call.
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                entry = json.loads(line)
                seconds = entry.pop("seconds", 0.0)
                answer = await self.write(entry)
                if entry["mode"] == "slow" and entry["phase"] == "start":
                    await asyncio.sleep(seconds)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        writer.close()


async def main(path: str) -> None:
    ledger = Ledger(path)
    server = await asyncio.start_server(ledger.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server, asyncio.TaskGroup() as group:
        group.create_task(ledger.run())
        # The end of our input is the end of our parent.
        await asyncio.to_thread(sys.stdin.read)
        os._exit(0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
