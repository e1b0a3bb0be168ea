"""Event types: one vocabulary for readers of logs, independent of the style of the workflow.

The kind of a fact says what the engine recorded; its type says what that means to a reader. A node is a
node of a graph, a step, wait or child of a function, or a transition of a machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from stepwell.domain.events import FACTS, KIND


class EventType(StrEnum):
    WORKFLOW_STARTED = "workflow_started"
    WORKFLOW_PAUSED = "workflow_paused"
    WORKFLOW_RESUMED = "workflow_resumed"
    WORKFLOW_RETRIED = "workflow_retried"
    WORKFLOW_CONTINUED = "workflow_continued"
    WORKFLOW_STOPPING = "workflow_stopping"
    WORKFLOW_FINISHED = "workflow_finished"
    WORKFLOW_FAILED = "workflow_failed"
    WORKFLOW_STOPPED = "workflow_stopped"
    NODE_QUEUED = "node_queued"
    NODE_STARTED = "node_started"
    NODE_WAITING = "node_waiting"
    NODE_RETRYING = "node_retrying"
    NODE_COMPLETED = "node_completed"
    NODE_FAILED = "node_failed"
    NODE_TIMED_OUT = "node_timed_out"
    NODE_SKIPPED = "node_skipped"
    NODE_CANCELLED = "node_cancelled"
    LOOP_STARTED = "loop_started"
    LOOP_NEXT = "loop_next"
    LOOP_COMPLETED = "loop_completed"


# The types that a kind may have. A kind that is not listed is a detail, and its own type.
TYPES: Mapping[str, tuple[str, ...]] = {
    "accepted": (EventType.WORKFLOW_STARTED,),
    "suspended": (EventType.WORKFLOW_PAUSED,),
    "resumed": (EventType.WORKFLOW_RESUMED,),
    "retried": (EventType.WORKFLOW_RETRIED,),
    "continued": (EventType.WORKFLOW_CONTINUED,),
    "cancel_requested": (EventType.WORKFLOW_STOPPING,),
    "completed": (EventType.WORKFLOW_FINISHED,),
    "failed": (EventType.WORKFLOW_FAILED,),
    "timed_out": (EventType.WORKFLOW_FAILED,),
    "cancelled": (EventType.WORKFLOW_STOPPED,),
    "step_scheduled": (EventType.NODE_QUEUED,),
    "step_started": (EventType.NODE_STARTED,),
    "step_completed": (EventType.NODE_COMPLETED, "step_completed"),
    "step_failed": (EventType.NODE_RETRYING, EventType.NODE_FAILED),
    "timer_set": (EventType.NODE_WAITING, "timer_set"),
    "timer_fired": (EventType.NODE_COMPLETED, "timer_fired"),
    "wait_opened": (EventType.NODE_WAITING, "wait_opened"),
    "wait_ended": (
        EventType.NODE_COMPLETED,
        EventType.NODE_TIMED_OUT,
        EventType.NODE_CANCELLED,
        "wait_ended",
    ),
    "transition_completed": (EventType.NODE_COMPLETED,),
    "transition_failed": (EventType.NODE_RETRYING, EventType.NODE_FAILED),
    "child_started": (EventType.NODE_STARTED, EventType.NODE_COMPLETED),
    "child_ended": (EventType.NODE_COMPLETED, EventType.NODE_FAILED),
    "loop_advanced": (EventType.LOOP_NEXT,),
}
_WAIT_ENDS = {
    "answered": EventType.NODE_COMPLETED,
    "timed_out": EventType.NODE_TIMED_OUT,
    "withdrawn": EventType.NODE_CANCELLED,
}
# Parts of a node: its time limit, a poll, a delay, a look-up, the mailbox of a graph.
# A machine's visit has a number after the @.
_PART_OF_NODE = re.compile(r"(@[a-z][^/]*|/@[^/]*)$")


def event_type(kind: str, path: str, data: Mapping[str, Any]) -> str:
    """Return the type of an event from its kind, its path and its decoded fact."""
    types = TYPES.get(kind, (kind,))
    if len(types) == 1 or (types[-1] == kind and is_part_of_node(path)):
        return str(types[-1])
    match kind:
        case "step_failed" | "transition_failed":
            return str(types[data.get("retry_in") is None])
        case "wait_ended":
            return str(_WAIT_ENDS.get(data.get("outcome", ""), types[0]))
        case "child_started":
            return str(types[bool(data.get("detached"))])
        case "child_ended":
            return str(types[data.get("status") != "completed"])
        case _:
            return str(types[0])


def is_part_of_node(path: str) -> bool:
    """Return whether the path belongs to a part of a node: its time limit, a poll, a delay, a look-up."""
    return "@" in path and _PART_OF_NODE.search(path) is not None


def node_of(path: str) -> str:
    """Return the path of the node to which a part belongs."""
    return _PART_OF_NODE.sub("", path)


def types_of(kind: str) -> tuple[str, ...]:
    """Return every type that events of this kind may have."""
    return TYPES.get(kind, (kind,))


def vocabulary() -> list[str]:
    """Return every type that an event may have, in the order of the facts."""
    return list(dict.fromkeys(str(name) for fact in FACTS for name in types_of(KIND[fact])))
