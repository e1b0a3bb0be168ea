"""Definitions of workflows, and the codec check: the records that belong to no run."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.domain.commit import Definition, WorkflowSwitch
from stepwell.store.sqlite.session import Row, Session, as_list


def put_definitions(session: Session, definitions: Sequence[Definition]) -> None:
    for d in definitions:
        key, texts = (d.workspace, d.name, d.version), (d.title, d.description)
        values = (*key, d.kind, d.hash, d.body, d.input_schema, d.options, *texts)
        created = session.row("delete_definition", *values) or (session.now, d.created_by)
        session.run("insert_definition", *values, *created)


def swap_definition(session: Session, definition: Definition, *, expected: str) -> bool:
    current = read_definition(session, definition.workspace, definition.name, definition.version)
    if current is None or current.content != definition.content:
        if ("" if current is None else current.hash) != expected:
            return False
        put_definitions(session, [definition])
    return True


def drop_definitions(session: Session, workspace: str, *names: str) -> int:
    return len(session.rows("drop_definitions", workspace, as_list(list(names))))


def read_definition(session: Session, workspace: str, name: str, version: str = "") -> Definition | None:
    row = session.row("read_definition", workspace, name, version)
    return None if row is None else _definition(row)


def list_definitions(session: Session, workspace: str, *names: str) -> Sequence[Definition]:
    if names:
        rows = session.rows("list_named_definitions", workspace, as_list(list(names)))
    else:
        rows = session.rows("list_definitions", workspace)
    return [_definition(row) for row in rows]


def switch(session: Session, switch: WorkflowSwitch) -> bool:
    rows = session.rows("read_switch", switch.workspace, switch.workflow)
    if switch.enabled == (not rows or bool(rows[0][0])):
        return False
    at = session.now
    session.run("put_switch", *switch[:2], int(switch.enabled), switch.by, switch.reason, at)
    return True


def list_switches(session: Session, workspace: str) -> Sequence[WorkflowSwitch]:
    rows = [WorkflowSwitch(*row) for row in session.rows("list_switches", workspace)]
    return [row._replace(enabled=bool(row.enabled)) for row in rows]


def read_codec_check(session: Session) -> bytes | None:
    row = session.row("read_codec_check")
    return None if row is None else row[0]


def write_codec_check(session: Session, value: bytes, *, expected: bytes | None) -> bool:
    return session.row("write_codec_check", value, expected) is not None


def _definition(row: Row) -> Definition:
    name, version, kind, hash, body, input_schema, options, workspace = row[:8]
    title, description, created_at, created_by = row[8:]
    return Definition(
        name=name,
        version=version,
        kind=kind,
        hash=hash,
        body=body,
        input_schema=input_schema,
        options=options,
        workspace=workspace,
        title=title,
        description=description,
        created_at=created_at,
        created_by=created_by,
    )
