"""Credentials and the audit list of the SQLite store."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from stepwell.domain.access import AuditEntry, Credential, CredentialKind
from stepwell.store.base import CREDENTIALS_KEPT_SECONDS
from stepwell.store.sqlite.session import Row, Session, as_list


def put_credential(session: Session, credential: Credential) -> None:
    row = credential
    session.run(
        "put_credential",
        *(row.id, row.kind, row.workspace, row.name, row.principal, row.digest),
        *(as_list(row.scopes), as_list(row.roles), row.key, row.run_id, row.path, row.seq),
        *(row.created_at, row.created_by, row.expires_at),
    )
    session.run("drop_old_credentials", row.created_at - CREDENTIALS_KEPT_SECONDS)


def read_credential(session: Session, id: str) -> Credential | None:
    row = session.row("read_credential", id)
    return None if row is None else _credential(row)


def list_credentials(
    session: Session, workspace: str, kind: CredentialKind, *, before: str = "", limit: int = 100
) -> Sequence[Credential]:
    return [_credential(row) for row in session.rows("list_credentials", workspace, kind, before, limit)]


def revoke_credential(session: Session, id: str, *, at: float, by: str) -> bool:
    return session.row("revoke_credential", id, at, by) is not None


def mark_used(session: Session, ids: Collection[str], *, at: float) -> None:
    session.run("mark_used", as_list(list(ids)), at)


def add_audit(session: Session, entries: Sequence[AuditEntry]) -> None:
    session.many("add_audit", [msgspec.structs.astuple(entry) for entry in entries])


def list_audit(
    session: Session, workspace: str, *, before: str = "", limit: int = 100
) -> Sequence[AuditEntry]:
    names = AuditEntry.__struct_fields__
    rows = session.rows("list_audit", workspace, before, limit)
    return [AuditEntry(**dict(zip(names, row, strict=True))) for row in rows]


def _credential(row: Row) -> Credential:
    values = dict(zip(Credential.__struct_fields__, row, strict=True))
    for name in ("scopes", "roles"):
        values[name] = msgspec.json.decode(values[name], type=tuple[str, ...])
    return Credential(**values)
