"""Proxy: a TCP relay between a store and its server that loses answers or refuses everybody on command."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """`url` leads through it. After `lose_next_answer()` the next request arrives, its answer does not."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._parts = parts
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._marker = b""
        self._last = b""
        self._goes = asyncio.Event()
        self._goes.set()
        self.lost = 0
        self.refusing = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._linked, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        user = f"{self._parts.username}@" if self._parts.username else ""
        if self._parts.password:
            user = f"{self._parts.username}:{self._parts.password}@"
        return urlunsplit(self._parts._replace(netloc=f"{user}127.0.0.1:{port}"))

    def lose_next_answer(self, marker: bytes) -> None:
        """Cut the connection instead of passing on the first answer that holds these bytes."""
        self._marker = marker

    def hang_after(self, marker: bytes) -> None:
        """Pass the first answer on that holds these bytes, and then nothing more."""
        self._last = marker

    def go_on(self) -> None:
        self._goes.set()

    @property
    def hangs(self) -> bool:
        return not self._goes.is_set()

    def cut(self) -> None:
        """Every connection breaks now."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _linked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, there_writer}
        for task in (
            asyncio.create_task(self._pump(reader, there_writer, answers=False)),
            asyncio.create_task(self._pump(there_reader, writer, answers=True)),
        ):
            self._links.add(task)
            task.add_done_callback(self._links.discard)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        try:
            while data := await reader.read(65536):
                if answers and self._marker and self._marker in data:
                    self._marker = b""
                    self.lost += 1
                    break
                await self._goes.wait()
                writer.write(data)
                if answers and self._last and self._last in data:
                    self._last = b""
                    self._goes.clear()
                await writer.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            if answers and not self._server_closing():
                self.cut()

    def _server_closing(self) -> bool:
        return self._server is None or not self._server.is_serving()
