"""Routes of approval links: one approval, shown to and decided by the person who has the link.

The link is a bearer token, so no address that a proxy or browser records contains it. Pages keep it after
the `#` of their address, which browsers do not send.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field
from starlette.requests import Request

from stepwell.client import RunHandle
from stepwell.client.approval_links import LASTING, opened_at
from stepwell.client.decisions import already_decided, decision_on
from stepwell.client.keys import revoke
from stepwell.domain.access import Credential
from stepwell.domain.state import OpenWait
from stepwell.server import views
from stepwell.server.access import Access, principal_of
from stepwell.server.caller import Caller, RunPath, caller_of
from stepwell.server.runs import RequestBody


class LinkBody(RequestBody):
    assignee: str = Field(max_length=200, description="who decides with it; recorded as the one who did")
    path: str = Field(default="", description="path of the wait; optional if only one is open")
    roles: list[str] = Field(default=[], max_length=50, description="roles of the assignee")
    expires: str | float = Field(default=LASTING, description="how long it is valid", examples=["7d"])


class LinkDecisionBody(RequestBody):
    answer: Any
    reason: str = Field(default="", max_length=10_000)


async def create_link(request: Request, run_id: RunPath, body: LinkBody) -> views.LinkCreated:
    """Create a link with which one person decides one open approval, without a key."""
    caller = caller_of(request)
    run = await caller.handle(run_id)
    new = await run.approval_link(
        body.assignee, path=body.path, roles=body.roles, expires=body.expires, by=caller.name
    )
    link = new.credential
    return views.LinkCreated(
        id=link.id,
        assignee=link.name,
        path=link.path,
        expires_at=views.moment(link.expires_at) or views.BEGINNING,
        secret=new.text,
        url=f"{request.scope.get('root_path', '')}/approve#{new.text}",
    )


async def get_approval(request: Request) -> views.ApprovalView:
    """Show the approval of a link: the question, its assignees, and the form of the answer."""
    link, run = await _opened(request)
    wait, row = await _wait_of(run, link), await run.info()
    return views.ApprovalView(
        run=row.id,
        workflow=row.workflow,
        path=wait.path,
        title=wait.title or wait.name,
        form=views.plain(wait.form),
        assignee=link.name,
        required=wait.required,
        approved_by=wait.approved_by,
        due_at=views.moment(wait.due_at),
        expires_at=views.moment(link.expires_at) or views.BEGINNING,
    )


async def decide_approval(request: Request, body: LinkDecisionBody) -> views.ApprovalDecided:
    """Decide the approval of a link, as its assignee. The link is then used.

    The decision comes first: a wrong answer does not use up the link, and the wait itself refuses a second
    decision.
    """
    link, run = await _opened(request)
    await _wait_of(run, link)
    await run.decide(body.answer, path=link.path, by=link.name, roles=link.roles, reason=body.reason)
    access: Access = request.app.state.access
    await revoke(request.app.state.engine, link, by=link.name)
    access.credentials.forget(link.id)
    return views.ApprovalDecided(decided=True, by=link.name)


async def _wait_of(run: RunHandle[Any], link: Credential) -> OpenWait:
    """Return the approval of a link. AlreadyDecided if that wait is closed, even if its path waits again."""
    wait = (await run.state()).waits.get(link.path)
    if wait is None or wait.what != "approval" or await opened_at(run.log(), link.path) != link.seq:
        error = already_decided("this approval is no longer open", await decision_on(run, link.path))
        error.hint = "there is nothing left to decide; the run has continued"
        raise error
    return wait


async def _opened(request: Request) -> tuple[Credential, RunHandle[Any]]:
    """Return the link of a request and its run."""
    access: Access = request.app.state.access
    link = await access.link(request)
    principal = principal_of(link, link)
    request.state.principal = principal  # for the audit list
    return link, await Caller(request.app.state.engine, principal).handle(link.run_id)
