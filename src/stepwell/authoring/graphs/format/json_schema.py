"""The JSON Schema of graphs, generated from the models that read them."""

from __future__ import annotations

from typing import Any

from pydantic import AliasChoices, BaseModel, ValidationError

from stepwell.authoring.graphs.format.definition import EdgeShape, GraphSettings, GraphTrigger, NodeShape
from stepwell.authoring.graphs.nodes.node_type import NodeType
from stepwell.authoring.graphs.nodes.registry import ALIASES, NodeRegistry

_REF = "#/$defs/{model}"


def graph_schema(registry: NodeRegistry) -> dict[str, Any]:
    """One entry for each node type, discriminated by `type`."""
    defs: dict[str, Any] = {}
    for kind in registry:
        defs[_def_name(kind)] = _node(kind, defs)
    names = {name: _REF.format(model=_def_name(kind)) for kind in registry for name in _names(kind)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "/schema/graph/1",
        "title": "Graph",
        "type": "object",
        "required": ["nodes"],
        "properties": {
            "schemaVersion": {"const": "graph/1"},
            "name": {"type": "string"},
            "title": {"type": "string"},
            "description": {"type": "string"},
            "nodes": {
                "type": "array",
                "minItems": 1,
                "maxItems": 500,
                "items": {
                    "oneOf": [{"$ref": ref} for ref in dict.fromkeys(names.values())],
                    "discriminator": {"propertyName": "type", "mapping": names},
                },
            },
            "edges": {"type": "array", "maxItems": 2000, "items": _part(EdgeShape, "Edge", defs)},
            "triggers": {"type": "array", "items": _part(GraphTrigger, "Trigger", defs)},
            "settings": _part(GraphSettings, "Settings", defs),
        },
        "$defs": defs,
    }


def _names(kind: NodeType) -> list[str]:
    """The names of a node type: its own, and aliases that other editors use."""
    return [kind.name, *(alias for alias, name in ALIASES.items() if name == kind.name)]


def _def_name(kind: NodeType) -> str:
    return "".join(part.capitalize() for part in kind.name.replace(":", "_").split("_")) + "Node"


def _part(model: type[BaseModel], name: str, defs: dict[str, Any]) -> dict[str, Any]:
    schema = model.model_json_schema(by_alias=True, ref_template=_REF)
    defs.update(schema.pop("$defs", {}))
    defs[name] = schema
    return {"$ref": _REF.format(model=name)}


def _node(kind: NodeType, defs: dict[str, Any]) -> dict[str, Any]:
    shape = NodeShape.model_json_schema(by_alias=True, ref_template=_REF)
    defs.update(shape.pop("$defs", {}))
    data = kind.data.model_json_schema(by_alias=True, ref_template=_REF)
    defs.update(data.pop("$defs", {}))
    _other_words(kind.data, data)
    shape["properties"]["type"] = {"enum": _names(kind)}
    shape["properties"]["data"] = data
    shape["required"] = ["id", "type"] + (["data"] if _needs_data(kind) else [])
    shape["title"] = kind.name
    if kind.text:
        shape["description"] = kind.text
    return shape


def _needs_data(kind: NodeType) -> bool:
    try:
        kind.data.model_validate({})
    except ValidationError:
        return True
    return False


def _other_words(model: type[BaseModel], schema: dict[str, Any]) -> None:
    """Add the fields that are read under more than one name; any one of the names is enough."""
    for field in model.model_fields.values():
        if not isinstance(field.validation_alias, AliasChoices):
            continue
        first, *others = (choice for choice in field.validation_alias.choices if isinstance(choice, str))
        for other in others:
            schema["properties"][other] = schema["properties"][first]
        if first in schema.get("required", ()):
            schema["required"] = [name for name in schema["required"] if name != first]
            schema["oneOf"] = [{"required": [name]} for name in (first, *others)]
