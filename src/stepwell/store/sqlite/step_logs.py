"""The logs of steps in the SQLite store."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.ids import RunId
from stepwell.domain.step_log import LINES_PAGE, LogLineRow, NewLogLine
from stepwell.store.sqlite.session import Session


def add_log_lines(session: Session, lines: Sequence[NewLogLine]) -> None:
    session.many("add_log_line", lines)


def read_log_lines(
    session: Session,
    run_id: RunId,
    *,
    path: str = "",
    attempt: int = 0,
    after: int = 0,
    limit: int = LINES_PAGE,
) -> Sequence[LogLineRow]:
    if path:
        rows = session.rows("read_step_lines", run_id, after, limit, path, attempt)
    else:
        rows = session.rows("read_run_lines", run_id, after, limit)
    return [LogLineRow(*row) for row in rows]
