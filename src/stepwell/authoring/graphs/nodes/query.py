"""The `query` node: a SQL statement on a named connection, executed by the worker (`handlers/query.py`)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from stepwell.authoring.graphs.nodes.node_data import WHOLE, Identifier, NodeData
from stepwell.authoring.graphs.nodes.node_type import ExpressionScope, NodeType, Now, Role
from stepwell.authoring.graphs.nodes.retry import DEFAULT
from stepwell.authoring.graphs.nodes.steps import outcome_of, provided_step
from stepwell.authoring.graphs.templates.node_compiler import NodeCompiler
from stepwell.databases.errors import QueryError
from stepwell.databases.statement import LENGTH_MAX, Statement

NAME = "node:query"
QUERY_SECONDS = 30.0


class QueryData(NodeData):
    """A SQL statement that reads or changes a database."""

    connection: Annotated[Identifier, Field(description="The name that an operator gave the database.")]
    sql: Annotated[
        str,
        Field(min_length=1, max_length=LENGTH_MAX, description="One statement; :name stands for a value."),
    ]
    params: Annotated[dict[str, Any], Field(description="The values, by name; may have {{ }}.")] = Field(
        default_factory=dict
    )
    read_only: Annotated[bool, Field(description="Refuse statements that change something.")] = True
    transactional: Annotated[
        bool,
        Field(
            description="On the engine's own database: the statement is part of the commit of the node, "
            "so it happens once."
        ),
    ] = False
    max_rows: Annotated[int, Field(ge=1, le=10_000, description="The most rows of a result."), WHOLE] = 1000


class QueryWork:
    """One query, built from the node's templates."""

    def __init__(self, data: QueryData, compiler: NodeCompiler) -> None:
        self._data = data
        self._params = compiler.template(data.params, "params")
        try:
            Statement.parsed(data.sql).values(data.params)
        except QueryError as error:
            field = "params" if error.code == "SQL_PARAMS" else "sql"
            compiler.problem(error.code, error.message, field, error.hint)
        if data.transactional:
            self._check_transactional(data, compiler)
        self._seconds = data.timeout_seconds(QUERY_SECONDS)
        self.spec = provided_step(NAME, data, retry=DEFAULT, seconds=self._seconds)

    @staticmethod
    def _check_transactional(data: QueryData, compiler: NodeCompiler) -> None:
        if data.read_only:
            why = "a transactional statement must be allowed to write"
            compiler.problem(
                "INVALID_DATA", why, "readOnly", "set readOnly to false, or remove transactional"
            )
        if data.queue:
            why = "a transactional statement runs in the commit of its node, so on no other queue"
            compiler.problem("INVALID_DATA", why, "queue", "remove queue")

    def prepare(self, scope: ExpressionScope, now: Now) -> tuple[tuple[Any, ...], dict[str, Any]]:
        query = {
            "connection": self._data.connection,
            "sql": self._data.sql,
            "params": self._params.render(scope, now),
            "readOnly": self._data.read_only,
            "transactional": self._data.transactional,
            "maxRows": self._data.max_rows,
            "seconds": self._seconds,
        }
        return (query,), {}

    outcome = staticmethod(outcome_of)


QUERY = NodeType(
    name="query", data=QueryData, role=Role.WORK, compile=QueryWork, text="asks or changes a named database"
)
