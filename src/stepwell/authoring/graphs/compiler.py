"""Compiler: the expressions and templates of one node, compiled when the graph is saved."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.authoring.graphs.expressions import Expression, compile_expression
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.authoring.graphs.template import Template, compile_template
from stepwell.domain.schema import schema_fault
from stepwell.domain.steps import StepSpec
from stepwell.errors import BadExpression

MergeFunction = Callable[[dict[str, Any], list[dict[str, Any]]], dict[str, Any]]
_ASKS_THE_TIME = re.compile(r"\bnow\s*\(")


class Compiler:
    """Collects what does not compile; what it hands out in its place is never run."""

    def __init__(
        self,
        node: str,
        problems: list[GraphProblem],
        steps: Mapping[str, StepSpec] | None = None,
        mergers: Mapping[str, MergeFunction] | None = None,
    ) -> None:
        self.node = node
        self.steps = steps  # registered Python steps; None: not known here, so not checked
        self.mergers = mergers or {}
        self.uses_time = False
        self._problems = problems

    def expression(self, source: str, field: str) -> Expression:
        self.uses_time = self.uses_time or _ASKS_THE_TIME.search(source) is not None
        try:
            return compile_expression(source)
        except BadExpression as error:
            if source.lstrip().startswith("{{"):
                error.hint = "this field is an expression: write it without {{ }}"
            self._bad(error, field)
            return compile_expression("null")

    def template(self, value: Any, field: str) -> Template:
        self.uses_time = self.uses_time or _ASKS_THE_TIME.search(str(value)) is not None
        try:
            return compile_template(value)
        except BadExpression as error:
            if not self._bad_texts(value, field, 0):
                self._bad(error, field)
            return compile_template(None)

    def _bad_texts(self, value: Any, field: str, depth: int) -> bool:
        """Tell every text of the template that cannot be read, not only the first."""
        if depth > DEFAULT_LIMITS.data_depth:
            return False
        if isinstance(value, dict):
            found = [self._bad_texts(item, f"{field}.{key}", depth + 1) for key, item in value.items()]
            return any(found)
        if isinstance(value, list):
            found = [self._bad_texts(item, f"{field}.{at}", depth + 1) for at, item in enumerate(value)]
            return any(found)
        try:
            compile_template(value)
        except BadExpression as error:
            self._bad(error, field)
            return True
        return False

    def optional(self, source: str | None, field: str) -> Expression | None:
        return None if source is None else self.expression(source, field)

    def schema(self, schema: Any, field: str) -> None:
        why = "" if schema is None else schema_fault(schema)
        if why:
            self.problem("INVALID_DATA", f"this is no JSON Schema: {why}", field, "give a JSON Schema")

    def problem(
        self, code: str, message: str, field: str = "", suggestion: str = "", column: int = 0
    ) -> None:
        self._problems.append(
            GraphProblem(
                code=code,
                message=message,
                node=self.node,
                field=field,
                suggestion=suggestion,
                column=column,
            )
        )

    def _bad(self, error: BadExpression, field: str) -> None:
        hint = error.hint or "mend the expression; docs/expressions.md has the language"
        self.problem(error.code, error.message, field.lstrip("."), hint, error.column)
