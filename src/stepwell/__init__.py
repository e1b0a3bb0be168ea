"""Stepwell: durable workflows in Python.

Public names only. Each is loaded on first use, so that `import stepwell` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.app import Engine
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
    from stepwell.client import Client, RunEvent, RunHandle
    from stepwell.client.rates import StartRate
    from stepwell.domain.documents import Document
    from stepwell.domain.event_schema import event_schema
    from stepwell.domain.limits import Concurrency, Limit
    from stepwell.domain.program import Context, StepContext, SyncContext
    from stepwell.domain.retry import Retry
    from stepwell.domain.state import Checkpoint
    from stepwell.domain.status import Status
    from stepwell.domain.trace import TraceEntry
    from stepwell.engine.stateless import run_stateless
    from stepwell.errors import Permanent, RetryAfter, RunFailed, StepError, StepwellError, WaitTimedOut
    from stepwell.http_client.client import HttpClient, connect
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
    "NodeError": "authoring.graphs.errors",
    "NodeResult": "authoring.graphs.nodes.steps",
    "Permanent": "errors",
    "Retry": "domain.retry",
    "RetryAfter": "errors",
    "RunEvent": "client",
    "RunFailed": "errors",
    "RunHandle": "client",
    "Settings": "settings",
    "StartRate": "client.rates",
    "Status": "domain.status",
    "Step": "authoring.functions.step",
    "StepContext": "domain.program",
    "StepError": "errors",
    "StepwellError": "errors",
    "SyncClient": "sync_client",
    "SyncContext": "domain.program",
    "SyncRunHandle": "sync_client",
    "TraceEntry": "domain.trace",
    "WaitTimedOut": "errors",
    "Workflow": "authoring.functions.workflow",
    "asgi": "server.app",
    "connect": "http_client.client",
    "event_schema": "domain.event_schema",
    "graph": "authoring.graphs.workflow",
    "merger": "authoring.graphs.nodes.join",
    "node": "authoring.graphs.nodes.steps",
    "run_stateless": "engine.stateless",
    "step": "authoring.functions.step",
    "transition": "authoring.machines.transition",
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
    "NodeError",
    "NodeResult",
    "Permanent",
    "Retry",
    "RetryAfter",
    "RunEvent",
    "RunFailed",
    "RunHandle",
    "Settings",
    "StartRate",
    "Status",
    "Step",
    "StepContext",
    "StepError",
    "StepwellError",
    "SyncClient",
    "SyncContext",
    "SyncRunHandle",
    "TraceEntry",
    "WaitTimedOut",
    "Workflow",
    "asgi",
    "connect",
    "event_schema",
    "graph",
    "merger",
    "node",
    "run_stateless",
    "step",
    "transition",
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
