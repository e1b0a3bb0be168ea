"""Secrets of the SQLite store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepwell.domain.secret import StoredSecret
from stepwell.store.sqlite.session import Row, Session, as_list


def put_secret(session: Session, secret: StoredSecret) -> bool:
    row = secret
    written = session.row(
        "put_secret",
        *(row.workspace, row.name, row.version, row.key, row.wrapped, row.body),
        *(row.use, row.header, as_list(row.hosts), row.created_at, row.created_by),
    )
    return written is not None


def read_secret(session: Session, workspace: str, name: str) -> StoredSecret | None:
    row = session.row("read_secret", workspace, name)
    return None if row is None else _secret(row)


def list_secrets(
    session: Session, workspace: str, *, after: str = "", limit: int = 100
) -> Sequence[StoredSecret]:
    return [_secret(row) for row in session.rows("list_secrets", workspace, after, limit)]


def drop_secret(session: Session, workspace: str, name: str) -> bool:
    return session.row("drop_secret", workspace, name) is not None


def read_outdated_secrets(session: Session, key: str, *, limit: int = 100) -> Sequence[StoredSecret]:
    return [_secret(row) for row in session.rows("read_outdated_secrets", key, limit)]


def rewrap_secret(session: Session, secret: StoredSecret) -> bool:
    row = secret
    return (
        session.row("rewrap_secret", row.workspace, row.name, row.version, row.key, row.wrapped) is not None
    )


def _secret(row: Row) -> StoredSecret:
    values = dict(zip(StoredSecret.__struct_fields__, row, strict=True))
    values["hosts"] = msgspec.json.decode(values["hosts"], type=tuple[str, ...])
    return StoredSecret(**values)
