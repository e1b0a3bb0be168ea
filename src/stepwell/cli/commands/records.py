"""`stepwell records`: collections of typed values, and the records in them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli.command import Commands
from stepwell.cli.options import By, Limit, Yes, json_value, pairs, read_bytes, write_bytes
from stepwell.cli.output import Column
from stepwell.cli.session import CliSession
from stepwell.cli.text import short_time, time_text
from stepwell.errors import InvalidFile, InvalidRequest

if TYPE_CHECKING:
    from stepwell.client.client import Client
    from stepwell.client.records import CollectionInfo
    from stepwell.domain.records import Record

commands = Commands("Keep typed values in collections.")
Name = Annotated[str, typer.Argument(metavar="COLLECTION", help="Name of the collection.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Id of the record.")]
Data = Annotated[
    str, typer.Option("--data", metavar="JSON", help="Fields of the record as JSON, @FILE, or - for stdin.")
]
Fields = Annotated[list[str], typer.Option("--set", metavar="FIELD=VALUE", help="One field.")]
Version = Annotated[
    int, typer.Option("--version", metavar="N", help="Only this version; otherwise it is a conflict.", min=1)
]
_FORMAT = "stepwell-records"
_EXPORT = "write one: stepwell records export"


@commands.add("list", "stepwell records list")
async def list_(session: CliSession, limit: Limit = 100) -> None:
    """List the collections by name."""
    async with session.client() as client:
        infos = await client.records.collections(limit=max(1, limit))
        now = await session.now(client)
    if session.out.as_json:
        session.out.json([collection_data(info) for info in infos])
        return
    heads = [
        Column("NAME", lambda info: str(info.name), share=1),
        Column("RECORDS", lambda info: f"{info.records:,}"),
        Column("KEY", lambda info: str(info.key)),
        Column("FIND", lambda info: ",".join(info.find), share=1),
        Column("VERSION", lambda info: str(info.version)),
        Column(
            "CHANGED",
            lambda info: time_text(info.updated_at) or "",
            lambda info: short_time(info.updated_at, now),
        ),
    ]
    session.out.table(
        heads, infos, empty="there are no collections; define one: stepwell records define NAME"
    )


@commands.add(
    "define",
    "stepwell records define customers --schema @customer.json --key email --find city",
    "stepwell records define notes",
)
async def define(
    session: CliSession,
    name: Name,
    schema: Annotated[
        str, typer.Option("--schema", metavar="JSON", help="JSON Schema of its records, or @FILE.")
    ] = "true",
    key: Annotated[
        str, typer.Option("--key", metavar="FIELD", help="A field that no two records share.")
    ] = "",
    find: Annotated[list[str], typer.Option("--find", metavar="FIELD", help="A field to find by.")] = [],
    by: By = "",
) -> None:
    """Create a collection, or change its definition."""
    definition = json_value("--schema", schema)
    async with session.client(create=True) as client:
        info = await client.records.define(name, schema=definition, key=key, find=find, by=by or session.user)
    if session.out.as_json:
        session.out.json(collection_data(info))
    else:
        session.out.say(f"{name} is defined, version {info.version}")


@commands.add("show", "stepwell records show customers")
async def show(session: CliSession, name: Name) -> None:
    """Show the definition of a collection."""
    async with session.client() as client:
        info = await client.records.collection(name)
    session.out.json(collection_data(info))


@commands.add("drop", "stepwell records drop customers --with-records")
async def drop(
    session: CliSession,
    name: Name,
    with_records: Annotated[
        bool, typer.Option("--with-records", help="Delete its records, too.", show_default=False)
    ] = False,
    yes: Yes = False,
    by: By = "",
) -> int:
    """Delete a collection."""
    if with_records and not session.out.confirm(f"Delete {name} with all its records?", yes=yes):
        raise InvalidRequest("nothing was deleted")
    async with session.client() as client:
        done = await client.records.drop(name, with_records=with_records, by=by or session.user)
    return session.out.deleted(name, done, names="stepwell records list")


@commands.add(
    "create",
    "stepwell records create customers --set email=ann@example.com --set city=Rome",
    "stepwell records create customers --data @ann.json --id ann",
)
async def create(
    session: CliSession,
    name: Name,
    data: Data = "",
    fields: Fields = [],
    id: Annotated[
        str, typer.Option("--id", metavar="ID", help="Id of the record; makes a repeat harmless.")
    ] = "",
) -> None:
    """Create a record."""
    given = _given(data, fields)
    async with session.client() as client:
        record = await client.records.create(name, given, id=id)
    session.out.json(record_data(record))


@commands.add(
    "find",
    "stepwell records find customers --where city=Rome",
    "stepwell records find customers --json | jq '.[].data.email'",
)
async def find(
    session: CliSession,
    name: Name,
    where: Annotated[
        list[str],
        typer.Option("--where", metavar="FIELD=VALUE", help="An indexed field."),
    ] = [],
    before: Annotated[
        str, typer.Option("--before", metavar="NEXT", help="Continue where the page before ended.")
    ] = "",
    limit: Limit = 100,
) -> None:
    """Find records by indexed fields; without --where list them."""
    async with session.client() as client:
        page = await client.records.find(name, pairs("--where", where), before=before, limit=max(1, limit))
    if session.out.as_json:
        session.out.json([record_data(record) for record in page])
    else:
        heads = [
            Column("ID", lambda record: str(record.id), width=32),
            Column("VERSION", lambda record: str(record.version)),
            Column("DATA", lambda record: _json_text(record.data), share=1),
        ]
        session.out.table(heads, page, empty=f"{name} has no such records")
    if page.next:
        session.out.say(f"there are more: --before {page.next}")


@commands.add(
    "get", "stepwell records get customers ann", "stepwell records get customers --key ann@example.com"
)
async def get(
    session: CliSession,
    name: Name,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the record; or use --key.")] = "",
    key: Annotated[
        str, typer.Option("--key", metavar="VALUE", help="Value of the collection's key field.")
    ] = "",
) -> None:
    """Show a record."""
    value = pairs("--key", [f"key={key}"])["key"] if key else None
    async with session.client() as client:
        record = await client.records.get(name, id, key=value)
    session.out.json(record_data(record))


@commands.add("update", "stepwell records update customers ann --set city=Bonn --version 3")
async def update(
    session: CliSession,
    name: Name,
    id: Id,
    data: Data = "",
    fields: Fields = [],
    version: Version | None = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Remove all other fields of the record.", show_default=False)
    ] = False,
) -> None:
    """Set fields of a record; the others stay."""
    given = _given(data, fields)
    async with session.client() as client:
        record = await client.records.update(name, id, given, version=version or 0, whole=whole)
    session.out.json(record_data(record))


@commands.add("delete", "stepwell records delete customers ann")
async def delete(session: CliSession, name: Name, id: Id, version: Version | None = None) -> int:
    """Delete a record."""
    async with session.client() as client:
        done = await client.records.delete(name, id, version=version or 0)
    return session.out.deleted(id, done, names=f"stepwell records find {name}")


@commands.add("export", "stepwell records export customers --to customers.jsonl")
async def export(
    session: CliSession,
    name: Name,
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="File to write; - is stdout.")] = "-",
) -> None:
    """Write a collection as lines of JSON: its definition, then its records."""
    lines: list[bytes] = []
    async with session.client() as client:
        info = await client.records.collection(name)
        lines.append(_line({"format": _FORMAT, **collection_data(info)}))
        before, more = "", True
        while more:
            page = await client.records.find(name, before=before, limit=1000)
            lines += [_line(_exact(record)) for record in page]
            before, more = page.next, bool(page.next)
    write_bytes(to, b"\n".join(lines))
    session.out.say(f"{len(lines) - 1:,} records of {name} are written")


@commands.add("import", "stepwell records import customers.jsonl")
async def import_(
    session: CliSession,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What export wrote; - is stdin.")],
    by: By = "",
) -> None:
    """Restore an exported collection. Records whose id exists stay as they are."""
    head, records = _read(file)
    async with session.client(create=True) as client:
        name = str(head["name"])
        await _define(client, head, by or session.user)
        written = 0
        for at in range(0, len(records), 500):
            written += await client.records.restore(name, records[at : at + 500])
    if session.out.as_json:
        session.out.json({"name": name, "records": len(records), "written": written})
    else:
        session.out.say(f"{written:,} of {len(records):,} records of {name} are written")


async def _define(client: Client, head: dict[str, Any], by: str) -> None:
    """Create the collection. An existing one keeps its definition."""
    from stepwell.errors import CollectionNotFound

    try:
        await client.records.collection(head["name"])
    except CollectionNotFound:
        await client.records.define(
            head["name"], schema=head["schema"], key=head["key"], find=head["find"], by=by
        )


def _read(file: str) -> tuple[dict[str, Any], list[Record]]:
    import msgspec

    from stepwell.domain.records import Record

    at = 1
    try:
        first, *rest = [line for line in read_bytes(file).split(b"\n") if line.strip()] or [b"null"]
        head = msgspec.json.decode(first)
        if not isinstance(head, dict) or head.get("format") != _FORMAT:
            raise InvalidFile(
                f"{file} is not an exported collection", hint="write one: stepwell records export"
            )
        records = []
        for line in rest:
            at += 1
            row = msgspec.json.decode(line, type=dict[str, Any])
            times = {name: _seconds(row[name]) for name in ("created_at", "updated_at")}
            records.append(msgspec.convert({**row, **times}, Record))
        _ = head["name"], head["schema"], head["key"], head["find"]
    except (msgspec.MsgspecError, UnicodeError, KeyError, ValueError, TypeError) as error:
        raise InvalidFile(
            f"{file} is not an exported collection: line {at}: {error}",
            hint=_EXPORT,
        ) from None
    return head, records


def _given(data: str, fields: list[str]) -> dict[str, Any]:
    given = json_value("--data", data) if data else {}
    if not isinstance(given, dict) or not (data or fields):
        raise InvalidRequest(
            "there are no fields to write", hint="give --set FIELD=VALUE, or --data with a JSON object"
        )
    return {**given, **pairs("--set", fields)}


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).astimezone(UTC).timestamp()


def _exact(record: Record) -> dict[str, Any]:
    """Return a record with times to the microsecond, so that an import restores them exactly."""
    times = {name: getattr(record, name) for name in ("created_at", "updated_at")}
    return {
        **record_data(record),
        **{name: datetime.fromtimestamp(at, UTC).isoformat() for name, at in times.items()},
    }


def _line(value: dict[str, Any]) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def _json_text(value: Any) -> str:
    return _line(value).decode()


def collection_data(info: CollectionInfo) -> dict[str, Any]:
    times = {name: time_text(getattr(info, name)) for name in ("created_at", "updated_at")}
    return {**asdict(info), "find": list(info.find), **times}


def record_data(record: Record) -> dict[str, Any]:
    return {
        "collection": record.collection,
        "id": record.id,
        "version": record.version,
        "data": record.data,
        "created_at": time_text(record.created_at),
        "updated_at": time_text(record.updated_at),
    }
