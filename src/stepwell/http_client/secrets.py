"""HttpSecrets: the secrets of the workspace, for a caller who may manage them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote

from stepwell.client.secrets import SecretInfo, Secrets
from stepwell.client.store_access import StoreAccess
from stepwell.domain.secret import checked_hosts, checked_secret_name, checked_use, checked_value
from stepwell.domain.text import checked_text
from stepwell.domain.whole_numbers import whole_number
from stepwell.http_client.connection import Connection, Params
from stepwell.http_client.rows import Fields, fields_of, flag_of, listed, row_of

_PAGE_MAX = 999


class HttpSecrets(Secrets):
    def __init__(self, access: StoreAccess, connection: Connection) -> None:
        super().__init__(access, None)
        self._connection = connection

    async def set(
        self,
        name: str,
        value: str,
        *,
        hosts: Collection[str] = (),
        use: str = "bearer",
        header: str = "",
        by: str = "",
    ) -> SecretInfo:
        way, named = checked_use(use, header)
        body: dict[str, Any] = {
            "value": checked_value(value),
            "hosts": list(checked_hosts(hosts)),
            "use": way,
            "header": named,
            "by": checked_text(by, "by"),
        }
        # A repeat writes the same value again, as another version.
        answer = await self._connection.call("PUT", _path(name), body=body)
        return _info(fields_of(answer.content))

    async def list(self, *, after: str = "", limit: int = 100) -> Sequence[SecretInfo]:
        count = whole_number(limit, "limit", least=1, most=_PAGE_MAX)
        params: Params = {"after": checked_text(after, "after"), "limit": count}
        return [_info(fields) for fields in listed(await self._connection.get("/secrets", params), "secrets")]

    async def delete(self, name: str, *, by: str = "") -> bool:
        answer = await self._connection.call("DELETE", _path(name), params={"by": checked_text(by, "by")})
        return flag_of(answer.content, "changed") or answer.repeated


def _path(name: str) -> str:
    return f"/secrets/{quote(checked_secret_name(name), safe='')}"


def _info(fields: Fields) -> SecretInfo:
    return row_of(SecretInfo, fields)
