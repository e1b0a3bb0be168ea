"""Connections: databases under names that an operator chose. A graph uses a name, never an address.

A connection belongs to one workspace: `shop` to that of the engine, `acme/shop` to another one. A run of one
workspace never gets the connection of another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Protocol

from stepwell.databases.errors import QueryError
from stepwell.databases.own import ADDRESS, role_of
from stepwell.databases.statement import Statement
from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import SettingsInvalid, excerpt

PREFIX = "STEPWELL_CONNECTION_"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_APART = "__"  # in a variable, between the workspace and the name


class NamedDatabase(Protocol):
    async def query(
        self, statement: Statement, params: dict[str, Any], *, rows_max: int, seconds: float, read_only: bool
    ) -> dict[str, Any]: ...

    async def close(self) -> None: ...


class Connections:
    """Databases that are opened on first use and closed with the engine."""

    def __init__(self, urls: Mapping[str, str] | None = None, *, workspace: str = DEFAULT_WORKSPACE) -> None:
        self._workspace = workspace
        self._urls: dict[tuple[str, str], str] = {}  # by workspace and name
        self._roles: dict[tuple[str, str], str] = {}  # roles of connections to the engine's own database
        for given, url in (_from_env(os.environ) if urls is None else urls).items():
            owner, slash, name = given.rpartition("/")
            if not _NAME.fullmatch(name) or (slash and not owner) or not isinstance(url, str):
                raise SettingsInvalid(
                    f"a connection is named {excerpt(given)}",
                    hint="use a-z, 0-9, - and _; acme/shop is for the workspace acme",
                )
            place = owner or workspace, name
            self._urls[place] = url
            if url.startswith(ADDRESS):
                self._roles[place] = role_of(url, name)
            elif not url.startswith(("postgresql://", "postgres://", "sqlite:")):
                raise SettingsInvalid(
                    f"the connection {name} has an address that is not known",
                    hint="begin it with postgresql:// or sqlite: and the path of the file, or write engine:",
                )
        self._opened: dict[tuple[str, str], NamedDatabase] = {}

    def role(self, name: str, workspace: str) -> str:
        """Return the role that statements of an own connection get."""
        place = self._place(name, workspace)
        if place not in self._roles:
            raise QueryError(
                "SQL_CONNECTION",
                f"the connection {name} is another database, so it cannot take part in the run's commit",
                hint=f"remove transactional, or let an operator set {self._variable(place)}=engine:",
            )
        return self._roles[place]

    def _place(self, name: str, workspace: str) -> tuple[str, str]:
        place = workspace, name
        if place not in self._urls:
            names = [known for owner, known in self._urls if owner == workspace]
            of_whom = "" if workspace == self._workspace else f" for workspace {excerpt(workspace)}"
            raise QueryError(
                "SQL_CONNECTION",
                f"this worker has no connection {excerpt(name)}{of_whom}",
                hint=did_you_mean_one_of(name, names) or f"an operator sets {self._variable(place)}",
            )
        return place

    def _variable(self, place: tuple[str, str]) -> str:
        owner, name = place
        before = "" if owner == self._workspace else f"{owner.upper()}{_APART}"
        return f"{PREFIX}{before}{name.upper()}"

    def of(self, name: str, workspace: str) -> NamedDatabase:
        """Return the database of this name in a workspace. QueryError if it has none."""
        place = self._place(name, workspace)
        if place in self._roles:
            raise QueryError(
                "SQL_CONNECTION",
                f"the connection {name} is the engine's own database",
                hint="set transactional to true: its statements run in the commit of their node",
            )
        if place not in self._opened:
            self._opened[place] = _database(self._urls[place])
        return self._opened[place]

    async def close(self) -> None:
        opened, self._opened = self._opened, {}
        for database in opened.values():
            await database.close()


def _from_env(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix(PREFIX).lower().replace(_APART, "/", 1): url
        for name, url in env.items()
        if name.startswith(PREFIX) and url
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
