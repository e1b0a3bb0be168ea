"""The step of `query` nodes: runs their statement on the connection that the node names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stepwell.authoring.graphs.errors import NodeConfigError, NodeError
from stepwell.authoring.graphs.nodes.query import NAME
from stepwell.authoring.graphs.nodes.steps import providing_step
from stepwell.databases.connections import Connections
from stepwell.databases.errors import QueryError
from stepwell.databases.own import OwnQuery
from stepwell.databases.statement import Statement
from stepwell.domain.program import StepContext
from stepwell.domain.steps import InCommit, StepSpec

_CONFIG = (
    "SQL_CONNECTION",
    "SQL_TEMPLATE",
    "SQL_ONE_STATEMENT",
    "SQL_READ_ONLY",
    "SQL_FORBIDDEN",
    "SQL_TYPE",
)


def query_step(
    connections: Callable[[], Connections], workspace: Callable[[str], Awaitable[str]]
) -> StepSpec:
    """Return the step that queries the databases of these connections; `workspace` is that of a run."""

    async def call(step: StepContext, config: dict[str, Any]) -> Any:
        owner = await workspace(step.run_id)
        try:
            if config.get("transactional"):
                body = OwnQuery(
                    Statement.parsed(config["sql"]),
                    config["params"],
                    role=connections().role(config["connection"], owner),
                    rows_max=config["maxRows"],
                    seconds=config["seconds"],
                )
                return InCommit(body, error=_of_node)
            return (
                await connections()
                .of(config["connection"], owner)
                .query(
                    Statement.parsed(config["sql"]),
                    config["params"],
                    rows_max=config["maxRows"],
                    seconds=config["seconds"],
                    read_only=config["readOnly"],
                )
            )
        except QueryError as error:
            raise _of_node(error) from None

    return providing_step(NAME, call)


def _of_node(error: Exception) -> Exception:
    if not isinstance(error, QueryError):
        return error
    if error.code in _CONFIG:
        return NodeConfigError(error.message, code=error.code, hint=error.hint)
    failed = NodeError(error.code, error.message, hint=error.hint)
    failed.permanent = error.permanent
    return failed
