"""New run: build the run that a store keeps from a workflow and its encoded input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain.codec import digest, limited
from stepwell.domain.commit import DEFAULT_WORKSPACE, Definition, NewRun
from stepwell.domain.events import NULL, Accepted
from stepwell.domain.hops import hops_here
from stepwell.domain.ids import NEEDS_GRAPH, RunId, needs_workflow
from stepwell.domain.lanes import lane_of
from stepwell.domain.limits import Concurrency
from stepwell.domain.program import RunOptions, Startable, needs_of
from stepwell.errors import InvalidDefinition, excerpt

EncodedInput = tuple[bytes, bytes]


class _NoInput:
    def __repr__(self) -> str:
        return "NO_INPUT"


NO_INPUT: Any = _NoInput()  # a start without input uses the default of the workflow's parameter, or None


def input_or_default(workflow: object, input: Any) -> Any:
    return getattr(workflow, "default_input", None) if input is NO_INPUT else input


def default_of(schema: bytes) -> Any:
    """The default input of a stored definition; None if it has none."""
    content = msgspec.json.decode(schema)
    return content.get("default") if isinstance(content, dict) else None


def encoded_input(workflow: Startable[Any, Any], input: Any) -> EncodedInput:
    """The input as the run stores it, and as its digest is computed: without the order of dicts."""
    input = input_or_default(workflow, input)
    data = workflow.encode_input(input)
    canonical: Callable[[Any], bytes] | None = getattr(workflow, "canonical_input", None)
    if canonical is None or (b"{" not in data and b"[" not in data):
        return data, data
    return data, canonical(input)


def needs_of_run(accepted: Accepted) -> str:
    """What a worker must have to take a run that was accepted like this."""
    if bytes(accepted.graph) != b"null":
        return NEEDS_GRAPH
    return needs_workflow(accepted.workflow, accepted.version)


def startable(workflow: object, version: str = "") -> None:
    """Raise InvalidDefinition if it cannot be started: a plain function, a step, some other object."""
    definition = getattr(workflow, "definition", None)
    if not isinstance(definition, Definition):
        hint = "decorate the function with @workflow and pass it without calling it"
        if getattr(workflow, "spec", None) is not None:
            hint = "it is a step: await ctx.step(it, ...) in a workflow"
        raise InvalidDefinition(f"{excerpt(workflow)} is not a workflow", hint=hint)
    if version not in ("", definition.version):
        raise InvalidDefinition(
            f"{excerpt(workflow)} is not version {excerpt(version)}",
            hint=f"start it by its name: start({excerpt(definition.name)}, ...)",
        )


def new_run(
    workflow: Startable[Any, Any],
    input: Any,
    *,
    run_id: RunId,
    key: str,
    seed: str,
    what: str,
    bytes_max: int,
    **details: Any,
) -> NewRun:
    """A run of this workflow with the options of its definition; PayloadTooLarge names `what`."""
    data, canonical = encoded_input(workflow, input)
    return new_run_of(
        workflow.definition,
        workflow.options,
        limited(data, what, bytes_max),
        canonical=canonical,
        run_id=run_id,
        key=key,
        seed=seed,
        **details,
    )


def new_run_of(
    definition: Definition,
    options: RunOptions,
    input: bytes,
    *,
    canonical: bytes,
    run_id: RunId,
    key: str,
    seed: str,
    parent: str = "",
    parent_path: str = "",
    root: str = "",
    depth: int = 0,
    queue: str = "",
    priority: int | None = None,
    delay: float = 0.0,
    timeout: float | None = None,
    tags: dict[str, str] | None = None,
    trigger: str = "",
    workspace: str = DEFAULT_WORKSPACE,
    test: bool = False,
    graph: bytes = b"",
    concurrency: Concurrency | None = None,
    by: str = "",
) -> NewRun:
    queue = queue or options.queue
    accepted = Accepted(
        workflow=definition.name,
        version=definition.version,
        kind=definition.kind,
        input=Raw(input),
        seed=seed,
        timeout=options.timeout if timeout is None else timeout,
        parent=parent,
        parent_path=parent_path,
        root=root or run_id,
        depth=depth,
        key=key,
        queue=queue,
        test=test,
        graph=Raw(graph) if graph else NULL,
        workspace=workspace,
        trigger=trigger,
        by=by,
        hops=hops_here.get(),
    )
    return NewRun(
        id=run_id,
        workspace=workspace,
        workflow=definition.name,
        version=definition.version,
        kind=definition.kind,
        hash=definition.hash,
        queue=queue,
        needs=NEEDS_GRAPH if graph else needs_of(definition),
        priority=options.priority if priority is None else priority,
        delay=delay,
        key=key,
        digest=digest(definition.name.encode() + b"\0" + canonical),  # a key is for one workflow and input
        input=input,
        accepted=msgspec.json.encode(accepted),
        parent=parent,
        parent_path=parent_path,
        root=root or run_id,
        tags=msgspec.json.encode(tags or {}),
        trigger=trigger,
        started_by=by,
        test=test,
        lane=lane_of(definition, options, queue, workspace, concurrency, child=bool(parent), test=test),
    )
