"""The listener: a socket, and uvicorn on it until a signal comes.

It stops in this order: no new connections, streams end with a hint where to resume, requests finish, then
the engine closes and its runs are parked.
"""

from __future__ import annotations

import errno
import gc
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from stepwell.app import Engine
from stepwell.errors import InvalidRequest, SettingsInvalid
from stepwell.server.app import ServerApp
from stepwell.server.metrics import MetricsPort
from stepwell.server.proxy import PeerRecorder
from stepwell.server.rooms import MESSAGE_MAX

PORT = 8710
_PORTS = 20  # how many are tried
_SILENT_MILLISECONDS = 60_000  # a connection that takes no data for this long is closed by the kernel
_GRACE = 30  # seconds for requests to finish


def _is_news(record: logging.LogRecord) -> bool:
    """Leave out what uvicorn says of every socket that was refused with an HTTP answer, as of an error."""
    return record.msg != "ASGI callable returned without completing handshake."


class Listener(uvicorn.Server):
    """uvicorn, which ends the streams before it waits for requests to finish."""

    def __init__(self, app: ServerApp, *, proxies: str = "") -> None:
        # Forwarded headers count only if they come from an address named here.
        forwarded: Any = ProxyHeadersMiddleware(app, proxies) if proxies else app  # type: ignore[arg-type]
        super().__init__(
            uvicorn.Config(
                PeerRecorder(forwarded),
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_GRACE,
                ws="websockets-sansio",  # holds back data that a reader does not take
                ws_max_size=MESSAGE_MAX,
                ws_max_queue=8,
                ws_per_message_deflate=False,
            )
        )
        logging.getLogger("uvicorn.error").addFilter(_is_news)
        self._served = app
        self._announce: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and self._announce is not None:
            self._announce()  # from here on, a signal stops it in order

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._served.drain()
        await self._served.end_sockets()
        await super().shutdown(sockets=sockets)
        self._captured_signals.clear()  # uvicorn would raise them again: a stop on request is not a failure

    async def serve_engine(
        self,
        engine: Engine,
        listener: socket.socket,
        ready: Callable[[str], None],
        *,
        metrics: tuple[str, int] | None = None,
    ) -> None:
        """Open the engine, serve until a signal comes, and close the engine; its own errors are raised.

        `ready` is called once it serves, with the address of the metrics, or ''.
        """
        async with engine, MetricsPort(engine, self._served.state.metrics).listening(metrics) as shown:
            await engine.check_key()
            settle_objects()
            self._announce = partial(ready, shown)
            engine.begin_notifications()
            engine.begin_probe()
            await self.serve(sockets=[listener])


def settle_objects() -> None:
    """Let collections skip what is loaded by now: else one that a large request causes halts all others."""
    gc.collect()
    gc.freeze()


def bind(host: str, port: int | None) -> socket.socket:
    """Return a listening socket. Without a port: 8710, or the next one that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in [port] if port is not None else range(PORT, PORT + _PORTS):
        # asyncio turns Nagle's delay off only for sockets that name TCP: without it an answer takes 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MILLISECONDS)
            listener.bind((host, number))
            listener.listen(2048)
            return listener
        except OverflowError:
            listener.close()
            raise SettingsInvalid(f"{number} is not a port", hint="name one from 0 to 65535") from None
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or port is not None:
                raise SettingsInvalid(
                    f"cannot listen on {host}:{number}: {error.strerror}",
                    hint="choose another --host or --port",
                ) from None
    raise InvalidRequest(f"ports {PORT} to {PORT + _PORTS - 1} are in use", hint="name a free one: --port")


def address(listener: socket.socket) -> str:
    """Return the address of a socket as a URL."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
