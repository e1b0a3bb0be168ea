"""SecretOpener: opens the secrets that a worker's steps and nodes use by name."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from stepwell.domain.secret import StoredSecret, may_be_sent_to
from stepwell.errors import SecretsKeyMissing, SecretUnreadable, excerpt
from stepwell.outbound.request import OutboundCredential
from stepwell.secrets.keyring import Keyring
from stepwell.secrets.redactor import Redactor
from stepwell.store.base import Store
from stepwell.store.run_workspaces import RunWorkspaces

_FRESH_SECONDS = 5.0  # seconds for which an old value may still be used after a change


class OpenedSecret(NamedTuple):
    stored: StoredSecret
    value: str

    @property
    def credential(self) -> OutboundCredential:
        """Return how a request to one of its hosts carries it."""
        name, text = "authorization", f"Bearer {self.value}"
        if self.stored.use == "basic":
            text = f"Basic {base64.b64encode(self.value.encode()).decode()}"
        elif self.stored.use == "header":
            name, text = self.stored.header.lower(), self.value
        return OutboundCredential(self.stored.name, name, text, partial(may_be_sent_to, self.stored))


class SecretOpener:
    def __init__(
        self,
        store: Store,
        keyring: Keyring | None,
        redactor: Redactor,
        now: Callable[[], float],
        workspaces: RunWorkspaces | None = None,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._redactor = redactor
        self._now = now
        self._workspaces = workspaces or RunWorkspaces(store)
        self._opened: dict[tuple[str, str], tuple[float, OpenedSecret]] = {}

    async def open(self, run_id: str, name: str) -> OpenedSecret:
        """Return a secret from the workspace of this run."""
        return await self.open_in(await self._workspaces.of(run_id), name)

    async def open_values(self, run_id: str, names: Sequence[str]) -> Mapping[str, str]:
        """Return the values of these secrets, by name."""
        return {name: (await self.open(run_id, name)).value for name in names}

    async def value(self, workspace: str, name: str) -> str:
        """Return the value of a secret in a workspace."""
        return (await self.open_in(workspace, name)).value

    async def open_in(self, workspace: str, name: str) -> OpenedSecret:
        if self._keyring is None:
            raise SecretsKeyMissing(f"secret {excerpt(name)} cannot be opened: this process has no key")
        place, now = (workspace, name), self._now()
        known = self._opened.get(place)
        if known is not None and now - known[0] < _FRESH_SECONDS:
            return known[1]
        stored = await self._store.read_secret(workspace, name)
        if stored is None:
            self._opened.pop(place, None)
            raise SecretUnreadable(
                f"there is no secret {excerpt(name)} in workspace {excerpt(workspace)}",
                hint=f"set it: stepwell secrets set {name}",
                secret=name,
            )
        opened = OpenedSecret(stored, self._keyring.open(stored))
        self._redactor.learn(name, opened.value)
        self._opened[place] = (now, opened)
        return opened
