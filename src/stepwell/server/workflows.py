"""Routes of workflows: their definitions, their runs, and the library of saved graphs."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import Annotated, Any

from fastapi import Header, Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from stepwell.client.library import SavedGraph
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.refusal import Refusal
from stepwell.server.runs import PAGE_MAX, RequestBody, Statuses, WhoBody, page_of

Name = Annotated[str, Path(max_length=200, description="name of a workflow or graph", examples=["fulfil"])]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", description="hash of the draft that was loaded, in double quotes")
]


class WorkflowDetail(views.WorkflowView):
    definition: Any = Field(description="a graph's JSON, a machine's chart or a function's signature")
    description: str
    input_schema: Any
    form: Any = Field(
        description="JSON Schema of the form of a graph's manual trigger; null: a person fills in the input"
    )
    options: Any = Field(description="how its runs are started, unless a start says otherwise")
    versions: list[str]


class GraphView(BaseModel):
    """A saved graph: its draft and its published versions."""

    name: str
    hash: str = Field(description="hash of the draft; send it as If-Match to update or publish")
    versions: list[str]
    changed: bool = Field(description="the draft differs from the last published version")
    by: str
    at: datetime | None
    warnings: list[str]
    graph: dict[str, Any] | None = None


class GraphList(BaseModel):
    graphs: list[GraphView]


class GraphPublished(BaseModel):
    version: str


class GraphProblems(BaseModel):
    valid: bool
    problems: list[dict[str, Any]]
    warnings: list[dict[str, Any]]


class GraphDiff(BaseModel):
    diff: dict[str, Any]


class GraphBody(RequestBody):
    graph: dict[str, Any] = Field(description="nodes and edges")
    name: str = ""


class SaverBody(RequestBody):
    by: str = Field(default="", max_length=500, description="local mode only: who does it")


class NewGraphBody(GraphBody, SaverBody):
    pass


class DraftBody(SaverBody):
    graph: dict[str, Any]


async def list_workflows(request: Request) -> views.WorkflowList:
    """List the workflows by name. Drafts of graphs are under /graphs."""
    infos = await caller_of(request).engine.workflows()
    return views.WorkflowList(workflows=[views.workflow_summary(info) for info in infos])


async def enable_workflow(
    request: Request, name: Name, body: WhoBody | None = None
) -> views.WorkflowSwitched:
    """Accept new runs of a disabled workflow again."""
    caller, who = caller_of(request), body or WhoBody()
    changed = await caller.engine.enable(name, by=caller.who(who.by), reason=who.reason)
    return views.WorkflowSwitched(name=name, enabled=True, changed=changed)


async def disable_workflow(
    request: Request, name: Name, body: WhoBody | None = None
) -> views.WorkflowSwitched:
    """Refuse new runs of a workflow. Its live runs continue."""
    caller, who = caller_of(request), body or WhoBody()
    changed = await caller.engine.disable(name, by=caller.who(who.by), reason=who.reason)
    return views.WorkflowSwitched(name=name, enabled=False, changed=changed)


async def get_workflow(
    request: Request, name: Name, version: Annotated[str, Query(max_length=200)] = ""
) -> WorkflowDetail:
    """Return a workflow: its definition, the schema of its input, and its versions."""
    engine = caller_of(request).engine
    definition = await engine.definition(name, version)
    return WorkflowDetail(
        **views.workflow_view(definition).model_dump(),
        description=definition.description,
        definition=views.shown(definition.body, None, ""),
        input_schema=views.shown(definition.input_schema, None, ""),
        form=views.shown(definition.form, None, ""),
        options=views.shown(definition.options, None, ""),
        versions=[row.version for row in await engine.versions(name)],
    )


class VersionList(BaseModel):
    versions: list[views.WorkflowView]


async def list_versions(request: Request, name: Name) -> VersionList:
    """List the stored versions of a workflow, oldest first."""
    rows = await caller_of(request).engine.versions(name)
    return VersionList(versions=[views.workflow_view(row) for row in rows])


async def list_executions(
    request: Request,
    name: Name,
    status: Statuses = None,
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
) -> views.RunPage:
    """List the runs of a workflow, newest first."""
    return await page_of(request, status or [], cursor, limit, workflow=name)


# Saved graphs


async def list_graphs(
    request: Request,
    nodes: Annotated[bool, Query(description="include nodes and edges of the drafts")] = False,
) -> GraphList:
    """List the saved graphs."""
    library = caller_of(request).engine.library
    if not nodes:
        return GraphList(graphs=[_view(saved) for saved in await library.list()])
    drafts = await library.drafts()
    return GraphList(graphs=[_view(saved).model_copy(update={"graph": graph}) for saved, graph in drafts])


async def create_graph(request: Request, response: Response, body: NewGraphBody) -> GraphView:
    """Save a new graph as a draft."""
    caller = caller_of(request)
    saved = await caller.engine.library.create(body.graph, name=body.name, by=caller.who(body.by))
    response.headers["ETag"] = f'"{saved.hash}"'
    return _view(saved)


async def get_graph(
    request: Request,
    response: Response,
    name: Name,
    version: Annotated[str, Query(max_length=20, description="draft, published or a number")] = "draft",
) -> GraphView:
    """Return a saved graph: its draft or a published version."""
    library = caller_of(request).engine.library
    saved, graph = await library.about(name), await library.get(name, version)
    response.headers["ETag"] = f'"{saved.hash}"'
    return _view(saved).model_copy(update={"graph": graph})


async def update_graph(
    request: Request, response: Response, name: Name, body: DraftBody, if_match: IfMatch = None
) -> GraphView:
    """Replace the draft. 409 if it is not the one that was loaded."""
    caller = caller_of(request)
    saved = await caller.engine.library.update(
        name, body.graph, expected=_hash(if_match), by=caller.who(body.by)
    )
    response.headers["ETag"] = f'"{saved.hash}"'
    return _view(saved)


async def delete_graph(request: Request, name: Name) -> Response:
    """Delete a graph and its versions. Runs that have begun continue."""
    await caller_of(request).engine.library.delete(name)
    return Response(status_code=204)


async def publish_graph(
    request: Request, name: Name, body: SaverBody | None = None, if_match: IfMatch = None
) -> GraphPublished:
    """Make the draft a version. An unchanged draft makes no new one."""
    caller, by = caller_of(request), body.by if body else ""
    version = await caller.engine.library.publish(name, expected=_hash(if_match), by=caller.who(by))
    return GraphPublished(version=version)


async def diff_graph(
    request: Request,
    name: Name,
    old: Annotated[str, Query(max_length=20)] = "published",
    new: Annotated[str, Query(max_length=20)] = "draft",
) -> GraphDiff:
    """Compare two versions of a graph by node and field."""
    return GraphDiff(diff=await caller_of(request).engine.library.diff(name, old, new))


async def validate_graph(request: Request, body: GraphBody) -> GraphProblems:
    """Check a graph without saving it, and list all its problems at once."""
    tools = caller_of(request).engine.graphs

    def check() -> GraphProblems:
        problems = [problem.as_dict() for problem in tools.check(body.graph)]
        warnings = [] if problems else [warning.as_dict() for warning in tools.warnings(body.graph)]
        return GraphProblems(valid=not problems, problems=problems, warnings=warnings)

    return await asyncio.to_thread(check)  # a large graph must not hold up other requests


async def graph_schema(request: Request) -> dict[str, Any]:
    """Return the JSON Schema of graphs with the node types of this server."""
    return caller_of(request).engine.graphs.schema()


def _view(saved: SavedGraph) -> GraphView:
    return GraphView(
        name=saved.name,
        hash=saved.hash,
        versions=list(saved.versions),
        changed=saved.changed,
        by=saved.by,
        at=views.moment(saved.at),
        warnings=list(saved.warnings),
    )


def _hash(if_match: str | None) -> str:
    """Return the hash in an If-Match header; a header that cannot match must not overwrite."""
    if if_match is None or if_match == "*":
        return ""
    match = re.fullmatch(r'"([0-9A-Za-z:_-]{1,200})"', if_match)
    if match is None:
        raise Refusal(
            400, "PARAM_INVALID", "If-Match is not an ETag", hint='send one: "hash"', field="If-Match"
        )
    return match[1]
