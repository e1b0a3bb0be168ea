"""The `records` node: creates, finds, reads, changes or deletes records of the workspace."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from stepwell.authoring.graphs.errors import NodeConfigError
from stepwell.authoring.graphs.nodes.node_data import WHOLE, NodeData, Source, field_error
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.retry import DEFAULT
from stepwell.authoring.graphs.nodes.steps import outcome_of, provided_step
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.domain.records import FIND_MAX, PAGE_MAX
from stepwell.errors import excerpt

NAME = "node:records"
RECORD_SECONDS = 30.0
CollectionName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]

# The required and the optional fields of each action, besides the collection.
_NEEDS: dict[str, tuple[str, ...]] = {"create": ("data",), "update": ("data",)}
_TAKES: dict[str, tuple[str, ...]] = {
    "create": ("data", "id"),
    "find": ("where", "limit", "before"),
    "get": ("id", "key", "optional"),
    "update": ("data", "id", "key", "version", "whole"),
    "delete": ("id", "key", "version"),
}
_FIELDS = ("data", "id", "key", "version", "whole", "where", "limit", "before", "optional")


class RecordsData(NodeData):
    """An action on the records of a collection."""

    action: Annotated[
        Literal["create", "find", "get", "update", "delete"],
        Field(
            description="What the node does. A change is part of the commit of the node, so it happens once."
        ),
    ]
    collection: Annotated[CollectionName, Field(description="The name of a collection of the workspace.")]
    data: Annotated[
        dict[str, Any] | Source | None,
        Field(description="The fields of the record; values may have {{ }}. For create and update."),
    ] = None
    id: Annotated[
        Source | None, Field(description="The id of the record; may have {{ }}. For create it is optional.")
    ] = None
    key: Annotated[Any, Field(description="Instead of the id: the value of the collection's key field.")] = (
        None
    )
    version: Annotated[
        int | Source | None,
        Field(description="Change only this version of the record; otherwise RECORD_CHANGED."),
    ] = None
    whole: Annotated[
        bool, Field(description="For update: the record has the fields of data, and no others.")
    ] = False
    where: Annotated[
        dict[str, Any] | None,
        Field(max_length=FIND_MAX, description="For find: indexed fields and their values; may have {{ }}."),
    ] = None
    limit: Annotated[
        int, Field(ge=1, le=PAGE_MAX, description="The most records that find returns."), WHOLE
    ] = 100
    before: Annotated[
        Source | None, Field(description="For find: the `next` of the previous page; may have {{ }}.")
    ] = None
    optional: Annotated[
        bool, Field(description="For get: null instead of an error if there is no such record.")
    ] = False

    @model_validator(mode="after")
    def _fits_action(self) -> RecordsData:
        given = [
            name for name in _FIELDS if name in self.model_fields_set and getattr(self, name) is not None
        ]
        taken = _TAKES[self.action]
        for name in _NEEDS.get(self.action, ()):
            if name not in given:
                raise field_error(name, f"action {self.action} needs {name}", f"add {name}")
        for name in given:
            if name not in taken:
                message = f"action {self.action} takes no {name}"
                raise field_error(name, message, f"remove it; {self.action} takes {', '.join(taken)}")
        if self.action in ("get", "update", "delete") and ("id" in given) == ("key" in given):
            raise field_error("id", f"action {self.action} needs either id or key", "give one of the two")
        return self


class RecordsWork:
    """One action, built from the node's templates."""

    def __init__(self, data: RecordsData, compiler: NodeCompiler) -> None:
        self._data = data
        self._templates = {
            name: compiler.template(getattr(data, name), name)
            for name in ("data", "id", "key", "version", "where", "before")
            if getattr(data, name) is not None
        }
        if data.queue:
            compiler.problem(
                "INVALID_DATA",
                "records change in the commit of their node, so on no other queue",
                "queue",
                "remove queue",
            )
        self.spec = provided_step(NAME, data, retry=DEFAULT, seconds=data.timeout_seconds(RECORD_SECONDS))

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = {name: template.render(scope, now) for name, template in self._templates.items()}
        for name in ("id", "before"):
            if name in given and not isinstance(given[name], str):
                raise NodeConfigError(f"{name} is {excerpt(given[name])}, not text", code="RECORD_ARGUMENTS")
        if given.get("key", "") is None:
            raise NodeConfigError("the key is null", code="RECORD_ARGUMENTS", hint="check the expression")
        version = given.get("version", 0)
        if isinstance(version, bool) or not isinstance(version, int):
            raise NodeConfigError(
                f"version is {excerpt(version)}, not a whole number",
                code="RECORD_ARGUMENTS",
                hint="give the version of a record that was read: {{ customer.version }}",
            )
        data = self._data
        action = {"action": data.action, "collection": data.collection, **given}
        if data.action == "find":
            action["limit"] = data.limit
        if data.action == "update":
            action["whole"] = data.whole
        if data.action == "get":
            action["optional"] = data.optional
        return (action,), {}

    outcome = staticmethod(outcome_of)


RECORDS = NodeType(
    name="records",
    data=RecordsData,
    role=Role.WORK,
    compile=RecordsWork,
    text="reads and changes records of the workspace",
)
