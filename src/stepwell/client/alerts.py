"""Alerts: what an operator wants to know: failed, stuck and overdue runs, missing workers, full queues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import msgspec

from stepwell.channels.errors import NotifyError
from stepwell.channels.notification import checked_recipients
from stepwell.client.store_access import StoreAccess
from stepwell.domain.alerts import (
    Alert,
    AlertSettings,
    checked_alert,
    default_after,
    incidents_of,
    settings_of,
)
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.text import checked_text
from stepwell.errors import InvalidInput, excerpt

_TEXTS = ("workflow", "queue", "channel")
_TIMES = ("after", "repeat", "every")
_NAME_MAX = 200


class AlertOptions(TypedDict, total=False):
    """What an alert is about, when it is reported, and to whom."""

    workflow: str
    queue: str
    after: Duration
    at_least: int
    channel: str
    to: Sequence[str]
    repeat: Duration
    every: Duration
    paused: bool
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertIncident:
    """A problem that an alert found and that is not over. Times are in seconds since 1970."""

    subject: str  # the workflow or queue
    since: float
    count: int
    runs: tuple[str, ...] = ()  # up to ten runs
    reported_at: float | None = None  # the last report; None: it has not lasted long enough


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertInfo:
    """An alert with its open incidents. Times are in seconds."""

    name: str
    what: str
    workflow: str = ""
    queue: str = ""
    after: float = 0.0
    at_least: int = 1
    channel: str = ""
    to: tuple[str, ...] = ()
    repeat: float = 0.0
    every: float = 0.0
    paused: bool = False
    incidents: tuple[AlertIncident, ...] = ()
    created_at: float = 0.0
    created_by: str = ""


class Alerts:
    """`engine.alerts`: problems that the workers of this database watch for and report."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    async def set(self, name: str, what: str, **options: Unpack[AlertOptions]) -> AlertInfo:
        """Create an alert, or replace the one with this name; its open incidents stay.

        `what` is "failed", "stuck" or "overdue" (runs of `workflow`, or of all), "no_worker" or
        "full_queue" (of `queue`). `after` is how long the problem must last; for failed runs, how far back
        they count. `at_least` is how many runs it takes. The alert is checked `every` so often. It is
        reported through `channel`, to `to` or the recipients of the channel, when it begins, again after
        `repeat`, and when it is over. Without a channel it shows in the metrics only.
        """
        alert = checked(name, what, {**options})
        store = self._access.store
        row = msgspec.structs.replace(
            alert,
            id=str(self._access.ids.run_id()),
            workspace=self._access.workspace,
            created_at=await store.now(),
        )
        await self._access.call_idempotent(lambda: store.put_alert(row))
        self._access.notifier.notify_work()  # wakes a process that slept because there was nothing to check
        [stored] = await store.list_alerts(self._access.workspace, name=name)
        return info_of(stored)

    async def list(self) -> Sequence[AlertInfo]:
        """List the alerts of this workspace by name, with their open incidents."""
        return [info_of(row) for row in await self._access.store.list_alerts(self._access.workspace)]

    async def delete(self, name: str, *, by: str = "") -> bool:
        """Delete an alert; its open incidents are forgotten. False: there is none."""
        checked_text(by, "by")
        store, workspace, wanted = self._access.store, self._access.workspace, checked_text(name, "name")
        done, repeated = await self._access.retry_call(lambda: store.drop_alert(workspace, wanted))
        return done or repeated


def checked(name: str, what: str, options: dict[str, Any]) -> Alert:
    """Check an alert without a database. InvalidInput names the wrong field."""
    if not checked_text(name, "name").strip() or "/" in name or len(name) > _NAME_MAX:
        raise InvalidInput(
            f"an alert cannot be called {excerpt(name)}",
            hint=f"use 1 to {_NAME_MAX} characters, without a slash",
            field="name",
        )
    names = (*_TEXTS, *_TIMES, "at_least", "to", "paused", "by")
    for option in options:
        if option not in names:
            raise InvalidInput(
                f"an alert has no option {excerpt(option)}",
                hint=did_you_mean_one_of(option, names),
                field=option,
            )
    given: dict[str, Any] = {text: checked_text(options[text], text) for text in _TEXTS if text in options}
    given |= {time: seconds(options[time], name=time) for time in _TIMES if time in options}
    given.setdefault("after", default_after(what))
    if "at_least" in options:
        given["at_least"] = options["at_least"]
    given["to"] = _recipients(options.get("to", ()))
    paused = options.get("paused", False)
    if not isinstance(paused, bool):
        raise InvalidInput(f"paused is {excerpt(paused)}", hint="pass True or False", field="paused")
    settings = checked_alert(AlertSettings(what=what, **given))  # type: ignore[arg-type]  # it is checked there
    by = checked_text(options.get("by", ""), "by")
    return Alert(id="", name=name, settings=msgspec.json.encode(settings), paused=paused, created_by=by)


def _recipients(to: object) -> tuple[str, ...]:
    if isinstance(to, str) or not isinstance(to, Sequence) or not all(isinstance(one, str) for one in to):
        raise InvalidInput(f"to is {excerpt(to)}", hint='pass a list: to=["ops@example.com"]', field="to")
    try:
        checked_recipients(to)
    except NotifyError as error:
        raise InvalidInput(error.message, hint=error.hint, field="to") from None
    return tuple(to)


def info_of(alert: Alert) -> AlertInfo:
    """Return the alert as people see it."""
    settings = settings_of(alert)
    return AlertInfo(
        name=alert.name,
        what=settings.what,
        workflow=settings.workflow,
        queue=settings.queue,
        after=settings.after,
        at_least=settings.at_least,
        channel=settings.channel,
        to=settings.to,
        repeat=settings.repeat,
        every=settings.every,
        paused=alert.paused,
        incidents=tuple(
            AlertIncident(
                subject=incident.subject,
                since=incident.since,
                count=incident.count,
                runs=incident.runs,
                reported_at=incident.reported_at or None,
            )
            for incident in incidents_of(alert)
        ),
        created_at=alert.created_at,
        created_by=alert.created_by,
    )
