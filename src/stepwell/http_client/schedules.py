"""HttpSchedules: the schedules of the workspace, behind a server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

import msgspec
from msgspec import Raw

from stepwell.client.options import Moment, checked_moment
from stepwell.client.schedules import (
    Backfill,
    ScheduleChanges,
    ScheduleInfo,
    ScheduleOptions,
    SchedulePreview,
    Schedules,
    checked_schedule,
)
from stepwell.client.triggers import checked_name
from stepwell.domain.codec import PLAIN, encoded_by_type
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.ids import RunId
from stepwell.domain.new_run import NO_INPUT, startable
from stepwell.domain.text import checked_text
from stepwell.domain.triggers.trigger import SCHEDULE
from stepwell.errors import Conflict, TriggerExists
from stepwell.http_client.connection import Connection
from stepwell.http_client.handle import HttpRunHandle
from stepwell.http_client.rows import Fields, fields_of, row_of, text_of
from stepwell.http_client.triggers import HttpNamedTriggers

if TYPE_CHECKING:
    from stepwell.client.client import Client
    from stepwell.client.handle import RunHandle


class HttpSchedules(HttpNamedTriggers[ScheduleInfo], Schedules):
    _plural = "schedules"

    def __init__(self, client: Client, connection: Connection) -> None:
        super().__init__(client)
        self._connection = connection

    async def create(
        self, name: str, workflow: Any, input: Any = NO_INPUT, **options: Unpack[ScheduleOptions]
    ) -> ScheduleInfo:
        body = {"name": checked_name(name, SCHEDULE), **_body(workflow, input, {**options})}
        answer = await self._connection.call("POST", "/schedules", body=body, settled=TriggerExists)
        return self._row(fields_of(answer.content)) if answer.content else await self.get(name)

    async def update(self, name: str, **changes: Unpack[ScheduleChanges]) -> ScheduleInfo:
        expected = changes.pop("expected", 0)
        workflow, input = changes.pop("workflow", ""), changes.pop("input", NO_INPUT)
        body = _body(workflow, input, {**changes})
        tag = str(expected) if expected else ""
        answer = await self._connection.call("PUT", self._path(name), body=body, match=tag, settled=Conflict)
        return self._row(fields_of(answer.content)) if answer.content else await self.get(name)

    async def trigger(self, name: str, *, key: str = "", by: str = "") -> RunHandle[Any]:
        body = {"key": checked_text(key, "key") or self._client.token(), "by": checked_text(by, "by")}
        answer = await self._connection.call("POST", f"{self._path(name)}/trigger", body=body)
        run_id = RunId(text_of(fields_of(answer.content), "id"))
        return HttpRunHandle(self._client, self._connection, run_id, PLAIN.decode)

    async def backfill(self, name: str, since: Moment, until: Moment, *, by: str = "") -> Backfill:
        body = {
            "since": _time(checked_moment(since, "since", 0.0)),
            "until": _time(checked_moment(until, "until", 0.0)),
            "by": checked_text(by, "by"),
        }
        answer = await self._connection.call("POST", f"{self._path(name)}/backfill", body=body)
        return row_of(Backfill, fields_of(answer.content))

    async def preview(
        self,
        *,
        cron: str = "",
        every: Duration | None = None,
        timezone: str = "UTC",
        after: Moment | None = None,
        count: int = 5,
    ) -> SchedulePreview:
        body: dict[str, Any] = {
            "cron": checked_text(cron, "cron"),
            "every": None if every is None else seconds(every, name="every"),
            "timezone": checked_text(timezone, "timezone"),
            "count": count,
        }
        if after is not None:
            body["after"] = _time(checked_moment(after, "after", 0.0))
        fields = fields_of((await self._connection.call("POST", "/schedules/preview", body=body)).content)
        return SchedulePreview(text_of(fields, "words"), _times(fields["times"]))

    def _row(self, fields: Fields) -> ScheduleInfo:
        return row_of(ScheduleInfo, fields, next_times=_times(fields["next_times"]))


def _body(workflow: Any, input: Any, options: dict[str, Any]) -> dict[str, Any]:
    checked_schedule(options)  # converts durations to seconds, in place
    body = {**options, "by": checked_text(options.get("by", ""), "by")}
    if not isinstance(workflow, str):
        startable(workflow)
        workflow = workflow.definition.name
    if workflow:
        body["workflow"] = checked_text(workflow, "workflow")
    if input is not NO_INPUT:
        body["input"] = Raw(encoded_by_type(input))
    return body


def _times(raw: Raw) -> tuple[float, ...]:
    return tuple(moment.timestamp() for moment in msgspec.json.decode(raw, type=list[datetime]))


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()
