"""The `query` node: a SQL statement on a named connection, executed by the worker (`handlers/query.py`)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from stepwell.authoring.graphs.nodes.http import unserved
from stepwell.authoring.graphs.nodes.node_data import WHOLE, Identifier, NodeData
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.retry import DEFAULT, retry_of
from stepwell.authoring.graphs.nodes.steps import RESULTS, outcome_of
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.databases.errors import QueryError
from stepwell.databases.statement import LENGTH_MAX, Statement
from stepwell.domain.steps import StepSpec

NAME = "node:query"
QUERY_SECONDS = 30.0
_LATE = 5.0  # the step's own timeout: the database ends the query before


class QueryData(NodeData):
    """A question to a database, or a change of it."""

    connection: Annotated[Identifier, Field(description="The name that an operator gave the database.")]
    sql: Annotated[
        str,
        Field(min_length=1, max_length=LENGTH_MAX, description="One statement; :name stands for a value."),
    ]
    params: Annotated[dict[str, Any], Field(description="The values, by name; may have {{ }}.")] = Field(
        default_factory=dict
    )
    read_only: Annotated[bool, Field(description="Refuse statements that change something.")] = True
    max_rows: Annotated[int, Field(ge=1, le=10_000, description="The most rows of a result."), WHOLE] = 1000


class QueryWork:
    """One query, prepared from the node's templates."""

    def __init__(self, data: QueryData, compiler: NodeCompiler) -> None:
        self._data = data
        self._params = compiler.template(data.params, "params")
        try:
            Statement.parsed(data.sql).values(data.params)
        except QueryError as error:
            field = "params" if error.code == "SQL_PARAMS" else "sql"
            compiler.problem(error.code, error.message, field, error.hint)
        self._seconds = QUERY_SECONDS if data.timeout_ms is None else data.timeout_ms / 1000
        self.spec = StepSpec(
            name=NAME,
            function=unserved,
            retry=retry_of(data.retry, DEFAULT),
            timeout=self._seconds + _LATE,
            queue=data.queue or "",
            is_async=True,
            wants_context=True,
            returns=RESULTS,
            provided=True,
        )

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        query = {
            "connection": self._data.connection,
            "sql": self._data.sql,
            "params": self._params.render(scope, now),
            "readOnly": self._data.read_only,
            "maxRows": self._data.max_rows,
            "seconds": self._seconds,
        }
        return (query,), {}

    outcome = staticmethod(outcome_of)


QUERY = NodeType(
    name="query", data=QueryData, role=Role.WORK, compile=QueryWork, text="asks or changes a named database"
)
