"""`stepwell serve` and `stepwell dev`: the HTTP API of a database, with or without a worker.

`dev` watches its file. A parent keeps the socket and the launch token, and starts a new child when the file
changes: connections wait in the socket meanwhile, and the address stays the same.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from stepwell.app import Engine
from stepwell.cli.codec import named_codec
from stepwell.cli.source import collect, must_exist
from stepwell.cli.worker import redacted
from stepwell.errors import SettingsInvalid
from stepwell.server.access import LOOPBACK
from stepwell.server.app import ServerApp, asgi
from stepwell.server.listener import Listener, address, bind
from stepwell.server.proxy import TrustedProxy

TOKEN = "STEPWELL_LAUNCH_TOKEN"
_LOOK = 0.3  # seconds between two looks at the files
_FOLDER = ".stepwell"


def serve(options: argparse.Namespace) -> int:
    """Serve the API of a database; it needs no workflow code."""
    must_exist(options.database)
    engine = Engine(options.database, worker=False, codec=named_codec(options.codec))
    with bind(options.host, options.port) as listener:
        app = _app(engine, options, listener)
        announce = partial(_announce, app, listener, redacted(options.database))
        asyncio.run(Listener(app, proxies=options.proxy).serve_engine(engine, listener, announce))
    print("stopped", file=sys.stderr)
    return 0


def dev(options: argparse.Namespace) -> int:
    """Serve the API and work on the workflows of a file; begin again when it changes."""
    if options.fd is not None:
        return _child(options)
    with bind(options.host, options.port) as listener:
        return _Parent(options, listener).run()


def _child(options: argparse.Namespace) -> int:
    programs = collect(options.source)
    engine = Engine(
        options.database or _own_database(),
        workflows=programs.workflows,
        steps=programs.steps,
        nodes=programs.nodes,
        codec=named_codec(options.codec),
    )
    with socket.socket(fileno=options.fd) as listener:
        app = _app(engine, options, listener)
        names = ", ".join(sorted({workflow.definition.name for workflow in programs.workflows}))
        announce = partial(_announce, app, listener, names or options.source)
        asyncio.run(Listener(app).serve_engine(engine, listener, announce))
    return 0


def _own_database() -> str:
    """Return the database of this folder, which version control ignores."""
    folder = Path(_FOLDER)
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return str(folder / "dev.db")


def _app(engine: Engine, options: argparse.Namespace, listener: socket.socket) -> ServerApp:
    hosts = [*LOOPBACK, *options.host_name]
    if options.no_auth and listener.getsockname()[0] not in ("127.0.0.1", "::1"):
        raise SettingsInvalid(
            f"--no-auth with --host {options.host}",
            hint="everybody who reaches that address would be admin; leave out --no-auth",
        )
    token = os.environ.get(TOKEN) or None
    return asgi(engine, token=token, hosts=hosts, auth=not options.no_auth, proxy=_proxy(options))


def _proxy(options: argparse.Namespace) -> TrustedProxy | None:
    if not getattr(options, "user_header", ""):
        return None
    return TrustedProxy(
        [address for address in options.proxy.split(",") if address.strip()],
        user_header=options.user_header,
        groups_header=options.groups_header,
        admins=options.proxy_admin,
    )


def _announce(app: ServerApp, listener: socket.socket, what: str) -> None:
    url = address(listener)
    opened = f"{url}/?t={app.access.token}" if app.access.auth else url
    print(f"serving {what}\n  open   {opened}\n  API    {url}/api/v1", file=sys.stderr, flush=True)


class _Parent:
    """Keeps one child alive, and replaces it when a file of its folder changes."""

    def __init__(self, options: argparse.Namespace, listener: socket.socket) -> None:
        self._options = options
        self._listener = listener
        self._stopping = False
        self._token = os.environ.get(TOKEN) or secrets.token_urlsafe(32)

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        self._listener.set_inheritable(True)
        while not self._stopping:
            seen = dict(_files(self._options.source))
            child = self._spawn()
            self._wait_for_change(seen)
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
            child.wait()
            if not self._stopping:
                print("changed: starting again", file=sys.stderr, flush=True)
        print("stopped; nothing was left half done", file=sys.stderr)
        return 0

    def _wait_for_change(self, seen: dict[str, int]) -> None:
        while not self._stopping and dict(_files(self._options.source)) == seen:
            time.sleep(_LOOK)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _spawn(self) -> subprocess.Popen[bytes]:
        options, fd = self._options, self._listener.fileno()
        command = [sys.executable, "-m", "stepwell", "dev", options.source, "--fd", str(fd)]
        command += ["--host", options.host, "--database", options.database, "--codec", options.codec]
        command += ["--no-auth"] if options.no_auth else []
        for name in options.host_name:
            command += ["--host-name", name]
        return subprocess.Popen(
            command,
            pass_fds=[fd],
            env={**os.environ, TOKEN: self._token},
            start_new_session=True,  # Ctrl-C reaches the parent only, which stops the child once
        )


def _files(source: str) -> Iterator[tuple[str, int]]:
    """Return the Python and graph files beside the source, with the time of their last change."""
    path = Path(source if source.endswith((".py", ".json", ".yaml", ".yml")) else source.replace(".", "/"))
    folder = path if path.is_dir() else path.parent
    for file in sorted(folder.glob("*")):
        if file.suffix in (".py", ".json", ".yaml", ".yml"):
            try:
                yield str(file), file.stat().st_mtime_ns
            except FileNotFoundError:  # an editor replaces it at this moment
                continue
