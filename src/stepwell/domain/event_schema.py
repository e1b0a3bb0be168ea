"""Event schema: the JSON Schema of every event that a log may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import inspect

from stepwell.domain.event_types import types_of
from stepwell.domain.events import FACTS, KIND

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FIELDS: dict[str, Any] = {
    "run": {"type": "string", "description": "id of the run; absent where only one run is read"},
    "seq": {"type": "integer", "minimum": 1, "description": "its number in the log of the run"},
    "at": {"type": "string", "format": "date-time"},
    "path": {"type": "string", "description": "what it is about; empty: the run itself"},
    "attempt": {"type": "integer", "minimum": 0},
}
_REQUIRED = ["seq", "at", "kind", "type", "path", "attempt", "data"]


def event_schema() -> dict[str, Any]:
    """Return the JSON Schema of all events, as `run.events()`, the server and the command line show them.

    Each kind of fact has a definition named after it; `data` is the fact. Readers must accept fields and
    kinds that are not listed here, because later versions add some.
    """
    definitions: dict[str, Any] = {}
    for fact in FACTS:
        kind = KIND[fact]
        definitions[kind] = {
            "type": "object",
            "description": _summary(fact),
            "properties": {
                **_FIELDS,
                "kind": {"const": kind},
                "type": {"enum": [str(name) for name in types_of(kind)]},
                "data": _object(inspect.type_info(fact), definitions),
            },
            "required": _REQUIRED,
        }
    return {
        "$schema": _DIALECT,
        "title": "Events of Stepwell runs",
        "oneOf": [{"$ref": f"#/$defs/{KIND[fact]}"} for fact in FACTS],
        "$defs": definitions,
    }


def _summary(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n\n")[0].strip()


def _object(struct: inspect.Type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a struct. msgspec's own generator refuses defaults of raw JSON."""
    assert isinstance(struct, inspect.StructType)
    return {
        "type": "object",
        "properties": {
            field.encode_name: _schema(field.type, definitions)
            for field in struct.fields
            if field.encode_name != "starts"  # shown as separate events
        },
        "required": [field.encode_name for field in struct.fields if field.required],
    }


def _schema(kind: inspect.Type, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(kind, inspect.StructType):
        name = kind.cls.__name__
        if name not in definitions:
            definitions[name] = {}  # it may contain itself
            definitions[name] = {"description": _summary(kind.cls), **_object(kind, definitions)}
        return {"$ref": f"#/$defs/{name}"}
    for known, schema in _SCHEMAS.items():
        if isinstance(kind, known):
            return schema(kind, definitions)
    raise AssertionError(f"no schema for {kind}")


_Schema = Callable[[Any, dict[str, Any]], dict[str, Any]]
_SCHEMAS: dict[type[inspect.Type], _Schema] = {
    inspect.StrType: lambda kind, _: {"type": "string"},
    inspect.BoolType: lambda kind, _: {"type": "boolean"},
    inspect.IntType: lambda kind, _: {"type": "integer"},
    inspect.FloatType: lambda kind, _: {"type": "number"},
    inspect.NoneType: lambda kind, _: {"type": "null"},
    inspect.RawType: lambda kind, _: {},
    inspect.AnyType: lambda kind, _: {},
    inspect.LiteralType: lambda kind, _: {"enum": list(kind.values)},
    inspect.ListType: lambda kind, found: {"type": "array", "items": _schema(kind.item_type, found)},
    inspect.DictType: lambda kind, found: {
        "type": "object",
        "additionalProperties": _schema(kind.value_type, found),
    },
    inspect.UnionType: lambda kind, found: {"anyOf": [_schema(one, found) for one in kind.types]},
}
