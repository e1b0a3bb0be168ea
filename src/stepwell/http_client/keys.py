"""HttpKeys: the API keys of the workspace, for a caller who may manage them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote

from stepwell.client.keys import Keys, NewCredential, checked_roles
from stepwell.client.store_access import StoreAccess
from stepwell.domain.access import Credential, checked_scopes
from stepwell.domain.duration import Duration, timeout_seconds
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.http_client.connection import Connection, Params
from stepwell.http_client.rows import Fields, fields_of, flag_of, listed, row_of, text_of

_PAGE_MAX = 999


class HttpKeys(Keys):
    def __init__(self, access: StoreAccess, connection: Connection) -> None:
        super().__init__(access)
        self._connection = connection

    async def create(
        self,
        name: str,
        *,
        scopes: Collection[str] = ("read",),
        roles: Collection[str] = (),
        person: bool = False,
        expires: Duration | None = None,
        by: str = "",
    ) -> NewCredential:
        body: dict[str, Any] = {
            "name": checked_text(name, "name"),
            "scopes": list(checked_scopes(scopes)),
            "roles": list(checked_roles(roles)),
            "principal": "person" if person else "service",
            "expires": timeout_seconds(expires, name="expires"),
            "by": checked_text(by, "by"),
        }
        # Only one answer contains its text, so a repeat would leave a key that nobody has.
        answer = await self._connection.call("POST", "/keys", body=body, repeat=False)
        fields = fields_of(answer.content)
        return NewCredential(self._credential(fields), text_of(fields, "secret"))

    async def list(self, *, before: str = "", limit: int = 100) -> Sequence[Credential]:
        count = whole_number(limit, "limit", least=1, most=_PAGE_MAX)
        params: Params = {"before": checked_text(before, "before"), "limit": count}
        rows = listed(await self._connection.get("/keys", params), "keys")
        return [self._credential(fields) for fields in rows]

    async def revoke(self, key: str, *, by: str = "") -> bool:
        path, params = f"/keys/{quote(checked_text(key, 'key'), safe='')}", {"by": checked_text(by, "by")}
        answer = await self._connection.call("DELETE", path, params=params)
        return flag_of(answer.content, "changed") or answer.repeated

    def _credential(self, fields: Fields) -> Credential:
        """Return a key as the server shows it, without its digest."""
        return row_of(Credential, fields, kind="key", digest="", workspace=self._access.workspace)
