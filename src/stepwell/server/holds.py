"""Routes of holds: workflows, queues and the workspace that operators have stopped."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.domain.scope_holds import HoldKind
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.runs import WhoBody


class HoldBody(WhoBody):
    kind: HoldKind
    name: str = Field(
        default="", max_length=500, description="name of the workflow or queue; empty for a workspace"
    )


class HoldView(BaseModel):
    """A workflow, queue or workspace whose runs begin nothing new."""

    kind: str = Field(examples=["workflow"])
    name: str
    by: str
    reason: str
    at: datetime | None


class HoldList(BaseModel):
    holds: list[HoldView]


class HoldChanged(BaseModel):
    changed: bool = Field(description="false: nothing changed")


async def list_holds(request: Request) -> HoldList:
    """List what is held: workflows, queues and the workspace, but not single runs."""
    holds = await caller_of(request).engine.holds()
    return HoldList(
        holds=[
            HoldView(kind=hold.kind, name=hold.name, by=hold.by, reason=hold.reason, at=views.moment(hold.at))
            for hold in holds
        ]
    )


async def hold_scope(request: Request, body: HoldBody) -> HoldChanged:
    """Hold a workflow, a queue or the workspace: its runs begin nothing new."""
    caller = caller_of(request)
    changed = await caller.engine.hold(body.kind, body.name, by=caller.who(body.by), reason=body.reason)
    return HoldChanged(changed=changed)


async def release_scope(request: Request, body: HoldBody) -> HoldChanged:
    """Let a held workflow, queue or workspace continue."""
    caller = caller_of(request)
    changed = await caller.engine.release(body.kind, body.name, by=caller.who(body.by), reason=body.reason)
    return HoldChanged(changed=changed)
