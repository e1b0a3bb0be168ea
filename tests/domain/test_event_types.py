"""Event types: one vocabulary for all styles, and a schema that every event fits."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import msgspec
import pytest

from stepwell import event_schema
from stepwell.domain.event_types import TYPES, EventType, event_type, types_of, vocabulary
from stepwell.domain.events import FACTS, KIND, written
from tests.domain.test_events import FULL

SEEDS = {
    *("workflow_started", "workflow_finished", "workflow_failed"),
    *("workflow_paused", "workflow_resumed", "workflow_stopped"),
    *("node_started", "node_completed", "node_failed", "node_skipped"),
    *("loop_started", "loop_next", "loop_completed", "published", "progress"),
}


def test_the_vocabulary_has_the_words_that_screens_expect() -> None:
    assert set(vocabulary()) >= SEEDS
    assert set(vocabulary()) >= set(EventType)
    assert TYPES.keys() <= set(KIND.values())


@pytest.mark.parametrize(
    ("kind", "path", "data", "type"),
    [
        ("accepted", "", {}, "workflow_started"),
        ("suspended", "", {}, "workflow_paused"),
        ("timed_out", "", {}, "workflow_failed"),
        ("step_failed", "0/pay#1", {"retry_in": 0.0}, "node_retrying"),
        ("step_failed", "0/pay#1", {}, "node_failed"),
        ("transition_failed", "0/pay@2", {"retry_in": 1.0}, "node_retrying"),
        ("timer_set", "0/sleep#1", {}, "node_waiting"),
        ("timer_set", "0/pay@timeout", {}, "timer_set"),
        ("timer_fired", "0/again#1@delay", {}, "timer_fired"),
        ("timer_fired", "0/pay@2/sleep#1", {}, "node_completed"),
        ("wait_opened", "0/@event:paid#1", {}, "wait_opened"),
        ("wait_opened", "0/pay@2", {}, "node_waiting"),
        ("wait_ended", "0/ask", {"outcome": "answered"}, "node_completed"),
        ("wait_ended", "0/ask", {"outcome": "timed_out"}, "node_timed_out"),
        ("wait_ended", "0/ask", {"outcome": "withdrawn"}, "node_cancelled"),
        ("child_started", "0/x#1", {}, "node_started"),
        ("child_started", "0/x#1", {"detached": True}, "node_completed"),
        ("child_ended", "0/x#1", {"status": "completed"}, "node_completed"),
        ("child_ended", "0/x#1", {"status": "failed"}, "node_failed"),
        ("step_completed", "0/call@find", {}, "step_completed"),
        ("loop_advanced", "0/each[3]", {}, "loop_next"),
        ("claimed", "", {}, "claimed"),
        ("of_a_later_version", "", {}, "of_a_later_version"),
    ],
)
def test_the_type_tells_what_a_fact_means(kind: str, path: str, data: dict[str, Any], type: str) -> None:
    assert event_type(kind, path, data) == type
    assert type in types_of(kind)


def test_the_schema_accepts_every_fact_and_refuses_another_type() -> None:
    schema = event_schema()
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.validator_for(schema)
    assert schema["$defs"].keys() >= {KIND[fact] for fact in FACTS}
    for fact in FULL:
        event = written(fact, "0/a#1", 1)
        data = msgspec.json.decode(event.payload)
        shown = {
            "seq": 1,
            "at": "2026-01-01T00:00:00Z",
            "kind": event.kind,
            "type": event_type(event.kind, event.path, data),
            "path": event.path,
            "attempt": 1,
            "data": data,
        }
        validator.validate(shown)
        assert not validator.is_valid({**shown, "type": "something"})
        assert not validator.is_valid({**shown, "kind": "something"})
