"""What `http` nodes cost beside the bare client: `python -m tools.http_calls`.

Calls a server of its own, in another process, by the client of the engine and by nodes of graphs, in turns.
Exit code 1: the nodes make fewer than half as many requests a second.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stepwell import Engine
from stepwell.outbound.client import OutboundClient
from stepwell.outbound.request import OutboundRequest, OutboundRules
from tools.disk import disk_folder
from tools.node_rates import BAR, SETTINGS, Rates, in_turns, loop_graph

_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"total": 42}'


async def serve() -> None:
    """Answer every request alike, until somebody ends the process."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def serving() -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.http_calls", "--serve"],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()  # closes its pipe, too


async def rates(database: str, port: int, *, turns: int) -> Rates:
    rules = OutboundRules.of(["127.0.0.1"], [port])
    client = OutboundClient(rules)

    async def call(item: int) -> None:
        url = f"http://127.0.0.1:{port}/items/{item}"
        answer = await client.send(OutboundRequest(method="GET", url=url))
        assert answer.status == 200

    graph = loop_graph("http", {"url": f"http://127.0.0.1:{port}/items/{{{{loop.item}}}}"})
    try:
        async with Engine(database, settings=SETTINGS, outbound=rules) as engine:
            return await in_turns(call, graph, engine, turns=turns)
    finally:
        await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=5)
    chosen = parser.parse_args()
    if chosen.serve:
        asyncio.run(serve())
        return
    with serving() as port, tempfile.TemporaryDirectory(dir=disk_folder()) as folder:
        measured = asyncio.run(rates(str(Path(folder, "http.db")), port, turns=chosen.turns))
    print(f"http: {measured.text}")
    sys.exit(0 if measured.ratio >= BAR else 1)


if __name__ == "__main__":
    main()
