"""NodeType: the data, handles and behaviour of a type of node.

A node of role `pure` is decided at once; `work` becomes a step; `wait` waits for a time or a message;
`child` is another run; `container` opens scopes of its own body; `join` waits for branches; `conversation`
asks a model in turns, which may call what is in its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from stepwell.authoring.graphs.nodes.node_data import NodeData

if TYPE_CHECKING:
    from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler

ExpressionScope = Mapping[str, Any]
Now = float | None  # seconds since 1970; None if no expression of the node uses it
OUT = ("out",)


class Role(StrEnum):
    PURE = "pure"
    WORK = "work"
    WAIT = "wait"
    CHILD = "child"
    CONTAINER = "container"
    JOIN = "join"
    CONVERSATION = "conversation"

    @property
    def has_body(self) -> bool:
        return self in (Role.CONTAINER, Role.CONVERSATION)


class NodeOutcome(msgspec.Struct, frozen=True, eq=False):
    """How a node ended: its live handles, its output, and further variables that it writes."""

    handles: tuple[str, ...] = OUT
    output: Any = None
    writes: Mapping[str, Any] | None = None
    delay: float = 0.0  # seconds until the handles become live
    terminate: bool = False


DONE = NodeOutcome()
Handles = Callable[[Any], frozenset[str]]
Compile = Callable[[Any, "NodeCompiler"], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeType:
    name: str
    data: type[NodeData]
    role: Role
    compile: Compile  # (data, compiler) -> the behaviour; its class depends on the role
    handles: Handles = field(default=lambda data: frozenset({"out", "error"}))
    text: str = ""  # one line for palettes and docs
