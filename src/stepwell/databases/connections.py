"""Connections: databases under names that an operator chose. A graph uses a name, never an address."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Protocol

from stepwell.databases.errors import QueryError
from stepwell.databases.own import ADDRESS, role_of
from stepwell.databases.statement import Statement
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import SettingsInvalid, excerpt

PREFIX = "STEPWELL_CONNECTION_"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class NamedDatabase(Protocol):
    async def query(
        self, statement: Statement, params: dict[str, Any], *, rows_max: int, seconds: float, read_only: bool
    ) -> dict[str, Any]: ...

    async def close(self) -> None: ...


class Connections:
    """Databases that are opened on first use and closed with the engine."""

    def __init__(self, urls: Mapping[str, str] | None = None) -> None:
        self._urls = _from_env(os.environ) if urls is None else dict(urls)
        self._roles: dict[str, str] = {}  # roles of connections to the engine's own database
        for name, url in self._urls.items():
            if not _NAME.fullmatch(name) or not isinstance(url, str):
                raise SettingsInvalid(f"a connection is named {excerpt(name)}", hint="use a-z, 0-9, - and _")
            if url.startswith(ADDRESS):
                self._roles[name] = role_of(url, name)
            elif not url.startswith(("postgresql://", "postgres://", "sqlite:")):
                raise SettingsInvalid(
                    f"the connection {name} has an address that is not known",
                    hint="begin it with postgresql:// or sqlite: and the path of the file, or write engine:",
                )
        self._opened: dict[str, NamedDatabase] = {}

    def role(self, name: str) -> str:
        """Return the role that statements of an own connection get."""
        self._check(name)
        if name not in self._roles:
            raise QueryError(
                "SQL_CONNECTION",
                f"the connection {name} is another database, so it cannot take part in the run's commit",
                hint=f"remove transactional, or let an operator set {PREFIX}{name.upper()}=engine:",
            )
        return self._roles[name]

    def _check(self, name: str) -> None:
        if name not in self._urls:
            raise QueryError(
                "SQL_CONNECTION",
                f"this worker has no connection {excerpt(name)}",
                hint=did_you_mean_one_of(name, self._urls) or f"an operator sets {PREFIX}{name.upper()}",
            )

    def of(self, name: str) -> NamedDatabase:
        self._check(name)
        if name in self._roles:
            raise QueryError(
                "SQL_CONNECTION",
                f"the connection {name} is the engine's own database",
                hint="set transactional to true: its statements run in the commit of their node",
            )
        if name not in self._opened:
            self._opened[name] = _database(self._urls[name])
        return self._opened[name]

    async def close(self) -> None:
        opened, self._opened = self._opened, {}
        for database in opened.values():
            await database.close()


def _from_env(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX).lower(): url for name, url in env.items() if name.startswith(PREFIX) and url
    }


def _database(url: str) -> NamedDatabase:
    if url.startswith("sqlite:"):
        from stepwell.databases.sqlite import SqliteDatabase

        return SqliteDatabase(url.removeprefix("sqlite:").removeprefix("//"))
    try:
        from stepwell.databases.postgres import PostgresDatabase
    except ImportError:
        raise QueryError(
            "SQL_CONNECT", "this worker has no driver for PostgreSQL", hint='pip install "stepwell[postgres]"'
        ) from None
    return PostgresDatabase(url)
