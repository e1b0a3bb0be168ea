"""HttpRunHandle: one run, seen through a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw

from stepwell.client import RunHandle, approval_links
from stepwell.client.diagnosis import warn_if_unserved
from stepwell.client.keys import NewCredential, checked_roles
from stepwell.client.step_logs import StepLogLine
from stepwell.client.store_access import StoreAccess
from stepwell.domain.access import Credential
from stepwell.domain.codec import encoded_by_type
from stepwell.domain.commit import LogRow, RunRow
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.events import Accepted, Cancelled, Received, read, read_as
from stepwell.domain.ids import RunId, generated_id
from stepwell.domain.state import OpenWait, RunOverview
from stepwell.domain.status import Status
from stepwell.domain.step_log import LINES_PAGE
from stepwell.domain.text import checked_text, clean
from stepwell.domain.why import Reason
from stepwell.errors import (
    AlreadyDecided,
    Conflict,
    InvalidInput,
    NotCompensable,
    NotRetryable,
    NotSleeping,
    RunEnded,
    RunNotFound,
    excerpt,
)
from stepwell.http_client.connection import Answer, Connection, Params
from stepwell.http_client.event_stream import follow as followed
from stepwell.http_client.rows import EventAnswer, fields_of, flag_of, listed, row_of, run_row, text_of
from stepwell.store.wakeups import Ended

R = TypeVar("R")

_PAGE = 1000
_LINES_MAX = 999
_LOOK_SECONDS = 0.5  # step logs have no stream, so they are polled
_FIRST_WAIT, _WAIT = 5, 25  # seconds for which the server waits in one request


class HttpRunHandle(RunHandle[R]):
    """A RunHandle whose run is behind a server. What the log shows is read from the log, as elsewhere."""

    def __init__(
        self, access: StoreAccess, connection: Connection, run_id: RunId, decode: Callable[[bytes], R]
    ) -> None:
        super().__init__(access, run_id, decode, ours=True)  # the server checks the workspace
        self._http = connection
        self._workspace = access.workspace

    @property
    def _path(self) -> str:
        return f"/runs/{self.id}"

    # The end of the run

    async def _end(self) -> Ended:
        wait = _FIRST_WAIT
        while True:
            data = await self._http.get(self._path, {"wait": f"{wait}s"}, read=wait + 30.0)
            row = run_row(fields_of(data), self._workspace)
            if row.status.terminal:
                return Ended(row.status, row.output, row.error)
            if wait == _FIRST_WAIT and row.status is Status.PENDING:
                await warn_if_unserved(self)
            wait = _WAIT

    async def _reason(self, status: Status) -> str:
        if status is Status.CANCELLED:
            seq = int(msgspec.json.decode(fields_of(await self._http.get(self._path))["seq"]))
            for row in (await self._page(seq - 1, 1))[0]:
                fact = read(row).fact
                return fact.reason if isinstance(fact, Cancelled) else ""
        return ""

    # What the run is

    async def info(self) -> RunRow:
        return run_row(fields_of(await self._http.get(self._path)), self._workspace)

    async def overview(self) -> RunOverview:
        return row_of(RunOverview, fields_of(await self._http.get(f"{self._path}/overview")))

    async def why(self) -> Reason:
        return row_of(Reason, fields_of(await self._http.get(f"{self._path}/why")))

    async def log(self) -> AsyncIterator[LogRow]:
        async with aclosing(self._pages(0, follow=False)) as pages:
            async for page in pages:
                for row in page:
                    yield row

    async def _pages(self, after: int, *, follow: bool) -> AsyncGenerator[Sequence[LogRow], None]:
        if follow:
            async with aclosing(followed(self._http, self.id, after)) as events:
                async for event in events:
                    yield [await self._whole(event)]
            return
        more = True
        while more:
            page, more = await self._page(after, _PAGE)
            if page:
                yield page
                after = page[-1].seq

    async def logs(
        self, path: str = "", *, attempt: int = 0, after: int = 0, limit: int = LINES_PAGE
    ) -> Sequence[StepLogLine]:
        lines: list[StepLogLine] = []
        while len(lines) < limit:
            size = min(limit - len(lines), _LINES_MAX)
            params: Params = {
                "path": checked_text(path, "path"),
                "attempt": attempt,
                "after": after,
                "limit": size,
            }
            data = await self._http.get(f"{self._path}/logs", params)
            page = msgspec.json.decode(fields_of(data)["lines"], type=list[StepLogLine])
            lines += page
            if len(page) < size:
                break
            after = page[-1].n
        return lines

    async def follow_logs(
        self, path: str = "", *, attempt: int = 0, after: int = 0
    ) -> AsyncIterator[StepLogLine]:
        while True:
            ended = (await self.info()).status.terminal
            page = await self.logs(path, attempt=attempt, after=after)
            for line in page:
                yield line
            after = page[-1].n if page else after
            if not page and ended:
                return
            if not page:
                await asyncio.sleep(_LOOK_SECONDS)

    async def _page(self, after: int, limit: int) -> tuple[list[LogRow], bool]:
        """Return the next events, fewer than `limit` if they are large, and whether there are more."""
        data = await self._http.get(f"{self._path}/events", {"after": after, "limit": limit})
        events = msgspec.json.decode(fields_of(data)["events"], type=list[EventAnswer])
        return [await self._whole(event) for event in events], flag_of(data, "more")

    async def _whole(self, event: EventAnswer) -> LogRow:
        """Return the event with its whole payload. Lists and streams cut long payloads."""
        if event.is_truncated:
            data = await self._http.get(f"{self._path}/events/{event.seq}")
            event = msgspec.json.decode(data, type=EventAnswer)
        return event.row()

    async def _graph(self, accepted: Accepted) -> bytes:
        if bytes(accepted.graph) != b"null":
            return bytes(accepted.graph)
        name = quote(accepted.workflow, safe="")
        data = await self._http.get(f"/workflows/{name}", {"version": accepted.version})
        return msgspec.json.encode(fields_of(data)["definition"])

    async def _first_open_wait(self, name: str) -> OpenWait | None:
        wait = _FIRST_WAIT
        while True:
            params = {"name": name, "wait": f"{wait}s"}
            try:
                data = await self._http.get(f"{self._path}/waits", params, read=wait + 30.0)
            except RunEnded:
                return None
            paths = [text_of(fields, "path") for fields in listed(data, "waits")]
            open_waits = [open_wait for open_wait in await self.waits() if open_wait.path in paths]
            if open_waits:
                return open_waits[0]
            if wait == _FIRST_WAIT:
                await warn_if_unserved(self)
            wait = _WAIT

    # Messages to the run

    async def signal(self, name: str, payload: Any = None, *, id: str = "", by: str = "") -> None:
        await self._deliver("signal", self._message(name, payload, id, by))

    async def event(
        self, name: str, payload: Any = None, *, key: str = "", id: str = "", by: str = ""
    ) -> bool:
        body = {"key": checked_text(key, "key"), **self._message(name, payload, id, by)}
        answer = await self._deliver("event", body)
        if answer is None:
            return not id
        # Without an id from the caller, only a repeat by this client can be a known message.
        return flag_of(answer.content, "done") or (answer.repeated and not id)

    async def _deliver(self, what: str, body: dict[str, Any]) -> Answer | None:
        """Send a message. None if the run has already taken it and has ended since."""
        try:
            return await self._http.post(f"{self._path}/{what}", body)
        except RunEnded:
            if await self._received(f"signal/{body['id']}"):
                return None
            raise

    async def _received(self, key: str) -> bool:
        async for row in self.log():
            if row.kind == "received" and read_as(Received, row, self.id).key == key:
                return True
        return False

    def _message(self, name: str, payload: Any, id: str, by: str) -> dict[str, Any]:
        return {
            "name": checked_text(name, "name"),
            "payload": Raw(encoded_by_type(payload)),
            "id": checked_text(id, "id") or generated_id(self._client.token()),  # a repeat counts once
            "by": checked_text(by, "by"),
        }

    async def decide(
        self,
        answer: Any,
        *,
        path: str = "",
        by: str = "",
        roles: Collection[str] = (),
        reason: str = "",
        id: str = "",
    ) -> None:
        body = {"answer": Raw(encoded_by_type(answer)), "path": checked_text(path, "path"), "roles": [*roles]}
        body["id"] = checked_text(id, "id") or self._client.token()  # a repeat counts once
        await self._http.post(f"{self._path}/decide", body | _who(by, reason))

    async def approval_link(
        self,
        assignee: str,
        *,
        path: str = "",
        roles: Collection[str] = (),
        expires: Duration = approval_links.LASTING,
        by: str = "",
    ) -> NewCredential:
        if by:
            raise InvalidInput("a server records who calls by the key", hint="leave `by` out", field="by")
        body = {
            "assignee": checked_text(assignee, "assignee"),
            "path": checked_text(path, "path"),
            "roles": list(checked_roles(roles)),
            "expires": seconds(expires, name="expires"),
        }
        answer = await self._http.call("POST", f"{self._path}/links", body=body, repeat=False)
        fields = fields_of(answer.content)
        more = {"kind": "link", "digest": "", "name": assignee, "run_id": self.id, "principal": "person"}
        link = row_of(Credential, fields, workspace=self._workspace, roles=tuple(roles), **more)
        return NewCredential(link, text_of(fields, "secret"))

    async def reassign(
        self, assignees: Sequence[str], *, path: str = "", by: str = "", reason: str = ""
    ) -> None:
        if isinstance(assignees, str):
            raise InvalidInput(f"assignees is {excerpt(assignees)}", hint='give a list of names: ["ana"]')
        body = {"assignees": list(assignees), "path": checked_text(path, "path"), **_who(by, reason)}
        await self._http.post(f"{self._path}/reassign", body)

    async def remind(self, *, path: str = "", by: str = "", reason: str = "") -> OpenWait:
        body = {"path": checked_text(path, "path"), **_who(by, reason)}
        answer = await self._http.post(f"{self._path}/remind", body)
        reminded = text_of(fields_of(answer.content), "path")
        waits = (await self.state()).waits
        if reminded not in waits:
            raise AlreadyDecided(f"{reminded} was decided meanwhile")
        return waits[reminded]

    async def trigger(
        self, transition: str, payload: Any = None, *, by: str = "", reason: str = "", id: str = ""
    ) -> None:
        body = {"transition": checked_text(transition, "trigger"), "payload": Raw(encoded_by_type(payload))}
        body["id"] = checked_text(id, "id") or self._client.token()
        await self._http.post(f"{self._path}/trigger", body | _who(by, reason))

    async def cancel(self, reason: str = "", *, by: str = "", force: bool = False) -> bool:
        return await self._asked("force" if force else "cancel", _who(by, reason))

    async def hold(self, *, by: str = "", reason: str = "") -> bool:
        return await self._asked("hold", _who(by, reason))

    async def release(self, *, by: str = "", reason: str = "") -> bool:
        return await self._asked("release", _who(by, reason))

    async def _asked(self, verb: str, body: dict[str, str]) -> bool:
        """Switch something on or off. If a repeated request changes nothing, an earlier one did."""
        answer = await self._http.post(f"{self._path}/{verb}", body)
        return flag_of(answer.content, "done") or answer.repeated

    async def skip(self, output: Any = None, *, path: str = "", by: str = "", reason: str = "") -> None:
        body = {"output": Raw(encoded_by_type(output)), "path": checked_text(path, "path")}
        await self._http.post(f"{self._path}/skip", body | _who(by, reason), settled=Conflict)

    async def set_variable(
        self, name: str, value: Any, *, id: str = "", by: str = "", reason: str = ""
    ) -> None:
        body = {"name": name, "value": Raw(encoded_by_type(value)), **_who(by, reason)}
        body["id"] = checked_text(id, "id") or self._client.token()  # a repeat counts once
        await self._http.post(f"{self._path}/variable", body)

    async def change_delay(self, to: Duration, *, path: str = "", by: str = "", reason: str = "") -> None:
        body = {"to": seconds(to, name="to"), "path": checked_text(path, "path"), **_who(by, reason)}
        await self._http.post(f"{self._path}/delay", body, settled=NotSleeping)

    async def discard(self, *, by: str = "", reason: str = "") -> None:
        await self._http.post(f"{self._path}/discard", _who(by, reason), settled=RunNotFound)

    async def retry(self, *, by: str = "", reason: str = "") -> None:
        await self._http.post(f"{self._path}/retry", _who(by, reason), settled=NotRetryable)

    async def compensate(self, *, by: str = "", reason: str = "") -> None:
        await self._http.post(f"{self._path}/compensate", _who(by, reason), settled=NotCompensable)

    async def delete(self, *, by: str = "", reason: str = "") -> None:
        await self._http.call("DELETE", self._path, params=_who(by, reason), settled=RunNotFound)


def _who(by: str, reason: str) -> dict[str, str]:
    return {"by": checked_text(by, "by"), "reason": clean(reason)}
