"""Webhooks: addresses at which other services start workflows, or publish events."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypedDict, Unpack

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.client.options import checked_options
from stepwell.client.run_webhooks import RunWebhooks, unknown
from stepwell.client.store_access import StoreAccess
from stepwell.client.triggers import NamedTriggers, checked_name
from stepwell.domain.codec import encoded_by_type, limited
from stepwell.domain.duration import Duration, seconds
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.domain.text import checked_text
from stepwell.domain.triggers.input import check_references, filled
from stepwell.domain.triggers.trigger import Pause, Trigger, TriggerFilter, TriggerStart
from stepwell.domain.triggers.webhook import (
    TOLERANCE,
    WEBHOOK,
    WEBHOOK_KNOWN,
    OpenSecret,
    WebhookAnswer,
    WebhookRequest,
    WebhookSettings,
    checked_webhook,
    verified,
)
from stepwell.errors import InvalidInput, KeyConflict, excerpt

BODY = "{{trigger.body}}"  # the default input of a run
_TOKEN_BYTES = 24  # 192 random bits in the address
_START = ("tags", "queue", "priority", "timeout")
_SETTINGS = ("scheme", "secret", "header", "id_header", "path", "reply", "event", "event_key")
_TOKEN_LENGTH = 32  # characters of the token in the address


class WebhookOptions(TypedDict, total=False):
    """How requests are checked, and what input or payload follows from them."""

    scheme: str
    secret: str
    header: str
    id_header: str
    path: str
    tolerance: Duration
    reply: str
    wait: Duration
    event: str
    event_key: str
    version: str
    tags: Mapping[str, str] | None
    queue: str
    priority: int | None
    timeout: Duration | None
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookInfo:
    """A webhook. `path` is where requests are sent, below the address of a server."""

    name: str
    path: str
    workflow: str = ""
    version: str = ""
    event: str = ""
    event_key: str = ""
    scheme: str = "standard"
    secret: str = ""
    header: str = ""
    id_header: str = ""
    tolerance: float = TOLERANCE
    reply: str = "accepted"
    wait: float = 30.0
    input: Any = None
    tags: dict[str, str] = field(default_factory=dict)
    queue: str = ""
    priority: int | None = None
    timeout: float | None = None
    paused: bool = False
    paused_by: str = ""
    reason: str = ""
    origin: str = ""  # the workflow that declares it
    created_at: float = 0.0
    created_by: str = ""


class StartsRuns(Protocol):
    """What a delivery needs of a client."""

    @property
    def start(self) -> Callable[..., Awaitable[Any]]: ...

    async def find(self, key: str) -> Any: ...

    async def emit(
        self, name: str, payload: Any = None, *, key: str = "", id: str = "", by: str = ""
    ) -> bool: ...


class Webhooks(NamedTriggers[WebhookInfo]):
    """`engine.webhooks`: addresses at which other services start workflows, or publish events.

    A paused webhook refuses requests; the path of a deleted one no longer works.
    """

    _type = WEBHOOK

    def __init__(self, access: StoreAccess, runs: StartsRuns) -> None:
        super().__init__(access)
        self._runs = runs

    async def create(
        self, name: str, workflow: Any = None, input: Any = BODY, **options: Unpack[WebhookOptions]
    ) -> WebhookInfo:
        """Create a webhook. Nobody can guess its `path`. TriggerExists: the name is taken.

        `scheme` is "standard" (Standard Webhooks), "hmac" (of the body, in `header`), "bearer" or "none";
        `secret` is the name of a secret. A repeated delivery id counts once. `reply` is "accepted", or
        "result" to answer with the run's result within `wait`. In `input`, "{{trigger.body.order}}" stands
        for a value of the request. With `event`, a request publishes an event under `event_key` instead of
        starting a run. The address begins with `path`, for people; an unguessable part follows.
        """
        return await self._create(await self.built(name, workflow, input, {**options}))

    async def built(
        self, name: str, workflow: Any, input: Any, options: dict[str, Any], *, origin: str = ""
    ) -> Trigger:
        """Return the webhook as it is to be stored, with a path of its own."""
        given = _checked(options)
        settings, start, definition = given.settings, given.start, None
        if (workflow is None) is not bool(settings.event):
            raise InvalidInput(
                "a webhook starts a workflow or publishes an event",
                hint="pass either the workflow or event=",
                field="workflow",
            )
        if workflow is not None:
            definition = await self._definition(workflow, given.version)
        data = limited(encoded_by_type(input), "the input of a webhook", self._access.payload_bytes_max)
        check_references(msgspec.json.decode(data), WEBHOOK_KNOWN)
        check_references(settings.event_key, WEBHOOK_KNOWN)
        now = await self._access.store.now()
        return Trigger(
            id=str(self._access.ids.run_id()),
            type=WEBHOOK,
            name=checked_name(name, WEBHOOK),
            workflow="" if definition is None else definition.name,
            version=given.version,
            workspace=self._access.workspace,
            settings=msgspec.json.encode(settings),
            start=msgspec.json.encode(replace(start, input=Raw(data))),
            match=_address(settings.path, secrets.token_urlsafe(_TOKEN_BYTES)),
            origin=origin,
            created_at=now,
            created_by=given.by,
            updated_at=now,
            updated_by=given.by,
        )

    async def deliver(self, token: str, request: WebhookRequest, open_secret: OpenSecret) -> WebhookAnswer:
        """Check a request and do what its webhook says, once for each delivery id.

        TriggerNotFound: no webhook has this path. InvalidSignature or InvalidTimestamp: the request is not
        from its sender. AddressUsed: the address was for one delivery to a run.
        """
        if "." in token:
            return await RunWebhooks(self._access, self._runs).deliver(token, request, open_secret)
        trigger = await self._find(token)
        settings = settings_of(trigger)
        secret = await open_secret(trigger.workspace, settings.secret) if settings.secret else ""
        now = await self._access.store.now()
        delivery = verified(settings, secret, request.headers, request.data, now)
        if trigger.paused is not None:
            raise unknown()
        values = {
            "body": request.parse(),
            "headers": {name.replace("-", "_"): value for name, value in request.headers.items()},
            "query": dict(request.query),
            "id": delivery.id,
            "name": trigger.name,
            "at": now,
        }
        start = start_of(trigger)
        input = filled(msgspec.json.decode(start.input), values, self._access.payload_bytes_max)
        key = f"hook/{trigger.id}/{delivery.id}" if delivery.id else ""
        if settings.event:
            event_key = filled(settings.event_key, values, self._access.payload_bytes_max)
            if not isinstance(event_key, str):
                event_key = msgspec.json.encode(event_key).decode()
            fresh = await self._runs.emit(settings.event, input, key=event_key, id=key, by=_who(trigger))
            return WebhookAnswer("", not fresh, settings.reply, settings.wait)
        return await self._start(trigger, start, input, key, settings)

    async def _start(
        self, trigger: Trigger, start: TriggerStart, input: Any, key: str, settings: WebhookSettings
    ) -> WebhookAnswer:
        known = await self._runs.find(key) if key else None
        if known is not None:  # the input may differ: it may contain the time, or headers that change
            return WebhookAnswer(known.id, True, settings.reply, settings.wait)
        definition = await self._definition(trigger.workflow, trigger.version)
        options: dict[str, Any] = {
            "key": key,
            "version": trigger.version,
            "tags": {**start.tags, "webhook": trigger.name},
            "queue": start.queue,
            "priority": start.priority,
            "timeout": start.timeout,
            "trigger": WEBHOOK,
            "by": _who(trigger),
        }
        given = {name: value for name, value in options.items() if value not in ("", None)}
        if definition.kind == "graph":
            given["graph"] = definition.body
        try:
            run = await self._runs.start(trigger.workflow, input, **given)
        except KeyConflict as error:  # the same delivery arrived at the same time
            return WebhookAnswer(str(error.context["run"]), True, settings.reply, settings.wait)
        return WebhookAnswer(run.id, False, settings.reply, settings.wait)

    # Parts

    def _info(self, trigger: Trigger) -> WebhookInfo:
        return info_of(trigger)

    async def _find(self, token: str) -> Trigger:
        wanted = TriggerFilter(type=WEBHOOK, workspace=self._access.workspace, match=token, limit=1)
        rows = await self._access.store.list_triggers(wanted) if token else []
        if not rows:
            raise unknown()
        return rows[0]


class _Checked(NamedTuple):
    settings: WebhookSettings
    start: TriggerStart
    version: str
    by: str


def _checked(options: dict[str, Any]) -> _Checked:
    """Check the options that need no database. InvalidInput names the wrong one."""
    names = (*_SETTINGS, *_START, "tolerance", "wait", "version", "by")
    for name in options:
        if name not in names:
            raise InvalidInput(
                f"a webhook has no option {excerpt(name)}", hint=did_you_mean_one_of(name, names), field=name
            )
    given: dict[str, Any] = {name: checked_text(options[name], name) for name in _SETTINGS if name in options}
    for name in ("tolerance", "wait"):
        if name in options:
            given[name] = seconds(options[name], name=name)
    settings = checked_webhook(WebhookSettings(**given))
    asked = {name: options[name] for name in _START if options.get(name) is not None}
    checked = checked_options(dict(asked))
    start = TriggerStart(**{name: checked[name] for name in asked})
    version, by = options.get("version", ""), options.get("by", "")
    return _Checked(settings, start, checked_text(version, "version"), checked_text(by, "by"))


def _address(path: str, token: str) -> str:
    return f"{path}-{token}" if path else token


def same_address(current: Trigger, row: Trigger) -> str:
    """Keep the unguessable part of the address when a declared webhook is declared again."""
    return _address(settings_of(row).path, current.match[-_TOKEN_LENGTH:])


def _who(trigger: Trigger) -> str:
    return f"webhook {trigger.name}"


def settings_of(trigger: Trigger) -> WebhookSettings:
    return msgspec.json.decode(trigger.settings, type=WebhookSettings)


def start_of(trigger: Trigger) -> TriggerStart:
    return msgspec.json.decode(trigger.start, type=TriggerStart)


def info_of(trigger: Trigger) -> WebhookInfo:
    """Return the webhook as people see it."""
    settings, start = settings_of(trigger), start_of(trigger)
    pause = None if trigger.paused is None else msgspec.json.decode(trigger.paused, type=Pause)
    return WebhookInfo(
        name=trigger.name,
        path=f"/hooks/{trigger.workspace}/{trigger.match}",
        workflow=trigger.workflow,
        version=trigger.version,
        event=settings.event,
        event_key=settings.event_key,
        scheme=settings.scheme,
        secret=settings.secret,
        header=settings.header,
        id_header=settings.id_header,
        tolerance=settings.tolerance,
        reply=settings.reply,
        wait=settings.wait,
        input=msgspec.json.decode(start.input),
        tags=dict(start.tags),
        queue=start.queue,
        priority=start.priority,
        timeout=start.timeout,
        paused=pause is not None,
        paused_by=pause.by if pause else "",
        reason=pause.reason if pause else "",
        origin=trigger.origin,
        created_at=trigger.created_at,
        created_by=trigger.created_by,
    )
