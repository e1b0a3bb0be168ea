"""Routes of sessions: a browser signs in with a key, renews its session and signs out.

Scripts cannot read the cookie, and only pages of this server send it. Every sign-in and renewal creates a
new session, so an attacker cannot plant one. A session ends with its key at the latest.
"""

from __future__ import annotations

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from stepwell.client.keys import NewCredential
from stepwell.domain.access import Credential
from stepwell.server import views
from stepwell.server.access import Access, principal_of
from stepwell.server.caller import caller_of
from stepwell.server.keys import me_view
from stepwell.server.refusal import Refusal
from stepwell.server.runs import RequestBody

SESSION_SECONDS = 12 * 3600


class SignInBody(RequestBody):
    key: str = Field(max_length=200, description="API key", examples=["sw_key_..."])


async def sign_in(request: Request, response: Response, body: SignInBody) -> views.MeView:
    """Exchange an API key for a session cookie, for browsers."""
    access = _access(request)
    key = await access.sign_in(request, body.key)
    session = await _begin(request, response, key)
    principal = principal_of(key, session.credential)
    request.state.principal = principal
    return me_view(principal)


async def renew_session(request: Request, response: Response) -> views.MeView:
    """Replace this browser's session with a new one. The old one no longer opens anything."""
    access, old = _access(request), _session(request)
    key = await access.credentials.key_of(old)
    session = await _begin(request, response, key)
    await _end(request, old)
    return me_view(principal_of(key, session.credential))


async def sign_out(request: Request, response: Response) -> views.SignedOut:
    """End the session of this browser."""
    access, principal = _access(request), caller_of(request).principal
    if principal.credential is not None and principal.credential.kind == "session":
        await _end(request, principal.credential)
    access.drop_cookie(request, response)
    return views.SignedOut(signed_out=True)


async def _begin(request: Request, response: Response, key: Credential) -> NewCredential:
    engine = request.app.state.engine
    session: NewCredential = await engine.keys.sign_in(key, lasting=SESSION_SECONDS)
    _access(request).set_cookie(request, response, session.text, SESSION_SECONDS)
    return session


async def _end(request: Request, session: Credential) -> None:
    await request.app.state.engine.keys.sign_out(session)
    _access(request).credentials.forget(session.id)


def _session(request: Request) -> Credential:
    credential = caller_of(request).principal.credential
    if credential is None or credential.kind != "session":
        raise Refusal(
            409, "NO_SESSION", "this request has no session to renew", hint="sign in: POST /api/v1/session"
        )
    return credential


def _access(request: Request) -> Access:
    access: Access = request.app.state.access
    return access
