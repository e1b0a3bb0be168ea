"""Approvals: who may decide one, which answers deny, and how many people must approve."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from stepwell.domain import events as ev
from stepwell.domain.commit import DecidedApproval
from stepwell.domain.state import OpenWait
from stepwell.errors import AlreadyDecided, InvalidInput, NotAssigned, StarterBarred

RESPONSES = ("approved", "denied")
REQUIRED_MAX = 100


def denies(answer: bytes | msgspec.Raw) -> bool:
    """Return whether this answer (JSON) denies. Every other answer approves.

    These deny: "denied", false, and an object whose `response` is "denied" or whose `approved` is false.
    """
    value: Any = msgspec.json.decode(answer)
    if isinstance(value, dict):
        return value.get("response") == "denied" or value.get("approved") is False
    return value == "denied" or value is False


def check_decider(wait: OpenWait, by: str, roles: Collection[str], starter: str) -> None:
    """Refuse a caller who may not decide. Without assignees, anybody may."""
    names = {by, *(f"role:{role}" for role in roles)}
    question = wait.title or wait.path
    if wait.assignees and not names.intersection(wait.assignees):
        raise NotAssigned(
            f"{by or 'an anonymous caller'} may not decide {wait.path}",
            hint="it is assigned to "
            + ", ".join(wait.assignees)
            + "; decide as one of them, or with their role",
            question=question,
        )
    if (wait.bar_starter or wait.required > 1) and not by:
        raise InvalidInput(
            f"an anonymous caller may not decide {wait.path}",
            hint="pass by=: it matters who decides this approval",
            field="by",
            question=question,
        )
    if wait.bar_starter and by == starter:
        raise StarterBarred(f"{by} started the run and may not decide {wait.path}", question=question)
    if by in wait.approved_by:
        raise AlreadyDecided(
            f"{by} has already approved {wait.path}",
            hint=f"{wait.required - len(wait.approved_by)} more must approve",
            question=question,
        )


def decided_in(log: Iterable[ev.Event]) -> list[DecidedApproval]:
    """Return the approvals in this log that were decided or timed out."""
    opened: dict[str, tuple[int, str]] = {}
    received: dict[str, int] = {}
    decided: list[DecidedApproval] = []
    for event in log:
        fact = event.fact
        if isinstance(fact, ev.WaitOpened) and fact.what == "approval":
            opened[event.path] = (event.seq, fact.name)
        elif isinstance(fact, ev.Received) and not fact.rejected:
            received[fact.key] = event.seq
        elif isinstance(fact, ev.WaitEnded) and event.path in opened:
            seq, name = opened.pop(event.path)
            if fact.outcome == "withdrawn":
                continue
            decided.append(
                DecidedApproval(
                    path=event.path,
                    name=name,
                    opened=seq,
                    received=received.get(fact.received, 0),
                    ended=event.seq,
                    at=event.at,
                )
            )
    return decided
