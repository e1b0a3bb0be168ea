"""Holds: what operators have stopped, and how one run is held and released.

A held run begins nothing new. The store marks its tickets, so that nobody takes them; an owner that has the
run stops at its next step. The fact goes into the log at once if nobody owns the run, otherwise as a message
to the owner, for only the owner may write there.
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
        """For the owner. `wakes` makes the key unique: each change counts."""
        payload = encode(msgspec.json.encode(self))
        return Message(run_id=run_id, key=f"{HOLD}/{wakes + 1}", kind=HOLD, payload=payload, by=self.by)

    def mark(self, at: float, encode: Callable[[bytes], bytes]) -> bytes | None:
        """What the run's tickets say from now on."""
        return encode(msgspec.json.encode(msgspec.structs.replace(self, at=at))) if self.held else None


def read_hold(payload: bytes) -> HoldRequest:
    """The request in a ticket or a message."""
    return msgspec.json.decode(payload, type=HoldRequest)


def hold_refusal(asked: HoldRequest, *, ending: bool, held: bool) -> HoldOutcome | None:
    """Why a run with a ticket is not held or released now; None: it is."""
    if held == asked.held:
        return HoldOutcome.ALREADY
    if asked.held and ending:
        return HoldOutcome.ENDING
    return None
