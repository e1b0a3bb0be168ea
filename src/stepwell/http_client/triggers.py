"""HttpNamedTriggers: the verbs that triggers of all types share, behind a server."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote

import msgspec

from stepwell.client.triggers import PAGE_MAX, Info, NamedTriggers
from stepwell.domain.search import Page
from stepwell.domain.text import checked_text, clean
from stepwell.domain.whole_numbers import whole_number
from stepwell.errors import TriggerNotFound
from stepwell.http_client.connection import Connection, Params
from stepwell.http_client.rows import Fields, fields_of, flag_of, listed


class HttpNamedTriggers(NamedTriggers[Info]):
    """The HTTP versions of the shared verbs. Comes before the verbs of the database among the bases."""

    _plural: ClassVar[str]  # the name of the type in addresses and answers
    _connection: Connection

    async def list(self, *, workflow: str = "", before: str = "", limit: int = 100) -> Page[Info]:
        params: Params = {
            "workflow": checked_text(workflow, "workflow"),
            "cursor": checked_text(before, "before"),
            "limit": whole_number(limit, "limit", least=1, most=PAGE_MAX),
        }
        content = await self._connection.get(f"/{self._plural}", params)
        cursor = msgspec.json.decode(fields_of(content)["cursor"])
        return Page([self._row(fields) for fields in listed(content, self._plural)], cursor or "")

    async def get(self, name: str) -> Info:
        return self._row(fields_of(await self._connection.get(self._path(name))))

    async def delete(self, name: str, *, by: str = "") -> bool:
        params = {"by": checked_text(by, "by")}
        try:
            answer = await self._connection.call("DELETE", self._path(name), params=params)
        except TriggerNotFound:
            return False
        return flag_of(answer.content, "changed") or answer.repeated

    async def pause(self, name: str, *, by: str = "", reason: str = "") -> bool:
        body = {"by": checked_text(by, "by"), "reason": clean(reason)}
        answer = await self._connection.call("POST", f"{self._path(name)}/pause", body=body)
        return flag_of(answer.content, "changed") or answer.repeated

    async def resume(self, name: str, *, by: str = "") -> bool:
        body = {"by": checked_text(by, "by")}
        answer = await self._connection.call("POST", f"{self._path(name)}/resume", body=body)
        return flag_of(answer.content, "changed") or answer.repeated

    def _row(self, fields: Fields) -> Info:
        """Return the trigger as a server sent it."""
        raise NotImplementedError

    def _path(self, name: str) -> str:
        return f"/{self._plural}/{quote(checked_text(name, 'name'), safe='')}"
