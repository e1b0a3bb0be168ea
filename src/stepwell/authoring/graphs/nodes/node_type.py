"""NodeType: what a graph must know of a type of node, and what its nodes do when they run.

A node of role `pure` is decided on the spot; `work` becomes a step; `wait` waits for time or a
message; `child` is another run; `container` opens scopes of its own body; `join` waits for branches.
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
Now = float | None  # seconds since 1970; None where no expression of the node asks for it
OUT = ("out",)


class Role(StrEnum):
    PURE = "pure"
    WORK = "work"
    WAIT = "wait"
    CHILD = "child"
    CONTAINER = "container"
    JOIN = "join"


class NodeOutcome(msgspec.Struct, frozen=True, eq=False):
    """How a node came out: which handles are live, its output, and what it writes besides."""

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
    compile: Compile  # (data, compiler) -> what the frontier runs; shape depends on the role
    handles: Handles = field(default=lambda data: frozenset({"out", "error"}))
    text: str = ""  # one line for palettes and docs
