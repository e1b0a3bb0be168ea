"""A server in a process of its own, to be killed: `python -m tests.http_client.server_main DATABASE PORT`.

`--work` lets it run the workflows too; otherwise it serves what is in the database.
"""

from __future__ import annotations

import asyncio
import sys

from stepwell import Engine
from stepwell.server.app import asgi
from stepwell.server.listener import Listener, address, bind
from tests.engines import SETTINGS
from tests.server.served import FLOWS, TOKEN


async def main(database: str, port: int, *, works: bool) -> None:
    engine = Engine(database, workflows=FLOWS if works else (), worker=works, settings=SETTINGS)
    with bind("127.0.0.1", port) as listener:
        server = Listener(asgi(engine, token=TOKEN))
        await server.serve_engine(engine, listener, lambda *_: print(address(listener), flush=True))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), works="--work" in sys.argv))
