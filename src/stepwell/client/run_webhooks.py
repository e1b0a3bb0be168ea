"""RunWebhooks: deliveries to the addresses that runs gave away. Each address takes one delivery."""

from __future__ import annotations

from typing import Any, Protocol

from stepwell.client.store_access import StoreAccess
from stepwell.domain.commit import LogRow, PublishedEvent
from stepwell.domain.events import KIND, Accepted, WaitOpened, read
from stepwell.domain.ids import RunId
from stepwell.domain.state import RunState, apply
from stepwell.domain.triggers.run_webhook import DELIVERY, read_token
from stepwell.domain.triggers.webhook import OpenSecret, WebhookAnswer, WebhookRequest, verified
from stepwell.errors import TriggerNotFound

_PAGE = 1000


class AddressUsed(TriggerNotFound):
    """The address was for one delivery, which has arrived, or its run no longer waits."""

    hint = "ask the run for a new address: each one takes a single delivery"


class Emits(Protocol):
    async def emit(
        self, name: str, payload: Any = None, *, key: str = "", id: str = "", by: str = ""
    ) -> bool: ...


class RunWebhooks:
    def __init__(self, access: StoreAccess, runs: Emits) -> None:
        self._access = access
        self._runs = runs

    async def deliver(self, token: str, request: WebhookRequest, open_secret: OpenSecret) -> WebhookAnswer:
        """Check a request and give it to the run that waits, or will wait, for it.

        TriggerNotFound: no run has created this address. AddressUsed: it took its delivery, or the run no
        longer waits. InvalidSignature or InvalidTimestamp: the request is not from its sender.
        """
        hook = read_token(token)
        first = [] if hook is None else await self._access.store.read_log(hook.run_id, limit=1)
        if hook is None or not first:
            raise unknown()
        accepted = read(first[0], hook.run_id).fact
        if not isinstance(accepted, Accepted) or accepted.workspace != self._access.workspace:
            raise unknown()
        if not hook.is_made_with(accepted.seed):
            raise unknown()
        settings, workspace = hook.settings, self._access.workspace
        secret = await open_secret(workspace, settings.secret) if settings.secret else ""
        now = await self._access.store.now()
        delivery = verified(settings, secret, request.headers, request.data, now)
        by = f"delivery {delivery.id}" if delivery.id else "delivery"
        while True:
            came = await self._came(token)
            if came is not None and delivery.id and came.by == by:
                return WebhookAnswer("", True, "accepted", 0.0)
            if came is not None or await self._has_passed(hook.run_id, token):
                raise AddressUsed("this address has had its delivery, or its run no longer waits for one")
            if await self._runs.emit(DELIVERY, request.parse(), key=token, id=f"hook/{token}", by=by):
                return WebhookAnswer("", False, "accepted", 0.0)
            # Another delivery came first: check again.

    async def _came(self, token: str) -> PublishedEvent | None:
        store = self._access.store
        events = await store.published(DELIVERY, token, since=0.0, limit=1, workspace=self._access.workspace)
        return events[0] if events else None

    async def _has_passed(self, run_id: RunId, token: str) -> bool:
        """Return whether the run has ended, or no longer waits at this address."""
        state, at, path = RunState(), 0, ""
        while rows := await self._access.store.read_log(run_id, after=at, limit=_PAGE):
            for row in rows:
                path = _opened(row, run_id, token) or path
                apply(state, read(row, run_id))
            at = rows[-1].seq
        return state.status.terminal or bool(path and path not in state.waits)


def _opened(row: LogRow, run_id: RunId, token: str) -> str:
    """Return the path of the wait for the address that this event opened."""
    if row.kind != KIND[WaitOpened]:
        return ""
    fact = read(row, run_id).fact
    return row.path if isinstance(fact, WaitOpened) and fact.key == token else ""


def unknown() -> TriggerNotFound:
    return TriggerNotFound("there is no webhook at this address", hint="list them: stepwell webhooks list")
