"""Messages between runs: their payloads, and the keys that make them unique."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain.commit import DEFAULT_WORKSPACE, Message
from stepwell.domain.events import NULL, DocumentSaved, Problem
from stepwell.domain.ids import RunId
from stepwell.domain.retry import RemoteError, is_permanent, kinds_of
from stepwell.errors import Permanent, RetryAfter

CANCEL_KEY = "cancel"


class EndNotice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Says how a child run or a remote step ended."""

    status: str  # a run's status; for a step, completed or failed
    result: Raw = NULL
    error: Problem | None = None
    attempt: int = 0
    run: str = ""  # the child's
    worker: str = ""  # the one that ran the step
    since: float = 0.0  # when that worker took it, by the store's clock
    documents: list[DocumentSaved] = []  # saved by a remote step
    # What the caller's retry policy needs to know about a failed step
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
    """An answer to one open wait; the token separates a repeat by the same caller from a second answer."""

    token: str
    answer: Raw = NULL
    by: str = ""
    choice: str = ""  # if there are several choices: the chosen one
    reason: str = ""
    id: str = ""  # chosen by the caller; a repeat counts once


class ApprovalChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New assignees for an open approval, or a reminder of it."""

    assignees: list[str] = []  # who decides from now on; not for a reminder
    by: str = ""
    reason: str = ""


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asked a run to end, and why. A request by nobody is stored as the reason alone."""

    reason: str = ""
    by: str = ""


DELAY = "delay"


class DelayRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who changed a timer, and why. It fires this many seconds after the message was delivered."""

    seconds: float
    by: str = ""
    reason: str = ""


VARIABLE = "variable"


class VariableRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who sets which variable of a graph run to which value, and why."""

    name: str
    value: Raw = NULL
    by: str = ""
    reason: str = ""


HELD = "held"


def loop_held(run_id: RunId, path: str, seconds: float) -> Message:
    """From an owner that was presumed dead: the code at that path blocked its loop for that long.

    The message stays in the inbox: it matters only if the run keeps losing its owners.
    """
    return Message(
        run_id=run_id, key=f"held/{path}", kind=HELD, name=path, payload=msgspec.json.encode(seconds)
    )


PAYLOADS: dict[str, Any] = {
    "cancel": str | CancelRequest,
    "decide": Decision,
    "reassign": ApprovalChange,
    "remind": ApprovalChange,
    "child": EndNotice,
    "step": EndNotice,
    DELAY: DelayRequest,
    VARIABLE: VariableRequest,
    HELD: float,
}


def step_failed(
    error: BaseException,
    problem: Problem,
    attempt: int,
    *,
    final: bool = False,
    documents: Sequence[DocumentSaved] = (),
) -> EndNotice:
    """Return the message that an attempt failed; `final` if another attempt would fail the same way."""
    return EndNotice(
        documents=list(documents),
        status="failed",
        error=problem,
        attempt=attempt,
        kinds=kinds_of(error),
        permanent=final or is_permanent(error),
        retry_after=error.seconds if isinstance(error, RetryAfter) else None,
    )


def child_ended(parent: RunId, path: str, end_seq: int, notice: EndNotice) -> Message:
    """For the parent. A child that is retried ends again, so the key contains the seq of its end;
    a parent that is retried has another child at the same path, so the key names the child."""
    return Message(
        run_id=parent,
        key=f"child/{notice.run or path}/{end_seq}",
        kind="child",
        name=path,
        payload=msgspec.json.encode(notice),
    )


def step_ended(run_id: RunId, path: str, attempt: int, notice: EndNotice) -> Message:
    return Message(
        run_id=run_id,
        key=f"step/{path}/{attempt}",
        kind="step",
        name=path,
        payload=msgspec.json.encode(notice),
    )


def cancel_request(
    run_id: RunId, reason: str, encode: Callable[[bytes], bytes] = bytes, *, by: str = ""
) -> Message:
    asked = CancelRequest(reason=reason, by=by) if by else reason
    payload = encode(msgspec.json.encode(asked))
    return Message(run_id=run_id, key=CANCEL_KEY, kind="cancel", payload=payload, by=by)


def forced_end(parent: RunId) -> str:
    """Return the reason that the children of a run ended by force are given."""
    return f"parent run {parent} was ended by force"


def read_cancel(payload: bytes) -> CancelRequest:
    """The request of a `cancel` message, as this version or an older one wrote it."""
    asked: str | CancelRequest = msgspec.json.decode(payload, type=PAYLOADS["cancel"])
    return CancelRequest(reason=asked) if isinstance(asked, str) else asked


def event_id(workspace: str, id: str) -> str:
    """The id of a broadcast event: it cannot be the id of a run, nor of an event of another workspace."""
    return f"event/{id}" if workspace == DEFAULT_WORKSPACE else f"event@{workspace}/{id}"


def event_key(event_id: str) -> str:
    return f"evt/{event_id}"


def decide_key(path: str, by: str = "") -> str:
    """Return the key of a decision: one for each wait; if several must approve, one for each person."""
    return f"decide/{path}?by={by}" if by else f"decide/{path}"


def decides(key: str, path: str) -> bool:
    """Return whether this is the key of a decision on that wait."""
    return key == decide_key(path) or key.startswith(f"decide/{path}?by=")
