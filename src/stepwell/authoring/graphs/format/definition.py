"""The JSON of a graph: React Flow's nodes and edges. Everything meaningful lives in `data`.

Canvas fields (width, selected, style ...) are accepted and ignored. `read` reports all problems of the
shape at once and never raises for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from stepwell.authoring.graphs.format.validation_messages import fields_of, shape_problems
from stepwell.authoring.graphs.nodes.node_data import (
    WHOLE,
    Identifier,
    Milliseconds,
    NodeData,
    Strict,
    Timeout,
)
from stepwell.authoring.graphs.nodes.node_type import NodeType
from stepwell.authoring.graphs.nodes.registry import ALIASES, NodeRegistry
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.domain.suggest import did_you_mean_one_of
from stepwell.errors import excerpt

SCHEMA_VERSION = "graph/1"
_HANDLE_ALIASES = {"source": "out", "onError": "error", "fail": "error", "fail-branch": "error"}


class Canvas(BaseModel):
    """Shapes that a canvas adds fields to: unknown ones are ignored."""

    model_config = ConfigDict(
        extra="ignore", strict=True, alias_generator=to_camel, populate_by_name=True, frozen=True
    )


class Position(Canvas):
    x: float = 0
    y: float = 0


# Every JavaScript object has these properties: an editor that keeps nodes by id would confuse them.
_RESERVED = ("__proto__", "constructor", "prototype")


def _free(name: str) -> str:
    if name in _RESERVED:
        raise ValueError(f"{excerpt(name)} is a property of every JavaScript object: choose another id")
    return name


NodeId = Annotated[
    Identifier, AfterValidator(_free), Field(json_schema_extra={"not": {"enum": list(_RESERVED)}})
]


class NodeShape(Canvas):
    id: NodeId
    type: str
    position: Position = Position()
    parent_id: Identifier | None = None
    data: dict[str, Any] = Field(default_factory=dict)


class EdgeShape(Canvas):
    id: str = ""
    source: Identifier
    target: Identifier
    source_handle: str | None = None
    target_handle: str | None = None
    label: str | None = None


class GraphTrigger(Strict):
    """What starts a published graph by itself; `manual` is the form of a person who starts it."""

    id: Annotated[Identifier, Field(description="Its name in the graph.")]
    type: Annotated[
        Literal["manual", "webhook", "schedule", "event", "source"],
        Field(description="Who or what starts runs: a person, a request, the time, an event or a source."),
    ]
    input: Annotated[
        Any, Field(description="The input of the run; its texts may have {{trigger.body.order}}.")
    ] = Field(default_factory=dict)
    form: Annotated[
        dict[str, Any] | None,
        Field(description="Of manual: a JSON Schema of what the person fills in."),
    ] = None
    path: Annotated[
        str | None,
        Field(description="Of webhook: how its address begins; a part that cannot be guessed follows."),
    ] = None
    auth: Annotated[
        Literal["none", "hmac", "standard", "bearer", "basic"] | None,
        Field(
            description="Of webhook: how a sender shows that it has the secret; with one, signed requests."
        ),
    ] = None
    credential: Annotated[
        str | None, Field(description="Of webhook: the name of the secret that the sender has.")
    ] = None
    header: Annotated[
        str,
        Field(
            description="Of webhook with hmac: the header of the signature; without it, Standard Webhooks."
        ),
    ] = ""
    id_header: Annotated[str, Field(description="Of webhook: the header of the delivery id.")] = ""
    reply: Annotated[
        Literal["accepted", "result"],
        Field(description="Of webhook: what a sender gets, that it was accepted or the result of the run."),
    ] = "accepted"
    wait_ms: Annotated[
        Milliseconds | None, Field(description="Of webhook: how long a sender waits for the result.")
    ] = None
    cron: Annotated[
        str | None,
        Field(description="Of schedule: minute, hour, day of the month, month, day of the week."),
    ] = None
    every_ms: Annotated[
        Milliseconds | None,
        Field(description="Of schedule and source: the time between two starts, or two looks."),
    ] = None
    timezone: Annotated[str, Field(description="Of schedule: an IANA name such as Europe/Berlin.")] = "UTC"
    overlap: Annotated[
        Literal["queue", "skip", "allow"],
        Field(description="Of schedule: what it does while its last run has not ended."),
    ] = "queue"
    missed: Annotated[
        Literal["one", "skip", "all"],
        Field(description="Of schedule: what becomes of times at which no worker was there."),
    ] = "one"
    spread_ms: Annotated[
        Milliseconds | None,
        Field(description="Of schedule: by how much its starts are delayed, always the same."),
    ] = None
    event: Annotated[str | None, Field(description="Of event: the name of a broadcast event.")] = None
    key: Annotated[str, Field(description="Of event: only events of this key.")] = ""
    condition: Annotated[
        str, Field(description="Of event: an expression such as trigger.payload.amount > 100.")
    ] = ""
    source: Annotated[str | None, Field(description="Of source: a type of source of the program.")] = None
    config: Annotated[Any, Field(description="Of source: its configuration.")] = None


class GraphSettings(Strict):
    """Limits of the runs of a graph."""

    max_execution_ms: Annotated[
        Timeout | None,
        Field(description="How long a run may take, not counting waits; null: no limit."),
    ] = 1_800_000
    suspend_ttl_ms: Annotated[
        Milliseconds | None, Field(description="The timeout of waits that have none of their own.")
    ] = 86_400_000
    concurrency: Annotated[
        Annotated[int, Field(ge=1), WHOLE] | None,
        Field(description="How many nodes of a run may work at the same time."),
    ] = 10
    max_steps: Annotated[
        int, Field(ge=1, description="How many nodes may run, not counting those in loops."), WHOLE
    ] = 1000
    max_nodes: Annotated[
        int, Field(ge=1, le=500, description="How many nodes the graph may have."), WHOLE
    ] = 100
    error_workflow: Annotated[
        str | None, Field(description="The workflow that starts when a run of this graph fails.")
    ] = None


class GraphTimeouts(NamedTuple):
    """The timeouts of graphs that do not set them, in seconds; None: none."""

    run: float | None = 1800.0
    wait: float | None = 86_400.0

    def applied(self, settings: GraphSettings) -> GraphSettings:
        chosen = {"max_execution_ms": self.run, "suspend_ttl_ms": self.wait}
        update = {
            name: None if seconds is None else round(seconds * 1000)
            for name, seconds in chosen.items()
            if name not in settings.model_fields_set
        }
        return settings.model_copy(update=update)


class GraphShape(Canvas):
    schema_version: Literal["graph/1"] = "graph/1"
    id: str | None = None
    name: str = ""
    nodes: list[Any] = Field(default_factory=list)
    edges: list[Any] = Field(default_factory=list)
    triggers: list[GraphTrigger] = Field(default_factory=list)
    settings: GraphSettings = GraphSettings()
    title: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    id: str
    type: NodeType
    data: NodeData
    parent: str = ""
    position: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Edge:
    id: str
    source: str
    target: str
    handle: str = "out"
    label: str = ""


@dataclass(slots=True)
class GraphDefinition:
    """A graph as it was read: shapes and types are valid, its structure is not checked yet."""

    name: str = ""
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    triggers: list[GraphTrigger] = field(default_factory=list)
    settings: GraphSettings = field(default_factory=GraphSettings)
    unread: dict[str, str] = field(default_factory=dict)  # nodes that have problems, and their parents
    edges_unread: bool = False
    title: str = ""
    description: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The graph as JSON again, in its normal form: equal graphs give equal JSON."""
        body: dict[str, Any] = {"schemaVersion": SCHEMA_VERSION, "name": self.name}
        texts = {"title": self.title, "description": self.description}
        body |= {name: text for name, text in texts.items() if text}
        body["nodes"] = [_node_json(node) for node in self.nodes]
        body["edges"] = [
            {"id": e.id, "source": e.source, "sourceHandle": e.handle, "target": e.target}
            | ({"label": e.label} if e.label else {})
            for e in self.edges
        ]
        if self.triggers:
            body["triggers"] = [_dumped(trigger) for trigger in self.triggers]
        settings = _dumped(self.settings)
        if settings:
            body["settings"] = settings
        return body


def _dumped(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(by_alias=True, exclude_unset=True, mode="json")


def _node_json(node: Node) -> dict[str, Any]:
    body: dict[str, Any] = {"id": node.id, "type": node.type.name}
    if node.parent:
        body["parentId"] = node.parent
    body["position"] = {"x": node.position[0], "y": node.position[1]}
    body["data"] = _dumped(node.data)
    return body


def read(body: Any, registry: NodeRegistry) -> tuple[GraphDefinition | None, list[GraphProblem]]:
    """The graph, as far as it can be read, and all problems of its shape."""
    problems: list[GraphProblem] = []
    shape = _read_graph(body, problems)
    if shape is None:
        return None, problems
    definition = GraphDefinition(
        name=shape.name,
        triggers=list(shape.triggers),
        settings=shape.settings,
        title=shape.title,
        description=shape.description,
    )
    for i, raw in enumerate(shape.nodes):
        node = _read_node(raw, i, registry, problems)
        if node is not None:
            definition.nodes.append(node)
        elif isinstance(raw, dict):
            definition.unread[str(raw.get("id", ""))] = str(raw.get("parentId") or "")
    kinds = {node.id: node.type.name for node in definition.nodes}
    unread = tuple(definition.unread)
    branches = {node.id: node.type.handles(node.data) for node in definition.nodes}
    for i, raw in enumerate(shape.edges):
        wrong: list[GraphProblem] = []
        edge = _read_edge(raw, i, wrong, kinds, branches)
        # A reserved id is reported once, at its node.
        ends = ("source", "target")
        problems += [p for p in wrong if p.field not in ends or raw.get(p.field) not in unread]
        if edge is not None:
            definition.edges.append(edge)
        else:
            definition.edges_unread = True
    return definition, problems


def _read_graph(body: Any, problems: list[GraphProblem]) -> GraphShape | None:
    """The graph without its nodes and edges; a wrong setting does not hide their problems."""
    try:
        return GraphShape.model_validate(body)
    except ValidationError as error:
        shape = shape_problems(error, "INVALID_GRAPH", body, names=fields_of(GraphSettings), depth=2)
        problems.extend(_of_trigger(problem, body) for problem in shape)
        wrong = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
    if not wrong or wrong & {"nodes", "edges"}:
        return None
    return GraphShape.model_validate({name: value for name, value in body.items() if name not in wrong})


def _of_trigger(problem: GraphProblem, body: Any) -> GraphProblem:
    """Name the trigger that a problem of the whole graph is about, if there is one with a name."""
    first, _, rest = problem.field.partition(".")
    index, _, field = rest.partition(".")
    if first != "triggers" or not index.isdigit() or not isinstance(body["triggers"][int(index)], dict):
        return problem
    id = body["triggers"][int(index)].get("id")
    if not isinstance(id, str) or not id or field in ("", "id"):
        return problem
    code = "INVALID_TRIGGER" if problem.code == "INVALID_GRAPH" else problem.code
    known, hint = fields_of(GraphTrigger), problem.suggestion
    if "." not in field and field not in known:
        hint = did_you_mean_one_of(field, known)
    return replace(problem, code=code, node=id, field=f"triggers.{id}.{field}", suggestion=hint)


def _read_node(raw: Any, index: int, registry: NodeRegistry, problems: list[GraphProblem]) -> Node | None:
    try:
        shape = NodeShape.model_validate(raw)
    except ValidationError as error:
        named = str(raw.get("id", "")) if isinstance(raw, dict) else ""
        for problem in shape_problems(error, "INVALID_NODE", raw, node=named or f"nodes.{index}"):
            problems.append(replace(problem, code="NODE_ID_INVALID") if problem.field == "id" else problem)
        return None
    kind = registry.get(ALIASES.get(shape.type, shape.type))
    if kind is None:
        problems.append(
            GraphProblem(
                code="NODE_TYPE",
                message=f"there is no node type {excerpt(shape.type)}",
                node=shape.id,
                field="type",
                suggestion=did_you_mean_one_of(shape.type, registry.names),
            )
        )
        return None
    try:
        data = kind.data.model_validate(shape.data)
    except ValidationError as error:
        problems.extend(
            shape_problems(error, "INVALID_DATA", shape.data, node=shape.id, names=fields_of(kind.data))
        )
        return None
    return Node(shape.id, kind, data, shape.parent_id or "", (shape.position.x, shape.position.y))


def _read_edge(
    raw: Any,
    index: int,
    problems: list[GraphProblem],
    kinds: dict[str, str],
    branches: dict[str, frozenset[str]],
) -> Edge | None:
    try:
        shape = EdgeShape.model_validate(raw)
    except ValidationError as error:
        named = str(raw.get("id", "")) if isinstance(raw, dict) else ""
        problems.extend(shape_problems(error, "INVALID_EDGE", raw, edge=named or f"edges.{index}"))
        return None
    handle = shape.source_handle or "out"
    kind = kinds.get(shape.source, "")
    if handle not in branches.get(shape.source, frozenset()):
        handle = _HANDLE_ALIASES.get(handle, handle)
        if handle == "false" and kind == "condition":
            handle = "else"
        if handle == "done" and kind == "loop":
            handle = "out"
    return Edge(shape.id or f"e{index + 1}", shape.source, shape.target, handle, shape.label or "")
