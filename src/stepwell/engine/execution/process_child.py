"""Process child: the program of a step's process. It reads requests, runs steps and replies.

Run with -m and the worker's pid. `ProcessPool` is the other side.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import importlib
import importlib.util
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec
from msgspec import Raw

from stepwell.domain.events import NULL, DocumentSaved, Problem
from stepwell.domain.problems import problem_of
from stepwell.domain.program import StepContext
from stepwell.domain.retry import kinds_of
from stepwell.domain.step_log import Capture, LogLine
from stepwell.domain.steps import StepSpec, decode_arguments, describe, spec_of
from stepwell.engine.execution.exit_guard import sys_exit_as_error
from stepwell.engine.execution.step_log import StepLog, log_into, observed_output
from stepwell.errors import Permanent, RetryAfter
from stepwell.secrets.redactor import Redactor

_PR_SET_PDEATHSIG = 1
_LOOK_SECONDS = 0.1  # how often to check the parent if the kernel does not end us
ORPHANED = 75  # exit code; nobody is left to read it


class ParentWatch:
    """Ends this process when its worker is gone.

    The lease is lost with the worker, and the next owner runs the step again: a process that kept working
    would do so at the same time. Linux kills such a process on request. That comes too late if the worker
    died before the request, and other systems do not offer it; but a process whose parent died always gets
    another parent.
    """

    def __init__(self, worker: int) -> None:
        self._worker = worker  # the process that started this one

    def begin(self) -> None:
        """From now on, end when the worker ends, even if that has already happened."""
        if not kernel_ends_orphans():
            threading.Thread(target=self._watch, name="stepwell-parent-watch", daemon=True).start()
        self.check()

    def check(self) -> None:
        """End at once if the worker is gone, without running user code."""
        if os.getppid() != self._worker:
            os._exit(ORPHANED)

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            self.check()


def kernel_ends_orphans() -> bool:
    """Ask the kernel to kill this process when its parent dies; False if it cannot."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) == 0)


class StepRequest(msgspec.Struct, frozen=True):
    path: list[str]
    module: str
    name: str
    arguments: Raw
    run_id: str
    step_path: str
    attempt: int
    lease: str
    log_bytes_max: int = 0  # 0: the step's output is not kept
    capture: Capture = "off"
    secrets: dict[str, str] = {}


class StepReply(msgspec.Struct, frozen=True, omit_defaults=True):
    result: Raw = NULL
    error: Problem | None = None
    permanent: bool = False
    retry_after: float | None = None
    documents: list[DocumentSaved] = []
    kinds: list[str] = []  # the error's classes, for the retry policy
    line: LogLine | None = None  # the step logged this, and continues


def main(worker: int) -> None:
    parent = ParentWatch(worker)
    parent.begin()
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of the step must not get between the replies
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # nor may it, or a program that it calls, read the requests
    os.close(nothing)
    redactor = Redactor()
    while True:
        head = requests.read(8)
        if len(head) < 8:
            return
        request = msgspec.json.decode(requests.read(int.from_bytes(head, "big")), type=StepRequest)
        for name, value in request.secrets.items():
            redactor.learn(name, value)
        lines = SentLines(replies, request.log_bytes_max)
        if request.log_bytes_max:
            variables = contextvars.copy_context()
            log = StepLog(lines, request.run_id, request.step_path, request.attempt)
            variables.run(log_into, log)
            with observed_output(request.capture):
                reply = variables.run(_answer, request, parent)
            log.end(lambda: None)
        else:
            reply = _answer(request, parent)
        lines.close()
        _send(replies, reply)


class SentLines:
    """Sends the lines of a step to its worker as they come, from any thread of this process."""

    def __init__(self, replies: BinaryIO, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._replies = replies
        self._lock = threading.Lock()
        self._closed = False

    def add(self, run_id: str, path: str, attempt: int, payload: bytes) -> int:
        with self._lock:
            if not self._closed:
                _send(self._replies, StepReply(line=msgspec.json.decode(payload, type=LogLine)))
        return 1

    def when_written(self, count: int, then: Callable[[], None]) -> None:
        then()

    def close(self) -> None:
        """End the lines of a step, so that lines of its threads cannot get between later replies."""
        with self._lock:
            self._closed = True


def _send(replies: BinaryIO, reply: StepReply) -> None:
    data = msgspec.json.encode(reply)
    replies.write(len(data).to_bytes(8, "big") + data)
    replies.flush()


def _answer(request: StepRequest, parent: ParentWatch) -> StepReply:
    context: StepContext | None = None
    try:
        parent.check()  # the request may have waited in the pipe for longer than its worker lived
        spec = _load(request)
        args, kwargs = decode_arguments(spec, request.arguments)
        if spec.wants_context:
            context = StepContext(
                run_id=request.run_id,
                path=request.step_path,
                attempt=request.attempt,
                lease=request.lease,
                secrets=request.secrets,
            )
            args.insert(0, context)
        parent.check()
        result = spec.function(*args, **kwargs)
        if inspect.isawaitable(result):
            result = asyncio.run(_await(result))
        saved = context.saved if context is not None else []
        return StepReply(result=Raw(spec.returns.encode(result)), documents=saved)
    except (Exception, SystemExit) as raised:
        error = sys_exit_as_error(raised)
        return StepReply(
            error=problem_of(error),
            permanent=isinstance(error, Permanent),
            retry_after=error.seconds if isinstance(error, RetryAfter) else None,
            kinds=kinds_of(error),
            documents=context.saved if context is not None else [],
        )


async def _await(awaitable: Any) -> Any:
    return await awaitable


def _load(request: StepRequest) -> StepSpec:
    for entry in request.path:
        if entry not in sys.path:
            sys.path.append(entry)
    module = _module(request.module)
    target: Any = module
    for part in request.name.split("."):
        target = getattr(target, part)
    spec = spec_of(target)
    return spec if not hasattr(target, "spec") else describe(target.spec.function)


def _module(name: str) -> Any:
    if not name.startswith("file:"):
        return importlib.import_module(name)
    known = sys.modules.get("__stepwell_main__")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location("__stepwell_main__", name.removeprefix("file:"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["__stepwell_main__"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(int(sys.argv[1]))
