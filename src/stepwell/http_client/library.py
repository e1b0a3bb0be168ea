"""HttpGraphLibrary: the saved graphs of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast
from urllib.parse import quote

import msgspec

from stepwell.client.library import GraphLibrary, LibraryTools, SavedGraph
from stepwell.domain.text import checked_text
from stepwell.errors import Conflict, InvalidInput, excerpt
from stepwell.http_client.connection import Answer, Connection
from stepwell.http_client.rows import fields_of, listed, row_of, text_of

if TYPE_CHECKING:
    from stepwell.http_client.client import HttpClient


class HttpGraphLibrary(GraphLibrary):
    """A GraphLibrary behind a server, which checks graphs with its own node types.

    The server takes the author from the key, so `by` is left out.
    """

    def __init__(self, client: HttpClient, connection: Connection) -> None:
        super().__init__(client, cast(LibraryTools, None), _nothing_to_begin)
        self._http = connection

    async def list(self) -> list[SavedGraph]:
        rows = listed(await self._http.get("/graphs"), "graphs")
        return [_saved(msgspec.json.encode(fields)) for fields in rows]

    async def get(self, name: str, version: str | int = "draft") -> dict[str, Any]:
        data = await self._http.get(_path(name), {"version": checked_text(str(version), "version")})
        body: dict[str, Any] = msgspec.json.decode(fields_of(data)["graph"])
        return body

    async def about(self, name: str) -> SavedGraph:
        return _saved(await self._http.get(_path(name)))

    async def create(self, body: Any, *, name: str = "", by: str = "") -> SavedGraph:
        sent = {"graph": _graph(body), "name": checked_text(name, "name"), "by": checked_text(by, "by")}
        answer = await self._http.post("/graphs", sent, settled=Conflict)
        return await self._written(name or str(body.get("name") or ""), body, answer)

    async def update(self, name: str, body: Any, *, expected: str = "", by: str = "") -> SavedGraph:
        sent = {"graph": _graph(body), "by": checked_text(by, "by")}
        answer = await self._http.call("PUT", _path(name), body=sent, match=expected, settled=Conflict)
        return await self._written(name, body, answer)

    async def _written(self, name: str, body: Any, answer: Answer) -> SavedGraph:
        """Return what was saved. A repeat may be refused because the first request succeeded."""
        if answer.content:
            return _saved(answer.content)
        if await self.get(name) != msgspec.to_builtins(body):
            raise Conflict(
                f"the draft of {excerpt(name)} was changed by somebody else",
                hint="load the draft and try again",
            )
        return await self.about(name)

    async def delete(self, name: str) -> None:
        from stepwell.errors import UnknownWorkflow

        await self._http.call("DELETE", _path(name), settled=UnknownWorkflow)

    async def publish(self, name: str, *, expected: str = "", by: str = "") -> str:
        body = {"by": checked_text(by, "by")}
        answer = await self._http.call("POST", f"{_path(name)}/publish", body=body, match=expected)
        return text_of(fields_of(answer.content), "version")

    async def diff(self, name: str, old: str | int, new: str | int = "draft") -> dict[str, Any]:
        params = {"old": checked_text(str(old), "old"), "new": checked_text(str(new), "new")}
        changes: dict[str, Any] = msgspec.json.decode(
            fields_of(await self._http.get(f"{_path(name)}/diff", params))["diff"]
        )
        return changes

    async def start(
        self, name: str, input: Any = None, *, version: str | int = "published", **options: Any
    ) -> Any:
        chosen = "" if version == "published" else str(version)
        return await self._client.start(name, input, version=chosen, **options)


async def _nothing_to_begin() -> NoReturn:
    raise AssertionError("only an engine runs the code of graphs")


def _path(name: str) -> str:
    return f"/graphs/{quote(checked_text(name, 'name'), safe='')}"


def _graph(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise InvalidInput(
            f"the graph is {excerpt(body)}", hint='give it as it is saved: {"nodes": [...], "edges": [...]}'
        )
    return body


def _saved(data: bytes) -> SavedGraph:
    fields = fields_of(data)
    at = {"at": 0.0} if bytes(fields["at"]) == b"null" else {}
    return row_of(SavedGraph, fields, **at)
