"""Wakeups: hints between the processes that use one file.

Each listener binds a datagram socket in `<database>.hints`; a notifier sends a few bytes to each. A full
socket needs no second hint at work; other hints are sent again. A socket that refuses belongs to a dead
process.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from stepwell.store.followers import ASK

PATH_MAX = 100  # bytes; a socket's address may have 107 on Linux, 103 elsewhere
ENDING = ".sock"
TICK_SECONDS = 0.05
LATE_SECONDS = 0.005  # seconds until a hint to a full socket is sent again
LATE_TRIES = 200  # attempts, after which its process counts as frozen
_WORK = b"!"
_TEXT_MAX = 65_536


class SocketWakeups:
    def __init__(self, database: str) -> None:
        self._place = f"{os.path.abspath(database)}.hints"
        self._folder = Path(self._place)
        self._handle: int | None = None  # of the folder, if its path is too long for an address
        self._name = f"{os.getpid()}-{os.urandom(4).hex()}{ENDING}"
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: list[Callable[[str], None]] = []
        self._sender: socket.socket | None = None
        self._seen = 0
        self._sure_at = 0.0
        self._others: list[str] = []
        self._late: dict[str, dict[bytes, int]] = {}  # listener -> hint -> how often it was tried
        self._late_timer: asyncio.TimerHandle | None = None

    # Receiving

    def hears(self) -> bool:
        return self._socket is not None

    def listen(self, callback: Callable[[str], None]) -> Callable[[], None]:
        if self._socket is None:
            self._open()
            self.hint(ASK)
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
        heard: dict[bytes, None] = {}
        try:
            while True:
                heard[self._socket.recv(_TEXT_MAX)] = None
        except OSError:  # nothing more
            pass
        for data in heard:
            text = "" if data == _WORK else data.decode("ascii", "replace")
            for callback in list(self._listeners):
                callback(text)

    # Sending

    def hint(self, text: str = "") -> None:
        try:
            changed = os.stat(self._place).st_mtime_ns
        except OSError:
            return  # nobody ever listened
        if changed != self._seen or time.monotonic() < self._sure_at:
            self._look(changed)
        data = text.encode() or _WORK
        for name in self._others:
            if not self._sent(name, data) and data != _WORK:
                self._send_later(name, data)

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

    def _sent(self, name: str, data: bytes) -> bool:
        """Send a hint. False if the socket is full."""
        try:
            if self._sender is None:
                self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
                self._sender.setblocking(False)
            try:
                self._sender.sendto(data, self._address(name))
            except ConnectionRefusedError:  # its process died
                (self._folder / name).unlink(missing_ok=True)
        except BlockingIOError:
            return False
        except OSError:  # just removed
            pass
        return True

    def _send_later(self, name: str, data: bytes) -> None:
        self._late.setdefault(name, {}).setdefault(data, 0)
        if self._late_timer is None:
            loop = asyncio.get_running_loop()
            self._late_timer = loop.call_later(LATE_SECONDS, self._send_late)

    def _send_late(self) -> None:
        self._late_timer = None
        late, self._late = self._late, {}
        for name, hints in late.items():
            for data, tries in hints.items():
                if tries < LATE_TRIES and not self._sent(name, data):
                    self._send_later(name, data)
                    self._late[name][data] = tries + 1

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
        if self._late_timer is not None:
            self._late_timer.cancel()
            self._late_timer = None
            self._late.clear()
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
