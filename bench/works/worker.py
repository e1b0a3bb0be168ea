"""A worker in a process of its own, as in production. It ends when whoever started it does.

python -m bench.works.worker PLACE          prints `ready`; settings come from STEPWELL_* variables
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from bench.works.flows import FLOWS
from stepwell import Engine

ROOT = Path(__file__).resolve().parents[2]
READY = "ready"
STOP_SECONDS = 40.0
NOTHING: Mapping[str, str] = MappingProxyType({})


class WorkerProcess:
    def __init__(
        self, place: str, env: Mapping[str, str] = NOTHING, module: str = "bench.works.worker"
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, place],
            cwd=ROOT,
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_ready(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line == READY, f"the worker said {line!r}"

    @property
    def memory_mb(self) -> float:
        """Resident, right now."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def kill(self) -> None:
        """kill -9: it has no time to say goodbye."""
        self._process.kill()
        self._close()

    def stop(self) -> None:
        """Gracefully; what it runs comes to a pause first."""
        self._close()

    def _close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()


@contextmanager
def workers(
    place: str, count: int = 1, env: Mapping[str, str] = NOTHING, module: str = "bench.works.worker"
) -> Iterator[list[WorkerProcess]]:
    """So many workers, all ready; they are stopped at the end, also those that were killed meanwhile."""
    fleet = [WorkerProcess(place, env, module) for _ in range(count)]
    try:
        for worker in fleet:
            worker.wait_ready()
        yield fleet
    finally:
        for worker in fleet:
            worker.stop()


async def serve(engine: Engine) -> None:
    async with engine:
        print(READY, flush=True)
        # The end of our input is the end of whoever started us.
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(Engine(sys.argv[1], workflows=FLOWS)))
