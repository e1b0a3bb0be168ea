"""StepLog: what the code of one attempt logs and prints.

A context variable names the log of the code that runs. Records of `logging` are seen by the record factory,
so handlers, levels and `basicConfig` work as they did; what is printed is seen by a stream in front of
sys.stdout and sys.stderr that passes everything on. Code outside a step is not affected.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, Protocol, TextIO

import msgspec

from stepwell.domain.step_log import Capture, Stream, line_of
from stepwell.secrets.redactor import without_secrets

_current: ContextVar[StepLog | None] = ContextVar("stepwell_step_log", default=None)
_PARTIAL_MAX = 16_000  # characters printed without a line end before they become a line
_FRAMES_MAX = 30  # between a handler of `logging` and the stream that it prints to


class LineSink(Protocol):
    """Where the lines of a worker's steps go."""

    bytes_max: int  # of one attempt

    def add(self, run_id: str, path: str, attempt: int, payload: bytes) -> int:
        """Queue a line, from any thread; returns how many were queued so far."""
        ...

    def when_written(self, count: int, then: Callable[[], None]) -> None:
        """Call `then` once that many lines are written; at once if they are."""
        ...


log_into = _current.set  # run it in a context: its code logs into that log from then on


class StepLog(msgspec.Struct, eq=False):
    """The log of one attempt. Costs one small object, and no call, if nothing is logged."""

    sink: Any  # a LineSink
    run_id: str
    path: str
    attempt: int
    used: bool = False  # something was logged or printed
    closed: bool = False  # the attempt is over
    _bytes: int = 0
    _last: int = 0  # how many lines were queued in all when its last one was
    _partial: dict[Stream, str] | None = None  # printed without a line end so far

    @property
    def place(self) -> tuple[str, str, int]:
        """Its run, the path of the step in it, and the attempt."""
        return self.run_id, self.path, self.attempt

    @property
    def bytes_max(self) -> int:
        return int(self.sink.bytes_max)

    def take_record(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except Exception:
            text = str(record.msg)
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        self.add(line_of(text, "log", level=record.levelname.lower(), logger=record.name))

    def take_printed(self, text: str, stream: Stream) -> None:
        with _lock:
            self.used = True
            partial = self._partial if self._partial is not None else {}
            self._partial = partial
            *lines, rest = (partial.get(stream, "") + text).split("\n")
            if len(rest) > _PARTIAL_MAX:
                lines, rest = [*lines, rest], ""
            partial[stream] = rest
        for line in lines:
            self.add(line_of(line.rstrip("\r"), stream))

    def add(self, payload: bytes) -> None:
        with _lock:
            if self.closed:
                return  # it timed out, or was withdrawn, and its code goes on
            self.used = True
            self._bytes += len(payload)
            if self._bytes > self.bytes_max:
                self.closed = True
                text = f"the log of this attempt is cut off here, at {self.bytes_max:,} bytes"
                payload = line_of(text, "log", level="warning")
            self._last = self.sink.add(self.run_id, self.path, self.attempt, payload)

    def end(self, then: Callable[[], None]) -> None:
        """The attempt is over; `then` is called when its lines are written, at once if there are none."""
        if self._partial is not None:
            for stream, rest in self._partial.items():
                if rest:
                    self.add(line_of(rest, stream))
        self.closed = True
        if self._last:
            self.sink.when_written(self._last, then)
        else:
            then()


class _ObservedStream(io.TextIOBase):
    """In front of a text stream: passes everything on, and shows what steps print to their logs.

    What a step prints is passed on without the values of secrets: the output of a process is often kept.
    """

    def __init__(self, stream: TextIO, name: Stream) -> None:
        self._stream = stream
        self._name: Stream = name

    def write(self, text: str, /) -> int:
        log = _current.get()
        if log is None:
            return self._stream.write(text)
        self._stream.write(without_secrets(text))
        if not _in_logging():
            log.take_printed(text, self._name)
        return len(text)

    def writelines(self, lines: Any, /) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()

    def __del__(self) -> None:
        """Not as files do: the stream behind it is not ours to close."""

    @property
    def closed(self) -> bool:
        return self._stream.closed

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._stream.errors

    @property
    def newlines(self) -> Any:  # type: ignore[override]
        return self._stream.newlines

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def readable(self) -> bool:
        return self._stream.readable()

    def writable(self) -> bool:
        return self._stream.writable()

    def seekable(self) -> bool:
        return self._stream.seekable()

    def detach(self) -> Any:
        return self._stream.detach()  # type: ignore[attr-defined]  # a TextIOWrapper has it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_lock = threading.RLock()  # a signal handler may print while its thread adds a line
_users = {"streams": 0}  # blocks that observe sys.stdout and sys.stderr


@contextmanager
def observed_output(capture: Capture) -> Iterator[None]:
    """Inside the block, records and printed text of steps go to their logs as well. Blocks may overlap."""
    if capture == "off":
        yield
        return
    with _lock:
        _observe_records()
        if capture == "all":
            _users["streams"] += 1
            _observe_streams()
    try:
        yield
    finally:
        with _lock:
            _users["streams"] -= capture == "all"
            if not _users["streams"]:
                _leave_streams()


def observed() -> Capture:
    """What is observed in this process now."""
    return "all" if _users["streams"] else "logging"


def _observe_streams() -> None:
    if not isinstance(sys.stdout, _ObservedStream | None):
        sys.stdout = _ObservedStream(sys.stdout, "stdout")
    if not isinstance(sys.stderr, _ObservedStream | None):
        sys.stderr = _ObservedStream(sys.stderr, "stderr")


def _leave_streams() -> None:
    """A stream that somebody put in front of ours stays: ours passes everything on."""
    if isinstance(sys.stdout, _ObservedStream):
        sys.stdout = sys.stdout._stream
    if isinstance(sys.stderr, _ObservedStream):
        sys.stderr = sys.stderr._stream


def _in_logging() -> bool:
    """Whether a handler of `logging` prints: its record was taken already."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES_MAX):
        if frame is None:
            break
        if frame.f_globals.get("__name__") == "logging":
            return True
        frame = frame.f_back
    return False


def _observe_records() -> None:
    """Once for this process: it costs a look at a context variable for each record."""
    make = logging.getLogRecordFactory()
    if getattr(make, "observes_steps", False):
        return

    def observed(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        log = _current.get()
        if log is not None and record.msg != "":  # makeLogRecord fills it in later
            log.take_record(record)
        return record

    observed.observes_steps = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(observed)


def current_place() -> tuple[str, str, int] | None:
    """Return the run, path and attempt whose code calls this; None outside of steps."""
    log = _current.get()
    return None if log is None else log.place
