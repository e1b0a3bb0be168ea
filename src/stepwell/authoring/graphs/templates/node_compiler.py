"""Compiler: the expressions and templates of one node, compiled when the graph is saved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from stepwell.authoring.graphs.expressions import Expression, compile_expression
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.authoring.graphs.templates.template import Template, compile_template
from stepwell.domain.schema import schema_fault
from stepwell.domain.steps import StepSpec
from stepwell.errors import BadExpression

MergeFunction = Callable[[dict[str, Any], list[dict[str, Any]]], dict[str, Any]]
# All expressions of a graph together. Compiling took about 3 s a MiB on a busy machine, and holds the loop
# of whoever saves or claims; this much is 128 expressions of the largest size, more than people write.
SOURCES_BYTES_MAX = 512 * 1024
_Made = TypeVar("_Made", Expression, Template)
_ASKS_THE_TIME = re.compile(r"\bnow\s*\(")


class Sources:
    """How much text the expressions of one graph have; what is too much is told once."""

    def __init__(self) -> None:
        self._left = SOURCES_BYTES_MAX
        self.told = False

    def spend(self, text: str) -> bool:
        """Whether it may still be compiled."""
        self._left -= len(text.encode(errors="surrogatepass"))
        return self._left >= 0


class NodeCompiler:
    """Collects what does not compile; what it hands out in its place is never run."""

    def __init__(
        self,
        node: str,
        problems: list[GraphProblem],
        steps: Mapping[str, StepSpec] | None = None,
        mergers: Mapping[str, MergeFunction] | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.node = node
        self.steps = steps  # registered Python steps; None: not known here, so not checked
        self.mergers = mergers or {}
        self.uses_time = False
        self.names: dict[str, frozenset[str]] = {}  # by field: what its expressions want to see
        self._problems = problems
        self._sources = sources or Sources()

    def expression(self, source: str, field: str) -> Expression:
        self.uses_time = self.uses_time or _ASKS_THE_TIME.search(source) is not None
        if not self._sources.spend(source):
            self._too_much(field)
            return compile_expression("null")
        try:
            return self._named(compile_expression(source), field)
        except BadExpression as error:
            if source.lstrip().startswith("{{"):
                error.hint = "this field is an expression: write it without {{ }}"
            self._bad(error, field)
            return compile_expression("null")

    def template(self, value: Any, field: str) -> Template:
        self.uses_time = self.uses_time or _ASKS_THE_TIME.search(str(value)) is not None
        if not all(self._sources.spend(text) for text in _with_expressions(value)):
            self._too_much(field)
            return compile_template(None)
        try:
            return self._named(compile_template(value), field)
        except BadExpression as error:
            if not self._bad_texts(value, field, 0):
                self._bad(error, field)
            return compile_template(None)

    def _named(self, made: _Made, field: str) -> _Made:
        if made.names:
            self.names[field] = made.names
        return made

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

    def _too_much(self, field: str) -> None:
        if not self._sources.told:
            self._sources.told = True
            self.problem(
                "GRAPH_TOO_LARGE",
                f"the expressions up to here have more than {SOURCES_BYTES_MAX:,} bytes together",
                field,
                "move a part into a workflow of its own, or pass long text in as data",
            )

    def _bad(self, error: BadExpression, field: str) -> None:
        hint = error.hint or "mend the expression; docs/expressions.md has the language"
        self.problem(error.code, error.message, field.lstrip("."), hint, error.column)


def _with_expressions(value: Any) -> Iterator[str]:
    """The texts of a template that are more than text."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, str):
            if "{{" in found:
                yield found
        elif isinstance(found, dict):
            waiting += found.values()
        elif isinstance(found, list):
            waiting += found
