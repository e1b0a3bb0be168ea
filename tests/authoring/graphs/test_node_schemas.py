"""What an editor of graphs reads: the schemas of node types and triggers, and where a mistake is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.authoring.graphs.format.definition import GraphSettings, GraphTrigger
from stepwell.authoring.graphs.nodes.registry import BUILT_IN
from stepwell.testing.graphs.task import registry
from tests.authoring.graphs.graphs import START, a, chart

MODELS: dict[str, type[BaseModel]] = {kind.name: kind.data for kind in BUILT_IN}


def undescribed(schema: dict[str, Any], where: str = "") -> Iterator[str]:
    """The fields of a schema, and of the objects in it, that say nothing about themselves."""
    for name, field in schema.get("properties", {}).items():
        if not field.get("description"):
            yield f"{where}{name}"
    for name, part in schema.get("$defs", {}).items():
        yield from undescribed(part, f"{name}.")


@pytest.mark.req("N1", "G2")
@pytest.mark.parametrize("model", [*MODELS.values(), GraphTrigger, GraphSettings], ids=lambda m: m.__name__)
def test_every_field_of_a_graph_says_what_it_is_for(model: type[BaseModel]) -> None:
    assert list(undescribed(model.model_json_schema())) == []


@pytest.mark.req("N1", "S4")
def test_every_type_of_node_has_an_icon_in_studio() -> None:
    source = (Path(__file__).parents[3] / "studio" / "src" / "canvas" / "NodeIcon.tsx").read_text()
    named = set(re.findall(r"^  (\w+): \w+,$", source.partition("ICONS")[2], re.MULTILINE))

    assert set(MODELS) - named == set()


# What each type of node refuses because of several of its fields: the one that has to be changed is named.
SEVERAL = [
    ("delay", {"ms": 1, "until": "2030-01-01"}, "ms"),
    ("wait", {"mode": "time"}, "ms"),
    ("wait", {"mode": "condition"}, "condition"),
    ("wait", {"event": "x", "http": {"url": "https://example.com"}}, "http"),
    (
        "wait",
        {
            "mode": "condition",
            "condition": "true",
            "records": {"action": "create", "collection": "a", "data": {}},
        },
        "records",
    ),
    ("loop", {"items": "ctx.input", "times": 2}, "items"),
    ("merge", {"mode": "count"}, "count"),
    ("merge", {"mode": "timeout"}, "timeoutMs"),
    ("merge", {"strategy": "custom"}, "custom"),
    ("switch", {"value": "1", "cases": [{"id": "a"}]}, "cases.0.equals"),
    ("http", {"url": "https://example.com", "retry": {"delayMs": 9, "maxDelayMs": 1}}, "retry.maxDelayMs"),
    ("records", {"action": "create", "collection": "a"}, "data"),
    ("records", {"action": "get", "collection": "a"}, "id"),
    ("ai", {"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, "prompt"),
    ("ai", {"prompt": "a", "tools": [{"name": "t", "description": "d"}]}, "tools.0.node"),
]


@pytest.mark.req("G2")
@pytest.mark.parametrize(("kind", "data", "field"), SEVERAL, ids=lambda value: str(value)[:40])
def test_a_mistake_between_fields_names_one_of_them(kind: str, data: dict[str, Any], field: str) -> None:
    body = chart([START, {"id": "A", "type": kind, "data": data}, a("Z", "end")], "S>A A>Z")

    problem = next(each for each in PlanBuilder(registry()).check(body) if each.node == "A")

    code = "RETRY_POLICY" if field.startswith("retry") else "INVALID_DATA"
    assert (problem.code, problem.field, bool(problem.message)) == (code, field, True)
    assert problem.suggestion not in ("", "give a valid value")


# A value that may be of several kinds: one problem, at its own place.
KINDS = [
    ("records", {"action": "create", "collection": "a", "data": 7}, "data", "object, or give a string"),
    ("call", {"step": "x", "args": 7}, "args", "object, or give a list"),
    ("workflow", {"workflow": "x", "version": []}, "version", "string"),
    ("notify", {"channel": "x", "to": 7, "text": "x"}, "to", "list, or give a string"),
    ("notify", {"channel": "x", "to": ["a@x.org", 7], "text": "x"}, "to.1", "string"),
    ("ai", {"messages": [{"role": "user"}]}, "messages.0.content", "add it"),
    ("ai", {"messages": 7}, "messages", "list, or give a string"),
    ("http", {"url": "https://example.com", "headers": {"str": 7}}, "headers.str", "string"),
]


@pytest.mark.req("G2")
@pytest.mark.parametrize(("kind", "data", "field", "suggestion"), KINDS, ids=lambda value: str(value)[:40])
def test_a_value_of_the_wrong_kind_is_one_problem(
    kind: str, data: dict[str, Any], field: str, suggestion: str
) -> None:
    body = chart([START, {"id": "A", "type": kind, "data": data}, a("Z", "end")], "S>A A>Z")

    [problem] = [each for each in PlanBuilder(registry()).check(body) if each.node == "A"]

    assert problem.field == field
    assert suggestion in problem.suggestion


@pytest.mark.req("G2")
@pytest.mark.parametrize("kind", MODELS)
def test_a_misspelt_field_of_each_type_is_found_with_its_node(kind: str) -> None:
    node = {"id": "A", "type": kind, "data": {"titel": "x"}}
    body = chart([START, node, a("Z", "end")], "S>A A>Z")

    [problem] = [each for each in PlanBuilder(registry()).check(body) if each.field == "titel"]

    assert (problem.code, problem.node) == ("INVALID_DATA", "A")
    assert "title" in problem.suggestion


TRIGGERS: list[tuple[dict[str, Any], str, str, str]] = [
    ({"type": "schedule"}, "CRON", "cron", "minute, hour"),
    ({"type": "schedule", "cron": "* * * * *", "timezone": "Europe/Berlinn"}, "TIMEZONE", "timezone", "IANA"),
    ({"type": "schedule", "cron": "* * * * *", "overlap": "x"}, "INVALID_TRIGGER", "overlap", "queue"),
    ({"type": "schedule", "everyMs": 1}, "INVALID_TRIGGER", "everyMs", "at least 1 s"),
    ({"type": "schedule", "cron": "* * * * *", "path": "x"}, "INVALID_TRIGGER", "path", "cron"),
    ({"type": "webhook", "headr": "x"}, "INVALID_TRIGGER", "headr", "header"),
    ({"type": "webhook", "credential": "a b"}, "INVALID_TRIGGER", "credential", "letters"),
    ({"type": "webhook", "auth": "none", "credential": "x"}, "INVALID_TRIGGER", "credential", "remove it"),
    (
        {"type": "webhook", "auth": "hmac", "credential": "x", "header": "a b"},
        "INVALID_TRIGGER",
        "header",
        "X-",
    ),
    ({"type": "webhook", "waitMs": 999_999}, "INVALID_TRIGGER", "waitMs", "60 s"),
    ({"type": "webhook", "input": "{{trigger.slot}}"}, "INVALID_TRIGGER", "input", "body"),
    ({"type": "event"}, "EVENT_NAME", "event", "order.paid"),
    ({"type": "event", "event": "a", "condition": "trigger.("}, "BAD_EXPRESSION", "condition", "expression"),
    ({"type": "event", "event": "a", "condition": "ctx.x"}, "INVALID_TRIGGER", "condition", "trigger"),
    ({"type": "source"}, "INVALID_TRIGGER", "source", "name a source"),
    ({"type": "source", "source": "x", "everyMs": "1m"}, "INVALID_TRIGGER", "everyMs", "whole number"),
    ({"type": "manual", "form": {"type": "objekt"}}, "INVALID_TRIGGER", "form", "JSON Schema"),
    ({"type": "manual", "form": 7}, "INVALID_TRIGGER", "form", "object"),
    ({"type": "nightly"}, "INVALID_TRIGGER", "type", "schedule"),
]


@pytest.mark.req("G2", "T1", "T2", "T3", "BI-G25")
@pytest.mark.parametrize(
    ("trigger", "code", "field", "suggestion"), TRIGGERS, ids=lambda value: str(value)[:50]
)
def test_a_mistake_in_a_trigger_of_each_type_names_its_field(
    trigger: dict[str, Any], code: str, field: str, suggestion: str
) -> None:
    body = {**chart([START, a("Z", "end")], "S>Z"), "triggers": [{"id": "t", **trigger}]}

    [problem] = PlanBuilder(registry()).check(body)

    assert (problem.code, problem.node, problem.field) == (code, "t", f"triggers.t.{field}")
    assert suggestion in problem.suggestion
