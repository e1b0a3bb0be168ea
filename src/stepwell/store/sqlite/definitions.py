"""Definitions of workflows, and the codec check: the records that belong to no run."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import Definition
from stepwell.store.sqlite.session import Row, Session, as_list


def put_definitions(session: Session, definitions: Sequence[Definition]) -> None:
    for d in definitions:
        values = (d.workspace, d.name, d.version, d.kind, d.hash, d.body, d.input_schema, d.options)
        session.run("delete_definition", *values)
        session.run("insert_definition", *values)


def swap_definition(session: Session, definition: Definition, *, expected: str) -> bool:
    current = read_definition(session, definition.workspace, definition.name, definition.version)
    if current != definition:
        if ("" if current is None else current.hash) != expected:
            return False
        put_definitions(session, [definition])
    return True


def drop_definitions(session: Session, workspace: str, *names: str) -> int:
    return len(session.rows("drop_definitions", workspace, as_list(list(names))))


def read_definition(session: Session, workspace: str, name: str, version: str = "") -> Definition | None:
    row = session.row("read_definition", workspace, name, version)
    return None if row is None else _definition(row)


def list_definitions(session: Session, workspace: str) -> Sequence[Definition]:
    return [_definition(row) for row in session.rows("list_definitions", workspace)]


def read_codec_check(session: Session) -> bytes | None:
    row = session.row("read_codec_check")
    return None if row is None else row[0]


def write_codec_check(session: Session, value: bytes, *, expected: bytes | None) -> bool:
    return session.row("write_codec_check", value, expected) is not None


def _definition(row: Row) -> Definition:
    name, version, kind, hash, body, input_schema, options, workspace = row
    return Definition(
        name=name,
        version=version,
        kind=kind,
        hash=hash,
        body=body,
        input_schema=input_schema,
        options=options,
        workspace=workspace,
    )
