"""A worker of the demo: `python -m stepwell.demo.worker DATABASE`. It ends with the demo."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading

from stepwell.app import Engine
from stepwell.demo.workflows import STEPS, WORKFLOWS
from stepwell.settings import Settings


def _end_with_the_demo() -> None:
    """Wait for the end of stdin, a pipe whose other end only the demo holds."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def main(database: str) -> None:
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    engine = Engine(database, workflows=WORKFLOWS, steps=STEPS, settings=Settings.from_env())
    asyncio.run(engine.serve())


if __name__ == "__main__":
    main(sys.argv[1])
