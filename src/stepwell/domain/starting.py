"""Starting: from a workflow and an encoded input to the run that a store keeps."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain.codec import digest
from stepwell.domain.commit import DEFAULT_WORKSPACE, Definition, NewRun
from stepwell.domain.events import Accepted
from stepwell.domain.fact import NULL
from stepwell.domain.ids import NEEDS_GRAPH, RunId, needs_workflow
from stepwell.domain.limits import Concurrency, lane_of
from stepwell.domain.program import RunOptions, Startable, needs_of
from stepwell.errors import InvalidDefinition
from stepwell.errors.excerpt import excerpt


def needs_of_run(accepted: Accepted) -> str:
    """What a worker must have to take a run that began like this."""
    if bytes(accepted.graph) != b"null":
        return NEEDS_GRAPH
    return needs_workflow(accepted.workflow, accepted.version)


def startable(workflow: object, version: str = "") -> None:
    """InvalidDefinition when that cannot be started: a plain function, a step, an object of another kind."""
    definition = getattr(workflow, "definition", None)
    if not isinstance(definition, Definition):
        hint = "decorate the function with @workflow and give it here, without calling it"
        if getattr(workflow, "spec", None) is not None:
            hint = "it is a step: await ctx.step(it, ...) in a workflow"
        raise InvalidDefinition(f"{excerpt(workflow)} is no workflow", hint=hint)
    if version not in ("", definition.version):
        raise InvalidDefinition(
            f"{excerpt(workflow)} is not version {excerpt(version)}",
            hint=f"start it by its name: start({excerpt(definition.name)}, ...)",
        )


def new_run(
    workflow: Startable[Any, Any],
    input: bytes,
    *,
    run_id: RunId,
    key: str,
    seed: str,
    **details: Any,
) -> NewRun:
    """A run of this workflow with the options of its definition."""
    return new_run_of(
        workflow.definition, workflow.options, input, run_id=run_id, key=key, seed=seed, **details
    )


def new_run_of(
    definition: Definition,
    options: RunOptions,
    input: bytes,
    *,
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
) -> NewRun:
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
        queue=queue or options.queue,
        test=test,
        graph=Raw(graph) if graph else NULL,
    )
    return NewRun(
        id=run_id,
        workspace=workspace,
        workflow=definition.name,
        version=definition.version,
        kind=definition.kind,
        hash=definition.hash,
        queue=queue or options.queue,
        needs=NEEDS_GRAPH if graph else needs_of(definition),
        priority=options.priority if priority is None else priority,
        delay=delay,
        key=key,
        digest=digest(definition.name.encode() + b"\0" + input),  # a key is for one workflow and input
        input=input,
        accepted=msgspec.json.encode(accepted),
        parent=parent,
        parent_path=parent_path,
        root=root or run_id,
        tags=msgspec.json.encode(tags or {}),
        trigger=trigger,
        test=test,
        lane=lane_of(
            definition,
            options,
            queue or options.queue,
            workspace,
            concurrency,
            child=bool(parent),
        ),
    )
