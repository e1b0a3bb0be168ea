"""LoopWatch: tells when code holds the worker's loop, and whose it is.

Workflow code and async steps share one loop with the worker. While one of them computes for long, or
calls something that blocks, nothing else moves here, not even the heartbeat; the log of the process must
say who did it. A thread looks now and then whether the loop still beats; the steps themselves pay nothing.
Code that also keeps the interpreter's lock, as a long regular expression does, is told of when it lets go.
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


class Held(NamedTuple):
    """Who held the loop, where, and for how long at least; `path` is '' for workflow code."""

    run_id: str
    path: str
    seconds: float


class LoopMonitor:
    """Made on the loop's own thread; `beat` is to be called there, much more often than it looks."""

    def __init__(self, look_seconds: float | None = None) -> None:
        self._look_seconds = look_seconds or _LOOK_SECONDS
        self._loop_thread = threading.get_ident()
        self._beats = 0
        self._over = threading.Event()
        self._held: Held | None = None

    def beat(self) -> None:
        self._beats += 1

    def take_held(self) -> Held | None:
        """Who held the loop last, told once."""
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
            # At 2, 4, 8 ...: a process that was stopped goes on with all of its threads late.
            if missed > 1 and missed & (missed - 1) == 0:
                frame = sys._current_frames().get(self._loop_thread)
                if frame is not None and not waits(frame):
                    self._held = _holder(frame, missed * self._look_seconds)
                    _log.warning("%s", held_by(frame, missed * self._look_seconds))


async def report_held(store: Inbox, held: Held) -> None:
    """Leave word for who takes the run over: they cannot see why its owner was silent."""
    try:
        await store.deliver([loop_held(RunId(held.run_id), held.path, held.seconds)])
    except StoreError as error:
        _log.warning("could not say why run %s was lost: %s", held.run_id, error.message)


def waits(frame: FrameType) -> bool:
    """The loop itself waits, so nobody holds it: whoever should beat is on its way out."""
    return frame.f_back is not None and frame.f_back.f_code is _RUN_ONCE


def held_by(frame: FrameType, seconds: float) -> str:
    """Whose code is in this frame, where it is, and what to do about it."""
    stack = traceback.extract_stack(frame)
    ours = [number for number, line in enumerate(stack, 1) if line.filename.startswith(_OURS)]
    inside = stack[ours[-1] :] if ours else []  # what the engine called
    shown = (inside or stack)[-_FRAMES:]
    at = [line for line in shown if "/lib/python" not in line.filename] or shown
    return (
        f"{_whose(frame)} has held the worker's loop for {seconds:g} s, "
        f"at {PurePath(at[-1].filename).name}:{at[-1].lineno} in {at[-1].name}: nothing else moves in this "
        "process, and when its lease has run out its runs go on elsewhere. Put what computes or blocks for "
        "long into a step that is a plain def: it runs in a thread.\n" + "".join(traceback.format_list(shown))
    )


def _whose(frame: FrameType) -> str:
    work = _work(frame)
    if work is None:
        return "code that belongs to no run"
    if not isinstance(work, Activation):
        return work.label
    definition = work.program.definition
    return f"run {work.run_id} ({definition.name} version {definition.version})"


def _holder(frame: FrameType, seconds: float) -> Held | None:
    work = _work(frame)
    if work is None:
        return None
    run_id, path = (work.run_id, "") if isinstance(work, Activation) else work.place
    return Held(run_id, path, seconds)


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
