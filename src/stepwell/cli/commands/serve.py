"""`stepwell serve` and `stepwell dev`: the HTTP API of a database, without or with a worker.

`dev` watches its file. A parent process keeps the socket and the launch token, and starts a new child when
the file changes: connections wait in the socket meanwhile, and the address stays the same.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.log_lines import write_log
from stepwell.cli.options import LogAs, Metrics, Source, log_format, metrics_place
from stepwell.cli.session import CliSession, redacted

if TYPE_CHECKING:
    from stepwell.app import Engine
    from stepwell.server.app import ServerApp
    from stepwell.server.proxy import TrustedProxy
    from stepwell.store.base import Store

TOKEN = "STEPWELL_LAUNCH_TOKEN"
_LOOK = 0.3  # seconds between checks of the files
FILES = (".py", ".json", ".yaml", ".yml")

commands = Commands()
Host = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.", show_default=True)
]
Port = Annotated[
    int | None, typer.Option("--port", metavar="N", help="Port; else 8710, or the next free one.")
]
HostName = Annotated[
    list[str], typer.Option("--host-name", metavar="NAME", help="Name under which it is reached.")
]
NoAuth = Annotated[
    bool, typer.Option("--no-auth", help="Need no token; on loopback only.", show_default=False)
]


@commands.add(
    "serve",
    "stepwell serve --database postgresql://localhost/app",
    "stepwell serve --database app.db --host 0.0.0.0 --host-name flows.example.com --proxy 10.0.0.1",
)
def serve(
    session: CliSession,
    host: Host = "127.0.0.1",
    port: Port = None,
    host_name: HostName = [],
    no_auth: NoAuth = False,
    proxy: Annotated[
        str,
        typer.Option("--proxy", metavar="ADDRESSES", help="Reverse proxies whose forwarded headers count."),
    ] = "",
    user_header: Annotated[
        str, typer.Option("--user-header", metavar="NAME", help="Header in which they name who signed in.")
    ] = "",
    groups_header: Annotated[
        str, typer.Option("--groups-header", metavar="NAME", help="Header with the roles of that person.")
    ] = "",
    proxy_admin: Annotated[
        list[str], typer.Option("--proxy-admin", metavar="NAME", help="Person with all scopes.")
    ] = [],
    metrics: Metrics = "",
    log_as: LogAs = "text",
) -> None:
    """Serve the HTTP API of a database. Workers are other processes: no workflow code is needed here."""
    import asyncio

    from stepwell.app import Engine
    from stepwell.server.listener import Listener, bind
    from stepwell.server.proxy import TrustedProxy

    session.need_database("serve")
    write_log(log_format(log_as))
    session.must_exist()
    database = session.database if session.codec is not None else asyncio.run(_without_codec(session))
    engine = Engine(database, worker=False, codec=session.codec)
    trusted = None
    if user_header:
        addresses = [address for address in proxy.split(",") if address.strip()]
        trusted = TrustedProxy(
            addresses, user_header=user_header, groups_header=groups_header, admins=proxy_admin
        )
    with bind(host, port) as listener:
        app = _app(engine, listener, host, host_name, trusted, no_auth=no_auth)
        announce = partial(_announce, session, app, listener, redacted(session.database))
        serving = Listener(app, proxies=proxy)
        asyncio.run(serving.serve_engine(engine, listener, announce, metrics=metrics_place(metrics)))
    session.out.say("stopped")


@commands.add("dev", "stepwell dev flows.py", "stepwell dev flows.py --database app.db --port 9000")
def dev(
    session: CliSession,
    source: Source,
    host: Host = "127.0.0.1",
    port: Port = None,
    host_name: HostName = [],
    no_auth: NoAuth = False,
    metrics: Metrics = "",
    log_as: LogAs = "text",
    fd: Annotated[int | None, typer.Option("--fd", hidden=True)] = None,
) -> None:
    """Serve the HTTP API and run the workflows of a file; restart when the file changes.

    Without --database it uses SQLite in .stepwell, which version control ignores.
    """
    from stepwell.errors import InvalidDefinition
    from stepwell.server.listener import bind

    shown = metrics_place(metrics)
    if fd is not None:
        write_log(log_format(log_as))
        _child(session, source, fd, host, host_name, no_auth=no_auth, metrics=shown)
        return
    session.need_database("dev")
    if source.endswith(FILES) and not Path(source).is_file():
        raise InvalidDefinition(f"there is no file {source}", hint="name a module or a .py or .json file")
    names = [word for name in host_name for word in ("--host-name", name)]
    own = ["--host", host, *names, *(["--no-auth"] if no_auth else []), *session.words]
    own += ["--metrics", metrics, "--log-format", log_format(log_as)]
    with bind(host, port) as listener:
        _access(listener, host, host_name, no_auth=no_auth)  # a changed file would not help
        _Parent(session, source, own, listener).run()


async def _without_codec(session: CliSession) -> str | Store:
    """Return the database. An encrypted one is opened so that it shows everything but payloads."""
    from stepwell.store.open import open_store
    from stepwell.store.sealed import needs_codec, sealed

    if not await needs_codec(open_store(session.database)):
        return session.database
    session.out.say(
        "payloads are encrypted, and this server has no key: they are shown as encrypted, and what would "
        "write one is refused; set STEPWELL_ENCRYPTION_KEY or --codec"
    )
    return sealed(open_store(session.database))


def _child(
    session: CliSession,
    source: str,
    fd: int,
    host: str,
    host_name: Sequence[str],
    *,
    no_auth: bool,
    metrics: tuple[str, int] | None,
) -> None:
    import asyncio

    from stepwell.app import Engine
    from stepwell.cli.source import collect
    from stepwell.server.listener import Listener

    programs = collect(source)
    session.create_own()
    engine = Engine(
        session.database,
        workflows=programs.workflows,
        steps=programs.steps,
        nodes=programs.nodes,
        sources=programs.sources,
        codec=session.codec,
    )
    with socket.socket(fileno=fd) as listener:
        app = _app(engine, listener, host, host_name, None, no_auth=no_auth)
        names = ", ".join(sorted({workflow.definition.name for workflow in programs.workflows}))
        announce = partial(_announce, session, app, listener, names or source)
        asyncio.run(Listener(app).serve_engine(engine, listener, announce, metrics=metrics))


def _app(
    engine: Engine,
    listener: socket.socket,
    host: str,
    host_name: Sequence[str],
    proxy: TrustedProxy | None,
    *,
    no_auth: bool,
) -> ServerApp:
    from stepwell.server.app import asgi

    return asgi(engine, **_access(listener, host, host_name, no_auth=no_auth), proxy=proxy)


def _access(listener: socket.socket, host: str, host_name: Sequence[str], *, no_auth: bool) -> dict[str, Any]:
    """Return who may call, and from where. SettingsInvalid for settings that would let anybody in."""
    from stepwell.errors import SettingsInvalid
    from stepwell.server.access import LOOPBACK, Access

    if no_auth and listener.getsockname()[0] not in ("127.0.0.1", "::1"):
        raise SettingsInvalid(
            f"--no-auth with --host {host}",
            hint="everybody who reaches that address would be admin; leave out --no-auth",
        )
    token = os.environ.get(TOKEN) or None
    settings = {"token": token, "hosts": [*LOOPBACK, *host_name], "auth": not no_auth}
    Access(**settings)  # type: ignore[arg-type]
    return settings


def _announce(session: CliSession, app: ServerApp, listener: socket.socket, what: str, metrics: str) -> None:
    from stepwell.server.listener import address

    url = address(listener)
    opened = f"{url}/?t={app.access.token}" if app.access.auth else url
    session.out.say(f"serving {what}\n  open   {opened}\n  API    {url}/api/v1")
    if what != (database := redacted(session.database)):
        session.out.say(f"  data   {database}")
    if metrics:
        session.out.say(f"  shows  {metrics}")
    if session.out.as_json:
        session.out.json({"serving": what, "open": opened, "api": f"{url}/api/v1", "metrics": metrics})


class _Parent:
    """Keeps one child alive, and replaces it when a file in its folder changes."""

    def __init__(
        self, session: CliSession, source: str, options: Sequence[str], listener: socket.socket
    ) -> None:
        import secrets

        self._session, self._source, self._options = session, source, options
        self._listener = listener
        self._stopping = False
        self._token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self._listener.set_inheritable(True)
        while not self._stopping:
            seen = dict(_files(self._source))
            child = self._spawn()
            why = self._wait(seen, child)
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
            child.wait()
            if not self._stopping:
                self._session.out.say(f"{why}: starting again")
        self._session.out.say("stopped; nothing was left half done")

    def _wait(self, seen: dict[str, int], child: subprocess.Popen[bytes]) -> str:
        """Return why a new child is needed: a file changed, or this one was killed."""
        announced = False
        while not self._stopping and dict(_files(self._source)) == seen:
            ended = child.poll()
            if ended is not None and ended < 0:
                time.sleep(_LOOK)
                return f"ended by signal {-ended}"
            if ended is not None and not announced:
                self._session.out.say("nothing is served; waiting for a file to change")
                announced = True
            time.sleep(_LOOK)
        return "changed"

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _spawn(self) -> subprocess.Popen[bytes]:
        fd = self._listener.fileno()
        command = [sys.executable, "-m", "stepwell", "dev", self._source, "--fd", str(fd), *self._options]
        return subprocess.Popen(
            command,
            pass_fds=[fd],
            env={**os.environ, TOKEN: self._token},
            start_new_session=True,  # Ctrl-C reaches only the parent, which stops the child once
        )


def _files(source: str) -> Iterator[tuple[str, int]]:
    """Return the Python and graph files beside the source, with their modification times.

    Other files, such as answers that were written there, do not change a workflow.
    """
    path = Path(source if source.endswith(FILES) else source.replace(".", "/"))
    folder = path if path.is_dir() else path.parent
    for file in sorted(folder.glob("*")):
        if file.suffix in FILES:
            try:
                changed = file.stat().st_mtime_ns
                if file.suffix == ".py" or _may_be_graph(file, changed):
                    yield str(file), changed
            except FileNotFoundError:  # an editor is just replacing it
                continue


@lru_cache(maxsize=1000)
def _may_be_graph(file: Path, changed: int) -> bool:
    """Whether the file, as it was written then, has nodes."""
    return b"nodes" in file.read_bytes()
