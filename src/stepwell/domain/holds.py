"""Holds: how an operator holds and releases one run.

A held run begins nothing new. The store marks its tickets, so that no worker takes them; a worker that owns
the run stops at its next step. If nobody owns the run, the fact is written to the log at once. Otherwise it
is sent to the owner as a message, because only the owner may write there.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stepwell.domain.commit import HoldOutcome, Message
from stepwell.domain.events import Fact, Held, Released
from stepwell.domain.ids import RunId

HOLD = "hold"  # the kind of the message


class HoldRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who held or released a run, and why."""

    held: bool = True
    by: str = ""
    reason: str = ""
    at: float = 0.0  # by the store's clock; only in the ticket, a message has its own time

    @property
    def fact(self) -> Fact:
        if self.held:
            return Held(by=self.by, reason=self.reason)
        return Released(by=self.by, reason=self.reason)

    def message(self, run_id: RunId, wakes: int, encode: Callable[[bytes], bytes]) -> Message:
        """Return the message for the owner. `wakes` makes its key unique: each change counts."""
        payload = encode(msgspec.json.encode(self))
        return Message(run_id=run_id, key=f"{HOLD}/{wakes + 1}", kind=HOLD, payload=payload, by=self.by)

    def mark(self, at: float, encode: Callable[[bytes], bytes]) -> bytes | None:
        """Return what the run's tickets record from now on."""
        return encode(msgspec.json.encode(msgspec.structs.replace(self, at=at))) if self.held else None


def read_hold(payload: bytes) -> HoldRequest:
    """Read the request in a ticket or a message."""
    return msgspec.json.decode(payload, type=HoldRequest)


def hold_refusal(asked: HoldRequest, *, ending: bool, held: bool) -> HoldOutcome | None:
    """Return why a run with a ticket cannot be held or released now, or None."""
    if held == asked.held:
        return HoldOutcome.ALREADY
    if asked.held and ending:
        return HoldOutcome.ENDING
    return None
