"""Routes of graphs besides the library: node types for an editor, drawings, test runs of unsaved graphs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from stepwell.authoring.drawing import drawn
from stepwell.authoring.graphs.nodes.registry import NodeRegistry
from stepwell.server import views
from stepwell.server.caller import caller_of
from stepwell.server.runs import Key, WhoBody, idempotency_key, url_of
from stepwell.server.workflows import Name


class NodeTypeView(BaseModel):
    """A type of node, described for an editor."""

    name: str
    role: str
    text: str = Field(description="one line for a palette")
    custom: bool = Field(description="brought by the engine of this server")
    data: dict[str, Any] = Field(description="JSON Schema of the node's data")


class NodeTypeList(BaseModel):
    types: list[NodeTypeView]


class TryBody(WhoBody):
    graph: dict[str, Any]
    input: Any = None


async def list_node_types(request: Request) -> NodeTypeList:
    """List the node types of this server, with the JSON Schema of their data."""
    state, registry = request.app.state, caller_of(request).engine.graphs.registry
    if state.node_types is None or len(state.node_types.types) != len(registry.names):
        state.node_types = _node_types(registry)  # the same for everybody, and it takes a while
    types: NodeTypeList = state.node_types
    return types


def _node_types(registry: NodeRegistry) -> NodeTypeList:
    return NodeTypeList(
        types=[
            NodeTypeView(
                name=kind.name,
                role=str(kind.role),
                text=kind.text,
                custom=not kind.data.__module__.startswith("stepwell."),
                data=kind.data.model_json_schema(),
            )
            for kind in registry
        ]
    )


async def draw_workflow(
    request: Request,
    name: Name,
    version: Annotated[str, Query(max_length=200)] = "",
    format: Annotated[Literal["svg", "mermaid"], Query()] = "svg",
) -> Response:
    """Draw a graph or a machine, from its stored definition."""
    definition = await caller_of(request).engine.definition(name, version)
    text = drawn(definition, format)
    if format == "mermaid":
        return Response(text, media_type="text/plain")
    # An image, never a page: what a graph names must not run in a browser.
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
    return Response(text, media_type="image/svg+xml", headers=headers)


async def try_graph(request: Request, body: TryBody, key: Key = None) -> views.RunStarted:
    """Start a test run of an unsaved graph. Its pinned data is used."""
    caller = caller_of(request)
    run = await caller.engine.start_graph(
        body.graph,
        body.input,
        test=True,
        key=idempotency_key(key, ""),
        by=caller.who(body.by),
        trigger="api",
    )
    return views.RunStarted(id=run.id, url=url_of(request, run))
