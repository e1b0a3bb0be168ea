"""Syntax: whether the code of nodes parses. A process of the sandbox parses it and executes nothing."""

from __future__ import annotations

import subprocess
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from stepwell.sandbox.code_sandbox import (
    MEMORY_BYTES,
    CodePlace,
    Language,
    command,
    is_installed,
    place,
)
from stepwell.sandbox.pool import LENGTH

_SECONDS = 10.0  # seconds for all code of one graph, including the start of a process
_KNOWN_MAX = 1000


class SyntaxFault(NamedTuple):
    message: str  # '': it parses
    place: CodePlace = CodePlace()


class _Known:
    """The latest results, by language and code: a graph is checked several times before it runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: OrderedDict[tuple[str, str], SyntaxFault] = OrderedDict()

    def get(self, language: str, code: str) -> SyntaxFault | None:
        with self._lock:
            return self._faults.get((language, code))

    def put(self, language: str, code: str, fault: SyntaxFault) -> None:
        with self._lock:
            self._faults[language, code] = fault
            if len(self._faults) > _KNOWN_MAX:
                self._faults.popitem(last=False)


_known = _Known()


def faults_of(codes: Sequence[tuple[Language, str]]) -> list[SyntaxFault | None]:
    """Return what is wrong with each code; None if it cannot be checked here. Blocks during parsing."""
    for language in dict.fromkeys(language for language, _ in codes):
        new = {code for each, code in codes if each == language and _known.get(language, code) is None}
        if new and is_installed(language):
            _parse(language, sorted(new))
    return [_known.get(language, code) for language, code in codes]


def _parse(language: Language, codes: Iterable[str]) -> None:
    """Let one process parse them all; keep its answers until it ends or has to be ended."""
    requests = [{"parse": True, "code": code, "memory": MEMORY_BYTES} for code in codes]
    process = subprocess.Popen(
        command(language),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    sent = b"".join(LENGTH.pack(len(data)) + data for data in map(msgspec.json.encode, requests))
    try:
        received, _ = process.communicate(sent, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        received, _ = process.communicate()
    for request in requests:
        answer, received = _first(received)
        if answer is None:
            return
        code, where = str(request["code"]), place(answer)
        lines = code.count("\n") + 1
        message = str(answer.get("message", ""))[:300]
        if where.line > lines:  # the parser also saw the code around it
            where = CodePlace(lines, len(code.rsplit("\n", 1)[-1]) + 1)
            message = "the code ends too early"
        _known.put(language, code, SyntaxFault(message, where))


def _first(received: bytes) -> tuple[dict[str, Any] | None, bytes]:
    if len(received) < LENGTH.size:
        return None, b""
    end = LENGTH.size + LENGTH.unpack_from(received)[0]
    if len(received) < end:
        return None, b""
    answer: dict[str, Any] = msgspec.json.decode(received[LENGTH.size : end])
    return answer, received[end:]
