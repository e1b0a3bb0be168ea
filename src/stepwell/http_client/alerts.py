"""HttpAlerts: the alerts of the workspace, over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack
from urllib.parse import quote

import msgspec
from msgspec import Raw

from stepwell.client.alerts import AlertIncident, AlertInfo, AlertOptions, Alerts, checked
from stepwell.client.store_access import StoreAccess
from stepwell.domain.alerts import settings_of
from stepwell.domain.text import checked_text
from stepwell.http_client.connection import Connection
from stepwell.http_client.rows import Fields, fields_of, flag_of, listed, row_of


class HttpAlerts(Alerts):
    def __init__(self, access: StoreAccess, connection: Connection) -> None:
        super().__init__(access)
        self._connection = connection

    async def set(self, name: str, what: str, **options: Unpack[AlertOptions]) -> AlertInfo:
        alert = checked(name, what, {**options})
        settings: dict[str, Any] = msgspec.to_builtins(settings_of(alert))
        body = {**settings, "after": settings_of(alert).after, "paused": alert.paused, "by": alert.created_by}
        answer = await self._connection.call("PUT", _path(name), body=body)
        return _info(fields_of(answer.content))

    async def list(self) -> Sequence[AlertInfo]:
        return [_info(fields) for fields in listed(await self._connection.get("/alerts"), "alerts")]

    async def delete(self, name: str, *, by: str = "") -> bool:
        answer = await self._connection.call("DELETE", _path(name), params={"by": checked_text(by, "by")})
        return flag_of(answer.content, "changed") or answer.repeated


def _path(name: str) -> str:
    return f"/alerts/{quote(checked_text(name, 'name'), safe='')}"


def _info(fields: Fields) -> AlertInfo:
    rows = msgspec.json.decode(fields["incidents"], type=list[dict[str, Raw]])
    return row_of(AlertInfo, fields, incidents=tuple(row_of(AlertIncident, row) for row in rows))
