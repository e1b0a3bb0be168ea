"""Scope holds: workflows, queues and workspaces whose runs begin nothing new until they are released.

A claim takes no ticket that a hold covers, as if the scope had a limit of 0; only runs that clean up are
taken. Owners hear of the hold with their next heartbeat and stop their runs at the next step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from stepwell.domain.ids import needs_step
from stepwell.errors import InvalidInput, excerpt

HoldKind = Literal["workspace", "workflow", "queue"]
KINDS: tuple[HoldKind, ...] = ("workspace", "workflow", "queue")


class ScopeHold(NamedTuple):
    """Records that a scope was held or released, always within one workspace. `reason` is JSON."""

    kind: HoldKind
    workspace: str
    name: str = ""  # the workflow or queue; empty for a workspace
    held: bool = True
    by: str = ""
    reason: bytes = b'""'
    at: float = 0.0  # set by the store

    def covers(self, workspace: str, workflow: str, queue: str) -> bool:
        own = {"workspace": "", "workflow": workflow, "queue": queue}[self.kind]
        return self.held and workspace == self.workspace and own == self.name

    def may_cover(self, queue: str, needs: str) -> bool:
        """Return whether work of this queue and needs may be covered; needs do not always name a workflow."""
        if self.kind == "queue":
            return queue == self.name
        named = "@" in needs and not needs.startswith(needs_step("")) and "/" not in needs
        return self.kind == "workspace" or not named or needs.startswith(f"{self.name}@")


def covering(holds: Iterable[ScopeHold], workspace: str, workflow: str, queue: str) -> ScopeHold | None:
    """Return the first of these holds that covers a run."""
    return next((hold for hold in holds if hold.covers(workspace, workflow, queue)), None)


def read_reason(hold: ScopeHold) -> str:
    return msgspec.json.decode(hold.reason, type=str)


def checked_scope(kind: str, name: str) -> None:
    """Raise InvalidInput if a scope of that kind and name cannot be held."""
    if kind not in KINDS:
        raise InvalidInput(
            f"{excerpt(kind)} cannot be held", hint=f"hold one of {', '.join(KINDS)}, or a run"
        )
    if (kind == "workspace") != (not name):
        raise InvalidInput(
            f"a {kind} with name {excerpt(name)} cannot be held",
            hint="a workspace is held without a name; a workflow or queue needs one",
        )
