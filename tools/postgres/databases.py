"""Fresh databases on a running server. Plain calls, usable inside and outside an event loop."""

from __future__ import annotations

import asyncio
import secrets
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit

import asyncpg

CONNECT_SECONDS = 10.0


class Databases:
    """Makes and drops databases of the server that `admin_url` leads to."""

    def __init__(self, admin_url: str) -> None:
        self.admin_url = admin_url

    def create(self, *, template: str | None = None) -> str:
        """The URL of a new database, empty or a copy of another that nobody is connected to."""
        name = f"stepwell_{secrets.token_hex(6)}"
        source = f'"{name_of(template)}"' if template else "template0"
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE {source}')
        return self.url(name)

    def drop(self, url: str) -> None:
        """Drops the database and ends whatever is connected to it; one that is gone is no error."""
        self.execute(f'DROP DATABASE IF EXISTS "{name_of(url)}" WITH (FORCE)')

    def url(self, name: str) -> str:
        return urlunsplit(urlsplit(self.admin_url)._replace(path=f"/{name}"))

    def execute(self, statement: str) -> None:
        # A thread of its own: the caller may be inside a running loop.
        with ThreadPoolExecutor(max_workers=1) as thread:
            thread.submit(asyncio.run, self._execute(statement)).result()

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self.admin_url, timeout=CONNECT_SECONDS)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


def name_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")
