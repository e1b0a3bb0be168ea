"""NodeCompiler: the expressions and templates of one node, compiled when the graph is saved."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from stepwell.authoring.graphs.expressions import Expression, compile_expression
from stepwell.authoring.graphs.expressions.limits import DEFAULT_LIMITS
from stepwell.authoring.graphs.problems import GraphProblem
from stepwell.authoring.graphs.templates.template import Escape, Template, compile_template
from stepwell.domain.schema import schema_fault
from stepwell.domain.steps import StepSpec
from stepwell.errors import BadExpression
from stepwell.providers.provider import Providers

MergeFunction = Callable[[dict[str, Any], list[dict[str, Any]]], dict[str, Any]]
# All expressions of a graph together. Compiling took about 3 s per MiB on a busy machine, and blocks the
# event loop of the process that saves or claims; this is 128 expressions of the largest size.
SOURCES_BYTES_MAX = 512 * 1024
_Compiled = TypeVar("_Compiled", Expression, Template)
_USES_NOW = re.compile(r"\bnow\s*\(")


class Sources:
    """The remaining budget of expression text of one graph; exceeding it is reported once."""

    def __init__(self) -> None:
        self._left = SOURCES_BYTES_MAX
        self.reported = False

    def spend(self, text: str) -> bool:
        """Whether the text may still be compiled."""
        self._left -= len(text.encode(errors="surrogatepass"))
        return self._left >= 0


class NodeCompiler:
    """Collects compile errors; the placeholders that it returns instead never run."""

    def __init__(
        self,
        node: str,
        problems: list[GraphProblem],
        steps: Mapping[str, StepSpec] | None = None,
        mergers: Mapping[str, MergeFunction] | None = None,
        sources: Sources | None = None,
        *,
        providers: Providers | None = None,
    ) -> None:
        self.node = node
        self.providers = providers  # model providers; None: unknown here, so not checked
        self.steps = steps  # registered Python steps; None: not available here, so not checked
        self.mergers = mergers or {}
        self.uses_time = False
        self.names: dict[str, frozenset[str]] = {}  # by field: the names its expressions use
        self._problems = problems
        self._sources = sources or Sources()
        self._prefix = ""  # prefix for the fields of a part

    def within(self, field: str) -> NodeCompiler:
        """Return a compiler for a part of the node; it reports problems below this field."""
        inner = NodeCompiler(self.node, self._problems, self.steps, self.mergers, self._sources)
        inner.names, inner._prefix = self.names, f"{self._prefix}{field}."
        return inner

    def expression(self, source: str, field: str) -> Expression:
        self.uses_time = self.uses_time or _USES_NOW.search(source) is not None
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

    def template(self, value: Any, field: str, *, escape: Escape | None = None) -> Template:
        self.uses_time = self.uses_time or _USES_NOW.search(str(value)) is not None
        if not all(self._sources.spend(text) for text in _with_expressions(value)):
            self._too_much(field)
            return compile_template(None)
        try:
            return self._named(compile_template(value, escape=escape), field)
        except BadExpression as error:
            if not self._bad_texts(value, field, 0):
                self._bad(error, field)
            return compile_template(None)

    def _named(self, compiled: _Compiled, field: str) -> _Compiled:
        if compiled.names:
            self.names[self._prefix + field] = compiled.names
        return compiled

    def _bad_texts(self, value: Any, field: str, depth: int) -> bool:
        """Report every invalid text of the template, not only the first."""
        if depth > DEFAULT_LIMITS.data_depth:
            return False
        if isinstance(value, dict):
            bad = [self._bad_texts(item, f"{field}.{key}", depth + 1) for key, item in value.items()]
            return any(bad)
        if isinstance(value, list):
            bad = [self._bad_texts(item, f"{field}.{at}", depth + 1) for at, item in enumerate(value)]
            return any(bad)
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
            self.problem("INVALID_DATA", f"this is not a JSON Schema: {why}", field, "give a JSON Schema")

    def problem(
        self, code: str, message: str, field: str = "", suggestion: str = "", column: int = 0
    ) -> None:
        self._problems.append(
            GraphProblem(
                code=code,
                message=message,
                node=self.node,
                field=f"{self._prefix}{field}" if field else self._prefix.rstrip("."),
                suggestion=suggestion,
                column=column,
            )
        )

    def _too_much(self, field: str) -> None:
        if not self._sources.reported:
            self._sources.reported = True
            self.problem(
                "GRAPH_TOO_LARGE",
                f"the expressions up to this one exceed {SOURCES_BYTES_MAX:,} bytes together",
                field,
                "move part of it into a separate workflow, or pass long text in as data",
            )

    def _bad(self, error: BadExpression, field: str) -> None:
        hint = error.hint or "fix the expression; docs/expressions.md describes the language"
        self.problem(error.code, error.message, field.lstrip("."), hint, error.column)


def _with_expressions(value: Any) -> Iterator[str]:
    """The strings of a template that contain expressions."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if "{{" in part:
                yield part
        elif isinstance(part, dict):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
