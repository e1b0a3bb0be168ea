"""Children: the runs that a run starts, of workflows that this worker has or that only the store knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from stepwell.domain.codec import PLAIN, canonical
from stepwell.domain.commit import DEFAULT_WORKSPACE, Definition, NewRun
from stepwell.domain.events import NULL
from stepwell.domain.ids import DRAFT, RunId, child_run_id, recorded_random
from stepwell.domain.new_run import default_of, new_run
from stepwell.domain.program import RunOptions, Startable
from stepwell.domain.retry import Retry
from stepwell.domain.schema import Schema
from stepwell.domain.steps import StepSpec
from stepwell.errors import InvalidRequest

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation
    from stepwell.store.base import Store

_FIND_RETRY = Retry(10, 0.5, "exponential", 30.0)


def new_child(
    activation: Activation, path: str, workflow: Startable[Any, Any], input: Any, detached: bool
) -> NewRun:
    journal, services = activation.journal, activation.services
    depth = 0 if detached else journal.accepted.depth + 1
    if depth > services.child_depth_max:
        raise InvalidRequest(
            f"children are nested more than {services.child_depth_max} deep",
            hint="start it detached, or raise Settings.child_depth_max",
        )
    # A parent that a person retried gets a new child: the old one has failed for good.
    run_id = child_run_id(activation.run_id, f"{path}@{journal.retries}")
    found = workflow if isinstance(workflow, FoundWorkflow) else None
    return new_run(
        workflow,
        input,
        what="the child's input",
        bytes_max=services.payload_bytes_max,
        run_id=run_id,
        key="",
        seed=f"{recorded_random(journal.seed_now, path):032x}",
        parent="" if detached else activation.run_id,
        parent_path="" if detached else path,
        root=run_id if detached else journal.accepted.root or activation.run_id,
        depth=depth,
        trigger=f"run/{activation.run_id}",
        workspace=found.definition.workspace if found is not None else DEFAULT_WORKSPACE,
        graph=found.graph if found is not None else b"",
    )


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A workflow as it was found, in the log of the run that calls it: later versions do not count."""

    workspace: str
    name: str
    version: str
    kind: str
    hash: str
    options: Raw
    input_schema: Raw
    graph: Raw = NULL  # of a saved graph: the child brings it along, so any worker can run it


class FoundWorkflow:
    """A workflow that another worker has, or a graph that was saved and published."""

    def __init__(self, entry: Entry) -> None:
        self.graph = b"" if bytes(entry.graph) == b"null" else bytes(entry.graph)
        self.definition = Definition(
            workspace=entry.workspace,
            name=entry.name,
            version=entry.version,
            kind=entry.kind,
            hash=entry.hash,
            body=self.graph,
            input_schema=bytes(entry.input_schema),
            options=bytes(entry.options),
        )
        self.options = msgspec.json.decode(entry.options, type=RunOptions)

        self.default_input = default_of(self.definition.input_schema)

    def encode_input(self, input: Any) -> bytes:
        data = PLAIN.encode({} if input is None and self.definition.kind == "graph" else input)
        schema = Schema(self.definition.input_schema.decode())
        schema.check(msgspec.json.decode(data), workflow=self.definition.name)
        return data

    def canonical_input(self, input: Any) -> bytes:
        return canonical(PLAIN, {} if input is None and self.definition.kind == "graph" else input)

    def decode_result(self, data: bytes) -> Any:
        return PLAIN.decode(data)


def finding(store: Store, run_id: RunId) -> StepSpec:
    """A step that looks a workflow up: what it finds is recorded, so a replay calls the same version."""

    async def find(name: str, version: str) -> Any:
        caller = await store.read_run(run_id)
        workspace = DEFAULT_WORKSPACE if caller is None else caller.workspace
        found = await store.read_definition(workspace, name, version)
        if found is None:
            return None
        saved = found.kind == "graph" and await store.read_definition(workspace, DRAFT + name) is not None
        entry = Entry(
            workspace=workspace,
            name=found.name,
            version=found.version,
            kind=found.kind,
            hash=found.hash,
            options=Raw(found.options),
            input_schema=Raw(found.input_schema),
            graph=Raw(found.body) if saved else NULL,
        )
        return msgspec.json.decode(msgspec.json.encode(entry))

    return StepSpec(name="stepwell:find", function=find, is_async=True, retry=_FIND_RETRY)


def found_workflow(result: Any) -> FoundWorkflow | None:
    """What the step found, from the log."""
    entry = msgspec.json.decode(bytes(result), type=Entry | None)
    return None if entry is None else FoundWorkflow(entry)
