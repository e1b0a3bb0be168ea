"""One worker as a process: `python -m tests.faults.worker_main URL [MODULE]`.

Settings come from STEPWELL_*. It appends "pid worker-id" to FAULTS_IDENTITIES whenever it has a new
id, so that a lease in a log can be traced to the process that was killed.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import sys

from stepwell import Engine
from tests.faults.workload import FAR

IDENTITIES_VARIABLE = "FAULTS_IDENTITIES"
QUEUES_VARIABLE = "FAULTS_QUEUES"
LOOK_SECONDS = 0.02


def write_identity(worker: str) -> None:
    with open(os.environ[IDENTITIES_VARIABLE], "a", encoding="ascii") as file:
        file.write(f"{os.getpid()} {worker}\n")


async def tell_identity(engine: Engine) -> None:
    known = ""
    while True:
        if engine.worker is not None and engine.worker.id != known:
            known = engine.worker.id
            write_identity(known)
        await asyncio.sleep(LOOK_SECONDS)


async def main(url: str, module: str = "tests.faults.workload") -> None:
    work = importlib.import_module(module)
    queues = os.environ.get(QUEUES_VARIABLE, f"default,{FAR}").split(",")
    engine = Engine(url, workflows=work.WORKFLOWS, steps=work.STEPS, queues=queues)
    teller = asyncio.get_running_loop().create_task(tell_identity(engine))
    await engine.serve()
    teller.cancel()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s.%(msecs)03d %(levelname)s %(message)s")
    asyncio.run(main(*sys.argv[1:]))
