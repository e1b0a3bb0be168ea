"""Streams: how many are open, and whether the server is about to stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stepwell.server.refusal import Refusal

STREAMS_MAX = 1000


class Streams:
    def __init__(self, most: int = STREAMS_MAX) -> None:
        self._most = most
        self.open = 0
        self.draining = False

    def check_room(self) -> None:
        if self.open >= self._most:
            raise Refusal(
                429,
                "STREAM_LIMIT",
                f"{self._most} streams are open",
                hint="follow several runs with one stream: /api/v1/stream?topics=run:ID,run:ID",
                headers={"Retry-After": "5"},
            )

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def drain(self) -> None:
        """End all streams with a hint where to resume."""
        self.draining = True
