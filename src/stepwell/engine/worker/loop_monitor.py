"""LoopMonitor: reports when code blocks the worker's loop, and whose code it is.

Workflow code and async steps share one loop with the worker. While one of them computes for long, or calls
something that blocks, nothing else moves here, not even the heartbeat; the process' log must say which code
it was. A thread checks periodically whether the loop still beats; the steps themselves pay nothing. Code that
also holds the interpreter's lock, such as a long regular expression, is reported once it releases it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import PurePath
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from stepwell.domain.ids import RunId
from stepwell.domain.messages import loop_held
from stepwell.engine.execution.attempt import StepAttempt
from stepwell.engine.machine.attempt import TransitionAttempt
from stepwell.engine.run.activation import Activation
from stepwell.errors import StoreError
from stepwell.store.base import Inbox

_log = logging.getLogger("stepwell.engine")

_LOOK_SECONDS = 2.5
_OURS = __file__.rpartition("engine")[0]
_FRAMES = 8
_RUN_ONCE: Any = vars(asyncio.BaseEventLoop)["_run_once"].__code__


class HeldLoop(NamedTuple):
    """Which run blocked the loop, where, and at least for how long; `path` is '' for workflow code."""

    run_id: str
    path: str
    seconds: float


class LoopMonitor:
    """Create it on the loop's thread, and call `beat` there much more often than it checks."""

    def __init__(self, look_seconds: float | None = None) -> None:
        self._look_seconds = look_seconds or _LOOK_SECONDS
        self._loop_thread = threading.get_ident()
        self._beats = 0
        self._over = threading.Event()
        self._held: HeldLoop | None = None

    def beat(self) -> None:
        self._beats += 1

    def take_held(self) -> HeldLoop | None:
        """Return the code that blocked the loop last, once."""
        held, self._held = self._held, None
        return held

    def __enter__(self) -> LoopMonitor:
        threading.Thread(target=self._watch, name="stepwell-loop-watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _watch(self) -> None:
        seen, missed = -1, 0
        while not self._over.wait(self._look_seconds):
            if self._beats != seen:
                seen, missed = self._beats, 0
                continue
            missed += 1
            # At 2, 4, 8 ... misses: when a stopped process resumes, all of its threads are late.
            if missed > 1 and missed & (missed - 1) == 0:
                frame = sys._current_frames().get(self._loop_thread)
                if frame is not None and not waits(frame):
                    self._held = _holder(frame, missed * self._look_seconds)
                    _log.warning("%s", held_by(frame, missed * self._look_seconds))


async def report_held(store: Inbox, held: HeldLoop) -> None:
    """Leave a message for the next owner, which cannot see why the previous one was silent."""
    try:
        await store.deliver([loop_held(RunId(held.run_id), held.path, held.seconds)])
    except StoreError as error:
        _log.warning("could not report why run %s was lost: %s", held.run_id, error.message)


def waits(frame: FrameType) -> bool:
    """Whether the loop itself waits, so that nothing blocks it: the task that beats is about to end."""
    return frame.f_back is not None and frame.f_back.f_code is _RUN_ONCE


def held_by(frame: FrameType, seconds: float) -> str:
    """The report: whose code is in this frame, where it is, and what to do about it."""
    stack = traceback.extract_stack(frame)
    ours = [number for number, line in enumerate(stack, 1) if line.filename.startswith(_OURS)]
    inside = stack[ours[-1] :] if ours else []  # the code that the engine called
    lines = (inside or stack)[-_FRAMES:]
    at = [line for line in lines if "/lib/python" not in line.filename] or lines
    return (
        f"{_whose(frame)} has blocked the worker's loop for {seconds:g} s, "
        f"at {PurePath(at[-1].filename).name}:{at[-1].lineno} in {at[-1].name}: nothing else moves in this "
        "process, and once its lease has run out its runs continue elsewhere. Put code that computes or "
        "blocks for long into a step that is a plain def: it runs in a thread.\n"
        + "".join(traceback.format_list(lines))
    )


def _whose(frame: FrameType) -> str:
    work = _work(frame)
    if work is None:
        return "code outside any run"
    if not isinstance(work, Activation):
        return work.label
    definition = work.program.definition
    return f"run {work.run_id} ({definition.name} version {definition.version})"


def _holder(frame: FrameType, seconds: float) -> HeldLoop | None:
    work = _work(frame)
    if work is None:
        return None
    run_id, path = (work.run_id, "") if isinstance(work, Activation) else work.place
    return HeldLoop(run_id, path, seconds)


def _work(frame: FrameType) -> StepAttempt | TransitionAttempt | Activation | None:
    for values in _locals(frame):
        for value in (values.get("job"), values.get("self")):
            work = getattr(value, "job", value)
            if isinstance(work, StepAttempt | TransitionAttempt | Activation):
                return work
    return None


def _locals(frame: FrameType | None) -> Iterator[dict[str, object]]:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_OURS):
            yield frame.f_locals
        frame = frame.f_back
