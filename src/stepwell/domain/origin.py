"""Origin: where a run comes from that was made of another."""

from __future__ import annotations

from typing import Literal

import msgspec


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which run this one was made from, and what of it was copied."""

    how: Literal["rerun", "rerun_from", "fork"]
    run: str
    seq: int = 0  # of that run's log: the last one that counts here
    copied: int = 1  # the first so many events of this log are copies
    edited: list[str] = []  # paths of edited results, "input", "state"
    salt: str = ""  # ctx.random() and ctx.uuid() differ from that run's, once the copies are replayed
