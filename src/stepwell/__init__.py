"""Stepwell: durable workflows in Python.

Public names only. Each is loaded on first use, so that `import stepwell` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.app import Engine
    from stepwell.authoring.ask_model import ModelAnswer, Tool, ask_model, ask_model_sync
    from stepwell.authoring.functions.notify import notify
    from stepwell.authoring.functions.record_steps import (
        create_record,
        delete_record,
        find_records,
        get_record,
        update_record,
    )
    from stepwell.authoring.functions.source import Source, source
    from stepwell.authoring.functions.step import Step, step
    from stepwell.authoring.functions.workflow import Workflow, workflow
    from stepwell.authoring.graphs.errors import NodeError
    from stepwell.authoring.graphs.format.python_builder import GraphBuilder
    from stepwell.authoring.graphs.nodes.join import merger
    from stepwell.authoring.graphs.nodes.steps import NodeResult, node
    from stepwell.authoring.graphs.problems import InvalidGraph
    from stepwell.authoring.graphs.workflow import graph
    from stepwell.authoring.machines.machine import Machine
    from stepwell.authoring.machines.transition import transition
    from stepwell.channels.mail import MailChannel
    from stepwell.channels.webhook import WebhookChannel
    from stepwell.client import Client, RunEvent, RunHandle
    from stepwell.client.rates import StartRate
    from stepwell.domain.documents import Document
    from stepwell.domain.event_schema import event_schema
    from stepwell.domain.limits import Concurrency, Limit
    from stepwell.domain.program import Context, StepContext, SyncContext
    from stepwell.domain.records import Record
    from stepwell.domain.retry import Retry
    from stepwell.domain.state import Checkpoint
    from stepwell.domain.status import Status
    from stepwell.domain.trace import TraceEntry
    from stepwell.domain.triggers.declared import on_event, on_schedule, on_source, on_webhook
    from stepwell.domain.triggers.event_runs import SourceEvent
    from stepwell.engine.stateless import run_stateless
    from stepwell.errors import Permanent, RetryAfter, RunFailed, StepError, StepwellError, WaitTimedOut
    from stepwell.http_client.client import HttpClient, connect
    from stepwell.notifications.settings import Notifications
    from stepwell.server.app import asgi
    from stepwell.settings import Settings
    from stepwell.sync_client import SyncClient, SyncRunHandle

__version__ = "0.1.0"

_WHERE = {
    "Checkpoint": "domain.state",
    "Client": "client",
    "Concurrency": "domain.limits",
    "Context": "domain.program",
    "Document": "domain.documents",
    "Engine": "app",
    "GraphBuilder": "authoring.graphs.format.python_builder",
    "HttpClient": "http_client.client",
    "InvalidGraph": "authoring.graphs.problems",
    "Limit": "domain.limits",
    "Machine": "authoring.machines.machine",
    "MailChannel": "channels.mail",
    "ModelAnswer": "authoring.ask_model",
    "NodeError": "authoring.graphs.errors",
    "NodeResult": "authoring.graphs.nodes.steps",
    "Notifications": "notifications.settings",
    "Permanent": "errors",
    "Record": "domain.records",
    "Retry": "domain.retry",
    "RetryAfter": "errors",
    "RunEvent": "client",
    "RunFailed": "errors",
    "RunHandle": "client",
    "Settings": "settings",
    "Source": "authoring.functions.source",
    "SourceEvent": "domain.triggers.event_runs",
    "StartRate": "client.rates",
    "Status": "domain.status",
    "Step": "authoring.functions.step",
    "StepContext": "domain.program",
    "StepError": "errors",
    "StepwellError": "errors",
    "SyncClient": "sync_client",
    "SyncContext": "domain.program",
    "SyncRunHandle": "sync_client",
    "Tool": "authoring.ask_model",
    "TraceEntry": "domain.trace",
    "WaitTimedOut": "errors",
    "WebhookChannel": "channels.webhook",
    "Workflow": "authoring.functions.workflow",
    "asgi": "server.app",
    "ask_model": "authoring.ask_model",
    "ask_model_sync": "authoring.ask_model",
    "connect": "http_client.client",
    "create_record": "authoring.functions.record_steps",
    "delete_record": "authoring.functions.record_steps",
    "event_schema": "domain.event_schema",
    "find_records": "authoring.functions.record_steps",
    "get_record": "authoring.functions.record_steps",
    "graph": "authoring.graphs.workflow",
    "merger": "authoring.graphs.nodes.join",
    "node": "authoring.graphs.nodes.steps",
    "notify": "authoring.functions.notify",
    "on_event": "domain.triggers.declared",
    "on_schedule": "domain.triggers.declared",
    "on_source": "domain.triggers.declared",
    "on_webhook": "domain.triggers.declared",
    "run_stateless": "engine.stateless",
    "source": "authoring.functions.source",
    "step": "authoring.functions.step",
    "transition": "authoring.machines.transition",
    "update_record": "authoring.functions.record_steps",
    "workflow": "authoring.functions.workflow",
}

# A literal list: type checkers do not read a computed one.
__all__ = [
    "Checkpoint",
    "Client",
    "Concurrency",
    "Context",
    "Document",
    "Engine",
    "GraphBuilder",
    "HttpClient",
    "InvalidGraph",
    "Limit",
    "Machine",
    "MailChannel",
    "ModelAnswer",
    "NodeError",
    "NodeResult",
    "Notifications",
    "Permanent",
    "Record",
    "Retry",
    "RetryAfter",
    "RunEvent",
    "RunFailed",
    "RunHandle",
    "Settings",
    "Source",
    "SourceEvent",
    "StartRate",
    "Status",
    "Step",
    "StepContext",
    "StepError",
    "StepwellError",
    "SyncClient",
    "SyncContext",
    "SyncRunHandle",
    "Tool",
    "TraceEntry",
    "WaitTimedOut",
    "WebhookChannel",
    "Workflow",
    "asgi",
    "ask_model",
    "ask_model_sync",
    "connect",
    "create_record",
    "delete_record",
    "event_schema",
    "find_records",
    "get_record",
    "graph",
    "merger",
    "node",
    "notify",
    "on_event",
    "on_schedule",
    "on_source",
    "on_webhook",
    "run_stateless",
    "source",
    "step",
    "transition",
    "update_record",
    "workflow",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        from importlib import import_module

        value = getattr(import_module(f"stepwell.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'stepwell' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
