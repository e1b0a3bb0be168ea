"""The route table: every address of the server, and who may call it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stepwell.server import (
    bulk,
    graphs,
    health,
    history,
    keys,
    limits,
    links,
    operation,
    rooms,
    run_operations,
    runs,
    search,
    sessions,
    stream,
    views,
    workflows,
)
from stepwell.server.principal import Scope
from stepwell.server.table import Route

API = "/api/v1"
_RUN = f"{API}/runs/{{run_id}}"
_GRAPH = f"{API}/graphs/{{name}}"
_SSE: dict[int, dict[str, Any]] = {
    200: {
        "description": "server-sent events; `data` is an EventView",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}
_FILE: dict[int, dict[str, Any]] = {200: {"content": {"application/json": {"schema": {}}}}}
_EXAMPLE_GRAPH = {
    "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
    "edges": [{"source": "start", "target": "end"}],
}
_HOLD = {"kind": "workflow", "name": "fulfil", "reason": "the payment service is down"}
_WHY = {"reason": "the payment service was down"}
Handler = Callable[..., Awaitable[Any]]


def _anonymous(path: str, handler: Handler, **more: Any) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        scope=None,
        workspace="none",
        audited=False,
        csrf=False,
        tag="server",
        **more,
    )


def _read(path: str, handler: Handler, tag: str, **more: Any) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        scope="read",
        workspace="principal",
        audited=False,
        csrf=False,
        tag=tag,
        **more,
    )


def _change(method: Any, path: str, handler: Handler, scope: Scope, tag: str, **more: Any) -> Route:
    return Route(
        method=method,
        path=path,
        handler=handler,
        scope=scope,
        workspace="principal",
        audited=True,
        csrf=True,
        tag=tag,
        **more,
    )


ANONYMOUS = (
    _anonymous(
        "/", health.launch, answers={200: {"content": {"application/json": {"schema": {}}}}}, errors=(401,)
    ),
    _anonymous("/healthz", health.healthz),
    _anonymous("/readyz", health.readyz),
    # These open their own kind of credential: a key to sign in with, and an approval link.
    Route(
        method="POST",
        path=f"{API}/session",
        handler=sessions.sign_in,
        scope=None,
        workspace="none",
        audited=True,
        csrf=True,
        tag="access",
        status=201,
        errors=(401, 429),
        example={"key": "sw_key_..."},
    ),
    Route(
        method="GET",
        path=f"{API}/approval",
        handler=links.get_approval,
        scope=None,
        workspace="principal",
        audited=False,
        csrf=False,
        tag="access",
        errors=(401, 404, 409, 410, 429),
    ),
    Route(
        method="POST",
        path=f"{API}/approval",
        handler=links.decide_approval,
        scope=None,
        workspace="principal",
        audited=True,
        csrf=True,
        tag="access",
        errors=(401, 404, 409, 410, 429),
        example={"answer": True, "reason": "it is paid"},
    ),
)

RUNS = (
    _change(
        "POST",
        f"{API}/runs",
        runs.start_run,
        "run",
        "runs",
        status=201,
        errors=(404, 409, 429),
        example={"workflow": "fulfil", "input": {"id": 42}},
    ),
    _change(
        "POST",
        f"{API}/runs/batch",
        runs.start_many_runs,
        "run",
        "runs",
        status=201,
        errors=(404, 409, 429),
        example={"workflow": "fulfil", "inputs": [{"id": 42}, {"id": 43}]},
    ),
    _change(
        "POST",
        f"{API}/runs/import",
        runs.import_run,
        "admin",
        "runs",
        status=201,
        errors=(409,),
        raw=True,
        body_max=runs.IMPORT_MAX,
        example={"format": "stepwell-run", "version": 1, "runs": []},
    ),
    _read(f"{API}/runs", search.list_runs, "runs", errors=(422,)),
    _read(f"{API}/counts", search.count_runs, "runs", errors=(422,)),
    _read(f"{API}/waits", search.list_open_waits, "runs", errors=(422,)),
    _read(f"{API}/approvals", search.list_approvals, "runs", errors=(422,)),
    _read(
        _RUN,
        runs.get_run,
        "runs",
        answers={200: {"model": views.RunView}, 304: {"description": "not changed"}},
    ),
    _change("DELETE", _RUN, runs.delete_run, "edit", "runs", status=204, errors=(409,)),
    _read(f"{_RUN}/events", history.list_events, "history"),
    _read(f"{_RUN}/events/{{seq}}", history.get_event, "history"),
    _read(f"{_RUN}/state", history.get_state, "history", errors=(422,)),
    _read(f"{_RUN}/checkpoints", history.list_checkpoints, "history"),
    _read(f"{_RUN}/documents", history.list_documents, "history", errors=(422,)),
    _read(f"{_RUN}/documents/{{name}}", history.get_document, "history", errors=(422,)),
    _read(f"{API}/event-schema", history.get_event_schema, "history"),
    _read(f"{_RUN}/waits", history.list_waits, "history", errors=(409,)),
    _read(f"{_RUN}/steps", history.list_steps, "history", errors=(409,)),
    _read(f"{_RUN}/logs", run_operations.list_log_lines, "history"),
    _read(f"{_RUN}/glance", run_operations.glance_run, "runs"),
    _read(f"{_RUN}/why", history.why_run, "history"),
    _read(f"{_RUN}/overview", history.get_overview, "history"),
    _read(f"{_RUN}/export", runs.export_run, "runs", answers=_FILE),
    _read(
        f"{_RUN}/stream",
        stream.stream_run,
        "live",
        errors=(429,),
        answers={**_SSE, 204: {"description": "ended"}},
    ),
    _read(f"{API}/stream", stream.stream, "live", errors=(404, 429), answers=_SSE),
    Route(
        method="WEBSOCKET",
        path=f"{API}/socket",
        handler=rooms.open_socket,
        scope="read",
        workspace="principal",
        audited=False,
        csrf=True,
        tag="live",
    ),
    _change(
        "POST",
        f"{_RUN}/signal",
        runs.signal_run,
        "run",
        "runs",
        errors=(409, 429),
        example={"name": "paid", "payload": 7},
    ),
    _change(
        "POST",
        f"{_RUN}/event",
        runs.send_event,
        "run",
        "runs",
        errors=(409, 429),
        example={"name": "paid", "key": "order-42", "payload": 7},
    ),
    _change(
        "POST", f"{_RUN}/decide", runs.decide_run, "approve", "runs", errors=(409,), example={"answer": True}
    ),
    _change(
        "POST",
        f"{_RUN}/trigger",
        runs.trigger_run,
        "approve",
        "runs",
        errors=(409,),
        example={"transition": "approve"},
    ),
    _change("POST", f"{_RUN}/hold", run_operations.hold_run, "run", "runs", errors=(409,), example=_WHY),
    _change(
        "POST", f"{_RUN}/release", run_operations.release_run, "run", "runs", errors=(409,), example=_WHY
    ),
    _change(
        "POST",
        f"{_RUN}/skip",
        run_operations.skip_run,
        "run",
        "runs",
        errors=(409,),
        example={"output": None, "path": "0/charge#1", "reason": "the account is closed"},
    ),
    _change("POST", f"{_RUN}/force", run_operations.force_run, "admin", "runs", errors=(409,), example=_WHY),
    _change(
        "POST",
        f"{_RUN}/reassign",
        run_operations.reassign_run,
        "approve",
        "runs",
        errors=(409,),
        example={"assignees": ["ann", "role:finance"]},
    ),
    _change(
        "POST", f"{_RUN}/remind", run_operations.remind_run, "approve", "runs", errors=(409,), example=_WHY
    ),
    _change("POST", f"{_RUN}/cancel", runs.cancel_run, "run", "runs", example={"reason": "ordered twice"}),
    _change("POST", f"{_RUN}/retry", runs.retry_run, "run", "runs", errors=(409,), example=_WHY),
    _change("POST", f"{_RUN}/compensate", runs.compensate_run, "run", "runs", errors=(409,), example=_WHY),
    _change(
        "POST",
        f"{_RUN}/rerun",
        runs.rerun_run,
        "run",
        "runs",
        status=201,
        errors=(409,),
        example={"input": {"id": 43}},
    ),
    _change(
        "POST",
        f"{_RUN}/rerun-from",
        runs.rerun_run_from,
        "run",
        "runs",
        status=201,
        errors=(409,),
        example={"step": "charge"},
    ),
    _change(
        "POST", f"{_RUN}/fork", runs.fork_run, "run", "runs", status=201, errors=(409,), example={"at": 4}
    ),
)

EVENTS = (
    _change(
        "POST",
        f"{API}/events",
        runs.emit_event,
        "run",
        "events",
        example={"name": "paid", "key": "order-42", "payload": 7},
    ),
)

WORKFLOWS = (
    _read(f"{API}/workflows", workflows.list_workflows, "workflows"),
    _read(f"{API}/workflows/{{name}}", workflows.get_workflow, "workflows"),
    _change(
        "POST",
        f"{API}/workflows/{{name}}/enable",
        workflows.enable_workflow,
        "edit",
        "workflows",
        example=_WHY,
    ),
    _change(
        "POST",
        f"{API}/workflows/{{name}}/disable",
        workflows.disable_workflow,
        "edit",
        "workflows",
        example=_WHY,
    ),
    _read(f"{API}/workflows/{{name}}/executions", workflows.list_executions, "workflows", errors=(422,)),
    _read(f"{API}/graphs", workflows.list_graphs, "graphs"),
    _read(f"{API}/graph-schema", workflows.graph_schema, "graphs"),
    _read(f"{API}/node-types", graphs.list_node_types, "graphs"),
    _read(
        f"{API}/workflows/{{name}}/drawing",
        graphs.draw_workflow,
        "workflows",
        answers={200: {"content": {"image/svg+xml": {"schema": {"type": "string"}}, "text/plain": {}}}},
    ),
    _change(
        "POST",
        f"{API}/graphs/test",
        graphs.try_graph,
        "run",
        "graphs",
        status=201,
        errors=(409, 429),
        example={"graph": _EXAMPLE_GRAPH, "input": {"id": 42}},
    ),
    _change(
        "POST",
        f"{API}/graphs",
        workflows.create_graph,
        "edit",
        "graphs",
        status=201,
        errors=(409,),
        example={"name": "hello", "graph": _EXAMPLE_GRAPH},
    ),
    Route(
        method="POST",
        path=f"{API}/graphs/validate",
        handler=workflows.validate_graph,
        scope="read",
        workspace="none",
        audited=False,
        csrf=True,
        tag="graphs",
        example={"graph": _EXAMPLE_GRAPH},
    ),
    _read(_GRAPH, workflows.get_graph, "graphs", errors=(422,)),
    _change(
        "PUT",
        _GRAPH,
        workflows.update_graph,
        "edit",
        "graphs",
        errors=(409,),
        example={"graph": _EXAMPLE_GRAPH},
    ),
    _change("DELETE", _GRAPH, workflows.delete_graph, "edit", "graphs", status=204),
    _change("POST", f"{_GRAPH}/publish", workflows.publish_graph, "edit", "graphs", errors=(409,)),
    _read(f"{_GRAPH}/diff", workflows.diff_graph, "graphs"),
)

ACCESS = (
    _change("PUT", f"{API}/session", sessions.renew_session, "any", "access", errors=(409,)),
    _change("DELETE", f"{API}/session", sessions.sign_out, "any", "access"),
    _change(
        "POST",
        f"{_RUN}/links",
        links.create_link,
        "admin",
        "access",
        status=201,
        errors=(409,),
        example={"assignee": "ana", "expires": "7d"},
    ),
    Route(
        method="GET",
        path=f"{API}/me",
        handler=keys.get_me,
        scope="any",
        workspace="principal",
        audited=False,
        csrf=False,
        tag="access",
    ),
    Route(
        method="GET",
        path=f"{API}/keys",
        handler=keys.list_keys,
        scope="admin",
        workspace="principal",
        audited=False,
        csrf=False,
        tag="access",
        errors=(422,),
    ),
    _change(
        "POST",
        f"{API}/keys",
        keys.create_key,
        "admin",
        "access",
        status=201,
        example={"name": "ci", "scopes": ["read", "run"], "expires": "90d"},
    ),
    _change("DELETE", f"{API}/keys/{{key_id}}", keys.revoke_key, "admin", "access"),
)

_FAILED = {"workflow": "fulfil", "status": ["failed"]}
_BULK = f"{API}/bulk"
BULK = (
    _change(
        "POST", f"{_BULK}/cancel", bulk.bulk_cancel, "run", "bulk", status=202, errors=(409,), example=_FAILED
    ),
    _change(
        "POST", f"{_BULK}/retry", bulk.bulk_retry, "run", "bulk", status=202, errors=(409,), example=_FAILED
    ),
    _change(
        "POST", f"{_BULK}/hold", bulk.bulk_hold, "run", "bulk", status=202, errors=(409,), example=_FAILED
    ),
    _change(
        "POST",
        f"{_BULK}/release",
        bulk.bulk_release,
        "run",
        "bulk",
        status=202,
        errors=(409,),
        example=_FAILED,
    ),
    _change(
        "POST",
        f"{_BULK}/delete",
        bulk.bulk_delete,
        "edit",
        "bulk",
        status=202,
        errors=(409,),
        example=_FAILED,
    ),
    _read(f"{_BULK}/{{job_id}}", bulk.get_bulk_job, "bulk"),
)

OPERATION = (
    _read(f"{API}/about", operation.about, "operation"),
    _read(f"{API}/workers", operation.list_workers, "operation"),
    _read(f"{API}/queues", operation.list_queues, "operation"),
    _read(f"{API}/holds", operation.list_holds, "operation"),
    _change("POST", f"{API}/holds", operation.hold_scope, "admin", "operation", example=_HOLD),
    _change("POST", f"{API}/holds/release", operation.release_scope, "admin", "operation", example=_HOLD),
    Route(
        method="GET",
        path=f"{API}/audit",
        handler=operation.list_audit,
        scope="admin",
        workspace="principal",
        audited=False,
        csrf=False,
        tag="operation",
    ),
)

LIMITS = (
    _read(f"{API}/limits", limits.list_limits, "limits"),
    _change(
        "PUT",
        f"{API}/limits",
        limits.put_limit,
        "admin",
        "limits",
        example={"kind": "workflow", "name": "fulfil", "limit": 10},
    ),
    _change("DELETE", f"{API}/limits", limits.drop_limit, "admin", "limits", errors=(404, 422)),
)
