"""Messages between runs: what their payloads hold and which keys make them unique."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from stepwell.domain.commit import Message
from stepwell.domain.events import NULL, DocumentSaved, Problem
from stepwell.domain.ids import RunId
from stepwell.domain.retry import RemoteError, is_permanent, kinds_of
from stepwell.errors import Permanent, RetryAfter

CANCEL_KEY = "cancel"


class EndNotice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a child run or a remote step ended."""

    status: str  # of a run, or completed | failed of a step
    result: Raw = NULL
    error: Problem | None = None
    attempt: int = 0
    run: str = ""  # the child's
    worker: str = ""  # that did the step
    documents: list[DocumentSaved] = []  # that a remote step saved
    # What the caller's retry policy must know of a failed step
    kinds: list[str] = []  # the error's classes
    permanent: bool = False
    retry_after: float | None = None

    @property
    def failure(self) -> BaseException:
        """The error as a retry policy sees it."""
        message = self.error.message if self.error is not None else ""
        if self.permanent:
            return Permanent(message)
        if self.retry_after is not None:
            return RetryAfter(self.retry_after, message)
        if self.error is None:
            return RemoteError("", message, self.kinds)
        return RemoteError(self.error.type, message, self.kinds, self.error.code)


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An answer to one open wait; the token tells a repeat by the same caller from a second answer."""

    token: str
    answer: Raw = NULL
    by: str = ""
    choice: str = ""  # of several ways on: the one that was chosen


HELD = "held"


def loop_held(run_id: RunId, path: str, seconds: float) -> Message:
    """From an owner that was taken for dead: the code at that path held its loop for so long.

    It stays in the inbox: it is of use only if the run loses its owner again and again.
    """
    return Message(
        run_id=run_id, key=f"held/{path}", kind=HELD, name=path, payload=msgspec.json.encode(seconds)
    )


PAYLOADS: dict[str, type] = {
    "cancel": str,
    "decide": Decision,
    "child": EndNotice,
    "step": EndNotice,
    HELD: float,
}


def step_failed(error: BaseException, problem: Problem, attempt: int, *, final: bool = False) -> EndNotice:
    """An attempt that failed with this error; `final`: another would fail in the same way."""
    return EndNotice(
        status="failed",
        error=problem,
        attempt=attempt,
        kinds=kinds_of(error),
        permanent=final or is_permanent(error),
        retry_after=error.seconds if isinstance(error, RetryAfter) else None,
    )


def child_ended(parent: RunId, path: str, ending_seq: int, ending: EndNotice) -> Message:
    """To the parent. A child that is retried ends again, so the key counts its endings by their seq;
    a parent that is retried has another child at the same path, so the key names the child."""
    return Message(
        run_id=parent,
        key=f"child/{ending.run or path}/{ending_seq}",
        kind="child",
        name=path,
        payload=msgspec.json.encode(ending),
    )


def step_ended(run_id: RunId, path: str, attempt: int, ending: EndNotice) -> Message:
    return Message(
        run_id=run_id,
        key=f"step/{path}/{attempt}",
        kind="step",
        name=path,
        payload=msgspec.json.encode(ending),
    )


def cancel_request(run_id: RunId, reason: str, encode: Callable[[bytes], bytes] = bytes) -> Message:
    payload = encode(msgspec.json.encode(reason))
    return Message(run_id=run_id, key=CANCEL_KEY, kind="cancel", payload=payload)


def event_key(event_id: str) -> str:
    return f"evt/{event_id}"


def decide_key(path: str) -> str:
    return f"decide/{path}"
