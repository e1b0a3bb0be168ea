"""CliSession: what one command works with: the database or server, and the run that the caller means."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from stepwell.cli.output import Output
from stepwell.errors import InvalidRequest, KeyNotFound, RunNotFound, StoreUnusable, Unauthenticated, excerpt

if TYPE_CHECKING:
    from stepwell.client import Client, RunHandle
    from stepwell.store.payloads import PayloadCodec

DEFAULT = "stepwell.db"
FOLDER = ".stepwell"  # the database of `stepwell dev` and `stepwell run`
_ID_LENGTH, _HEX = 32, frozenset("0123456789abcdef")
_PREFIX_MIN = 4
_KEYS_PAGE = 500
_RETRY_SECONDS = 5.0  # seconds that a server may be away: a person is waiting
_NEWEST = {"@last": (), "@failed": ("failed", "timed_out"), "@waiting": ("suspended",)}


def redacted(database: str) -> str:
    """Return the address without its password, which must not be logged."""
    parts = urlsplit(database)
    if not parts.password:
        return database
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":…@")))


def _place(database: str, server: str) -> str:
    """Return the database or server that the caller names; '' if it names none."""
    if database and server:
        raise InvalidRequest("both --database and --server were given", hint="leave one of them out")
    named = server or (os.environ.get("STEPWELL_SERVER", "") if not database else "")
    if named and not named.startswith(("http://", "https://")):
        raise InvalidRequest(
            f"{excerpt(named)} is not the address of a server", hint="such as http://localhost:8710"
        )
    return database or named or os.environ.get("STEPWELL_DATABASE", "")


class CliSession:
    """The options that commands share, and what follows from them."""

    def __init__(
        self,
        *,
        json: bool = False,
        no_color: bool = False,
        database: str = "",
        server: str = "",
        workspace: str = "",
        codec: str = "",
        api_key: str = "",
    ) -> None:
        self.out = Output(as_json=json, color=not no_color)
        self.workspace = workspace
        self._database = _place(database, server)
        self._codec = codec
        self.api_key = api_key or os.environ.get("STEPWELL_API_KEY", "")

    # Where the runs are

    @property
    def named(self) -> bool:
        """Whether the caller said which database is meant."""
        return bool(self._database)

    @cached_property
    def database(self) -> str:
        """The database or server: as the caller says, or the one of this folder."""
        own = Path(FOLDER) / "dev.db"
        return self._database or (str(own) if own.exists() and not Path(DEFAULT).exists() else DEFAULT)

    def command(self, words: str) -> str:
        """Return a command that a person can copy: on the same database."""
        known = (os.environ.get("STEPWELL_DATABASE"), os.environ.get("STEPWELL_SERVER"))
        named = self._database if self._database not in known else ""
        return f"stepwell {words}" + (f" --database {shlex.quote(redacted(named))}" if named else "")

    def use(self, database: str) -> None:
        """Work on this database, if one is given."""
        if database:
            self._database = self.__dict__["database"] = database

    @property
    def remote(self) -> bool:
        return self.database.startswith(("http://", "https://"))

    def create_own(self) -> None:
        """Work on the database of this folder if none is named, in a place that version control ignores."""
        if self.named or Path(DEFAULT).exists():
            return
        folder = Path(FOLDER)
        ignore = folder / ".gitignore"
        try:
            folder.mkdir(exist_ok=True)
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise StoreUnusable(
                f"{folder.absolute()} cannot be written: {error.strerror}",
                hint="work in another folder, or name a file that can be written: --database FILE",
            ) from None
        self.__dict__["database"] = str(folder / "dev.db")

    @property
    def exists(self) -> bool:
        """Whether there is a database, as far as can be seen without connecting."""
        return "://" in self.database or Path(self.database).exists()

    def must_exist(self) -> None:
        """Refuse a missing file, because opening it would create an empty database."""
        if not self.exists:
            hint = "name the file that the workers use: --database FILE"
            if not self.named:
                hint += "; or begin with `stepwell init` or `stepwell dev FILE`"
            raise StoreUnusable(f"there is no database {self.database}", hint=hint)

    @property
    def words(self) -> list[str]:
        """The shared options as arguments for a child process."""
        words = [
            word
            for name, value in (("--database", self._database), ("--codec", self._codec))
            if value
            for word in (name, value)
        ]
        return [*words, "--json"] if self.out.as_json else words

    def need_database(self, command: str, *, instead: str = "") -> None:
        """Refuse a command that servers do not offer. `instead` says what a server does offer."""
        if self.remote:
            named = "; STEPWELL_SERVER names the server" if self._by_variable else ""
            server = self.database.partition("?")[0]  # without the launch token
            raise InvalidRequest(
                f"`stepwell {command}` needs the database itself, and {server} is a server",
                hint=instead
                or f"call it where the database can be reached: --database FILE or postgresql://...{named}",
            )

    @property
    def _by_variable(self) -> bool:
        return self._database == os.environ.get("STEPWELL_SERVER")

    @cached_property
    def codec(self) -> PayloadCodec | None:
        from stepwell.cli.codec import named_codec

        return named_codec(self._codec)

    @property
    def user(self) -> str:
        """The name of the operating system's user; '' if there is none, or if an API key names the caller."""
        if self.remote and self.api_key.startswith("sw_key_"):
            return ""
        try:
            return getpass.getuser()
        except (OSError, KeyError):  # as in a container with an unknown user id
            return ""

    @asynccontextmanager
    async def client(self, *, create: bool = False, payloads: bool = True) -> AsyncIterator[Client]:
        """Connect to the database. Without `payloads` an encrypted one needs no codec."""
        from stepwell.cli.codec import store_of
        from stepwell.client import Client
        from stepwell.system import SystemIds

        if self.remote:
            async with self._connected() as client:
                yield client
            return
        if not create:
            self.must_exist()
        store = store_of(self.database, self.codec if payloads else None)
        await (store.open() if payloads else store.open(encoded=True))
        try:
            client = Client(store, SystemIds(), workspace=self.workspace or "default")
            client.notifier.connect(store, listens=False)
            yield client
        finally:
            await store.close()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        from stepwell.http_client.client import HttpClient

        try:
            async with HttpClient(self.database, key=self.api_key, retry_seconds=_RETRY_SECONDS) as client:
                yield client.within(self.workspace) if self.workspace else client
        except Unauthenticated as error:
            error.hint = "give a key that is valid: --api-key KEY, or set STEPWELL_API_KEY"
            raise

    async def fetched(self, client: Client, path: str, name: str) -> list[dict[str, Any]]:
        """Return a list from a route of the server."""
        import msgspec

        data = await client.connection.get(path)  # type: ignore[attr-defined]
        rows: list[dict[str, Any]] = msgspec.json.decode(data)[name]
        return rows

    async def now(self, client: Client) -> float:
        """Return the time of the database, or of this machine if only a server is known."""
        if self.remote:
            from stepwell.system import SystemClock

            return SystemClock.time()
        return await client.store.now()

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[Any]:
        """Connect with an engine without a worker. It knows graphs, which a client does not."""
        if self.remote:
            async with self._connected() as client:
                yield client
            return
        from stepwell.app import Engine
        from stepwell.cli.codec import store_of

        self.must_exist()
        store = store_of(self.database, self.codec)
        async with Engine(store, worker=False, workspace=self.workspace or "default") as engine:
            yield engine

    # Which run is meant

    @asynccontextmanager
    async def handle(self, text: str, *, payloads: bool = True) -> AsyncIterator[RunHandle[Any]]:
        """Connect, and return the run that the text means."""
        async with self.client(payloads=payloads) as client:
            yield await self.run(client, text)

    async def run(self, client: Client, text: str) -> RunHandle[Any]:
        """Return the run with that id, the beginning of its id, or a word such as @last."""
        if text in _NEWEST:
            rows = await client.runs(status=_NEWEST[text], limit=1)
            if not rows:
                raise RunNotFound(f"there is no run for {text}", hint="see `stepwell runs list`")
            return client.handle(rows[0].id)
        if text.startswith("@"):
            raise InvalidRequest(f"{excerpt(text)} names no run", hint=f"use {', '.join(_NEWEST)} or an id")
        if len(text) < _ID_LENGTH and text and set(text) <= _HEX:
            return client.handle(await self._completed(client, text))
        if self.remote and not (len(text) == _ID_LENGTH and set(text) <= _HEX):
            raise RunNotFound(f"there is no run {excerpt(text)}")  # as a database says it
        return client.handle(text)

    async def whole_key(self, client: Client, text: str) -> str:
        """Return the id of the API key that the text is, or begins with."""
        if len(text) == _ID_LENGTH and set(text) <= _HEX:
            return text
        matches: list[str] = []
        before = ""
        while text and (rows := await client.keys.list(before=before, limit=_KEYS_PAGE)):
            matches += [row.id for row in rows if row.id.startswith(text)]
            before = rows[-1].id
        if not matches:
            raise KeyNotFound(f"there is no key {excerpt(text)}", hint="see `stepwell keys list`")
        return _only(text, matches, "keys")

    async def _completed(self, client: Client, prefix: str) -> str:
        return _only(prefix, [row.id for row in await client.runs(id_prefix=prefix, limit=3)], "runs")


def _only(prefix: str, matches: list[str], what: str) -> str:
    """Return the one id that begins with the prefix; the prefix itself if none does."""
    if not matches:
        return prefix
    if len(matches) > 1 and prefix not in matches:
        shown = ", ".join(matches[:2]) + (", ..." if len(matches) > 2 else "")
        raise InvalidRequest(
            f"several {what} begin with {prefix}", hint="give more of the id", **{what: shown}
        )
    if len(prefix) < _PREFIX_MIN:
        raise InvalidRequest(f"{prefix} is too short for an id", hint="give four characters or more")
    return matches[0]
