"""The HTTP reference: every route with its scope, parameters, body and answers, from the OpenAPI document."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from stepwell import Engine
from stepwell.server.app import TAGS, asgi
from stepwell.store.memory import MemoryStore

Schema = dict[str, Any]
# Every route may answer with these; the error page explains them.
_COMMON = {"400", "401", "403", "408", "413", "415", "422", "429", "500", "503"}


def page() -> str:
    document = asgi(Engine(MemoryStore(time.time), worker=False)).openapi()
    lines = [
        "# HTTP reference",
        "",
        "Every route of [the server](../server.md), from its OpenAPI document at `/api/v1/openapi.json`.",
        "Errors are problem+json with a `code`; [errors](../errors.md) lists them. Any route may answer 400,",
        "401, 403, 422, 429 and 503; others are named with the route.",
        "",
    ]
    for tag in TAGS:
        routes = list(_routes(document, tag["name"]))
        if routes:
            lines += [f"## {tag['name'].capitalize()}", "", tag["description"], ""]
            for method, path, operation in routes:
                lines += _route(method, path, operation)
    lines += ["## Schemas", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += _schema(name, schema)
    return "\n".join(lines).rstrip() + "\n"


def _routes(document: Schema, tag: str) -> Iterator[tuple[str, str, Schema]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation.get("tags", ()):
                yield method.upper(), path, operation


def _route(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield from (f"### {method} {path}", "")
    scope = operation.get("x-stepwell-scope")
    yield from (str(operation.get("description", operation["summary"])), "")
    yield from (f"Scope: {f'`{scope}`' if scope else 'none; anybody may call it'}.", "")
    named = [parameter for parameter in operation.get("parameters", ()) if parameter["in"] != "path"]
    if named:
        yield from ("| parameter | in | type | |", "|---|---|---|---|")
        for parameter in named:
            told = parameter.get("description", "")
            kind = _type(parameter["schema"])
            yield f"| `{parameter['name']}` | {parameter['in']} | {kind} | {_cell(told)} |"
        yield ""
    yield from _body(operation)
    yield from _answers(operation)


def _body(operation: Schema) -> Iterator[str]:
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        shown = _type(content.get("schema", {}))
        yield from (f"Body: `{kind}`{f', {shown}' if shown else ''}.", "")
        if "example" in content:
            text = msgspec.json.format(msgspec.json.encode(content["example"]), indent=2).decode()
            yield from ("```json", text, "```", "")


def _answers(operation: Schema) -> Iterator[str]:
    told = []
    for status, answer in operation["responses"].items():
        shown = [_type(content.get("schema", {})) for content in answer.get("content", {}).values()]
        if status.startswith("2"):
            told.append(f"{status} {next((text for text in shown if text), '')}".strip())
        elif status not in _COMMON:
            told.append(status)
    yield from (f"Answers: {', '.join(told)}.", "")


def _schema(name: str, schema: Schema) -> Iterator[str]:
    yield from (f"### {name}", "")
    if "description" in schema:
        yield from (schema["description"], "")
    if "enum" in schema:
        yield from ("One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".", "")
    needed = set(schema.get("required", ()))
    if schema.get("properties"):
        yield from ("| field | type | |", "|---|---|---|")
        for field, value in schema["properties"].items():
            mark = "" if field in needed else " (optional)"
            yield f"| `{field}` | {_type(value)}{mark} | {_cell(value.get('description', ''))} |"
        yield ""


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[key]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "")
    if kind == "array":
        return f"list of {_type(schema.get('items', {})) or 'any'}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties']) or 'any'}"
    return kind or "any"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
