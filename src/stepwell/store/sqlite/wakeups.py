"""Wakeups: hints between the processes that use one file.

Each listener binds a datagram socket in `<database>.hints`; a notifier sends one byte to each. A full
socket needs no second hint, and a socket that refuses belongs to a dead process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

PATH_MAX = 100  # bytes; a socket's address may have 107 on Linux, 103 elsewhere
ENDING = ".sock"
TICK_SECONDS = 0.05


class SocketWakeups:
    def __init__(self, database: str) -> None:
        self._place = f"{os.path.abspath(database)}.hints"
        self._folder = Path(self._place)
        self._handle: int | None = None  # of the folder, if its path is too long for an address
        self._name = f"{os.getpid()}-{os.urandom(4).hex()}{ENDING}"
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[], None]] = []
        self._sender: socket.socket | None = None
        self._seen = 0
        self._sure_at = 0.0
        self._others: list[str] = []

    # Receiving

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        if self._socket is None:
            self._open()
        self._listeners.append(callback)

        def stop() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)
            if not self._listeners:
                self._close_socket()

        return stop

    def _open(self) -> None:
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        listening.setblocking(False)
        for last in (False, False, True):  # another process may remove the empty folder in between
            self._forget_handle()
            self._folder.mkdir(exist_ok=True)
            try:
                listening.bind(self._address(self._name))
                break
            except FileNotFoundError:
                if last:
                    listening.close()
                    raise
        self._socket = listening
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(listening, self._receive)

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            while True:
                self._socket.recv(16)
        except OSError:  # nothing more
            pass
        for callback in list(self._listeners):
            callback()

    # Sending

    def hint(self) -> None:
        try:
            changed = os.stat(self._place).st_mtime_ns
        except OSError:
            return  # nobody ever listened
        if changed != self._seen or time.monotonic() < self._sure_at:
            self._look(changed)
        for name in self._others:
            self._send(name)

    def _look(self, changed: int) -> None:
        """List the listeners, only if the folder changed: hints are sent after every commit.

        A folder's time has the resolution of the kernel's ticks, so it is listed again for a moment after
        each change.
        """
        self._forget_handle()
        try:
            names = os.listdir(self._folder)
        except OSError:
            names = []
        self._others = [name for name in names if name.endswith(ENDING) and name != self._name]
        if changed != self._seen:
            self._seen, self._sure_at = changed, time.monotonic() + TICK_SECONDS

    def _send(self, name: str) -> None:
        try:
            if self._sender is None:
                self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
                self._sender.setblocking(False)
            try:
                self._sender.sendto(b"!", self._address(name))
            except ConnectionRefusedError:  # its process died
                (self._folder / name).unlink(missing_ok=True)
        except OSError:  # full, or just removed
            pass

    def _address(self, name: str) -> str:
        path = str(self._folder / name)
        if len(os.fsencode(path)) <= PATH_MAX:
            return path
        if self._handle is None:
            self._handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._handle}/{name}"

    def _forget_handle(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def close(self) -> None:
        self._listeners.clear()
        self._close_socket()
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        self._forget_handle()
        try:
            self._folder.rmdir()
        except OSError:  # others listen, or it was never created
            pass

    def _close_socket(self) -> None:
        if self._socket is None:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        (self._folder / self._name).unlink(missing_ok=True)
