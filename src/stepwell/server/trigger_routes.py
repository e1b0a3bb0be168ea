"""Route table of triggers: schedules, webhooks, and triggers by event or source."""

from __future__ import annotations

from dataclasses import replace

from stepwell.server import schedules, triggers, webhooks
from stepwell.server.route_kinds import API, WHY, change, read
from stepwell.server.table import Route

_WEBHOOK = f"{API}/webhooks/{{webhook}}"
WEBHOOKS = (
    # A caller who knows the path of an unsigned webhook can call it, so the scope `read` does not show it.
    replace(read(f"{API}/webhooks", webhooks.list_webhooks, "webhooks"), scope="edit"),
    replace(read(_WEBHOOK, webhooks.get_webhook, "webhooks", errors=(404,)), scope="edit"),
    change(
        "POST",
        f"{API}/webhooks",
        webhooks.create_webhook,
        "edit",
        "webhooks",
        status=201,
        errors=(404, 409),
        example={"name": "refunds", "workflow": "refund", "secret": "shop"},
    ),
    change("DELETE", _WEBHOOK, webhooks.delete_webhook, "edit", "webhooks"),
    change("POST", f"{_WEBHOOK}/pause", webhooks.pause_webhook, "edit", "webhooks", example=WHY),
    change("POST", f"{_WEBHOOK}/resume", webhooks.resume_webhook, "edit", "webhooks", example={}),
)

_SCHEDULE = f"{API}/schedules/{{name}}"
_NIGHTLY = {"name": "nightly", "workflow": "report", "cron": "30 2 * * 1-5", "timezone": "Europe/Berlin"}
SCHEDULES = (
    read(f"{API}/schedules", schedules.list_schedules, "schedules"),
    read(_SCHEDULE, schedules.get_schedule, "schedules", errors=(404,)),
    Route(
        method="POST",
        path=f"{API}/schedules/preview",
        handler=schedules.preview_schedule,
        scope="read",
        workspace="principal",
        audited=False,
        csrf=True,
        tag="schedules",
        errors=(422,),
        example={"cron": "30 2 * * 1-5", "timezone": "Europe/Berlin"},
    ),
    change(
        "POST",
        f"{API}/schedules",
        schedules.create_schedule,
        "edit",
        "schedules",
        status=201,
        errors=(404, 409, 413, 422),
        example=_NIGHTLY,
    ),
    change(
        "PUT",
        _SCHEDULE,
        schedules.update_schedule,
        "edit",
        "schedules",
        errors=(404, 409, 413, 422),
        example={"cron": "0 3 * * *"},
    ),
    change("DELETE", _SCHEDULE, schedules.delete_schedule, "edit", "schedules", errors=(404,)),
    change(
        "POST",
        f"{_SCHEDULE}/pause",
        schedules.pause_schedule,
        "edit",
        "schedules",
        errors=(404,),
        example=WHY,
    ),
    change(
        "POST",
        f"{_SCHEDULE}/resume",
        schedules.resume_schedule,
        "edit",
        "schedules",
        errors=(404,),
        example={},
    ),
    change(
        "POST",
        f"{_SCHEDULE}/trigger",
        schedules.trigger_schedule,
        "run",
        "schedules",
        status=201,
        errors=(404, 409, 422),
        example={},
    ),
    change(
        "POST",
        f"{_SCHEDULE}/backfill",
        schedules.backfill_schedule,
        "run",
        "schedules",
        errors=(404, 409, 422),
        example={"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"},
    ),
)

_TRIGGER = f"{API}/triggers/{{trigger}}"
TRIGGERS = (
    read(f"{API}/triggers", triggers.list_triggers, "triggers"),
    read(_TRIGGER, triggers.get_trigger, "triggers", errors=(404,)),
    change(
        "POST",
        f"{API}/triggers",
        triggers.create_trigger,
        "edit",
        "triggers",
        status=201,
        errors=(404, 409, 413, 422),
        example={"name": "ship", "workflow": "ship_order", "event": "order.paid"},
    ),
    change("DELETE", _TRIGGER, triggers.delete_trigger, "edit", "triggers"),
    change(
        "POST", f"{_TRIGGER}/pause", triggers.pause_trigger, "edit", "triggers", errors=(404,), example=WHY
    ),
    change(
        "POST", f"{_TRIGGER}/resume", triggers.resume_trigger, "edit", "triggers", errors=(404,), example={}
    ),
)
