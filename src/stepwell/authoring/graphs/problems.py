"""Problems of a graph, all at once, each with its node, field, code and suggestion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.errors import InvalidDefinition, excerpt, shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphProblem:
    """One thing to fix. `node` and `edge` are ids, `field` is a path inside the node's data."""

    code: str
    message: str
    node: str = ""
    edge: str = ""
    field: str = ""
    suggestion: str = ""
    column: int = 0  # in the field's text, from 1; 0: not in a text

    def as_dict(self) -> dict[str, str | int]:
        fields: dict[str, str | int] = {
            "code": self.code,
            "message": self.message,
            "node": self.node,
            "edge": self.edge,
            "field": self.field,
            "suggestion": self.suggestion,
            "column": self.column,
        }
        return {name: value for name, value in fields.items() if value}

    def __str__(self) -> str:
        where = " ".join(
            part
            for part in (
                f"node {shortened(self.node)}" if self.node else "",
                f"edge {shortened(self.edge)}" if self.edge else "",
                f"field {shortened(self.field)}" if self.field else "",
                f"column {self.column}" if self.column else "",
            )
            if part
        )
        text = f"{self.code}: {self.message}"
        if where:
            text += f" ({where})"
        return f"{text}; {self.suggestion}" if self.suggestion else text


class InvalidGraph(InvalidDefinition):
    """The graph cannot run as it is."""

    code = "INVALID_GRAPH"
    hint = "fix the listed problems; nothing was written"

    def __init__(self, problems: Sequence[GraphProblem], *, name: str = "") -> None:
        self.problems = tuple(problems)
        first = self.problems[0] if self.problems else None
        more = f" and {len(self.problems) - 1} more" if len(self.problems) > 1 else ""
        what = f"graph {excerpt(name)}" if name else "the graph"
        listed: dict[str, Any] = {f"problem {i}": p for i, p in enumerate(self.problems[:20], 1)}
        super().__init__(f"{what} is invalid: {first}{more}", **listed)

    @property
    def codes(self) -> list[str]:
        """Each code once, in the order of the problems."""
        return list(dict.fromkeys(problem.code for problem in self.problems))
