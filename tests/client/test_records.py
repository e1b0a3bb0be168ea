"""Records as a client sees them, in the process of the database and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stepwell import Engine, Record
from stepwell.client import Client
from stepwell.domain import records as rules
from stepwell.errors import (
    CollectionChanged,
    CollectionNotFound,
    Conflict,
    InvalidRequest,
    RecordChanged,
    RecordExists,
    RecordInvalid,
    RecordLimit,
    RecordNotFound,
    StepwellError,
)
from tests.engines import Engines
from tests.http_client.connected import connected

pytestmark = pytest.mark.req("N24")

PERSON = {
    "type": "object",
    "required": ["email"],
    "properties": {"email": {"type": "string", "pattern": "^[^@]+@[^@]+$"}, "age": {"type": "integer"}},
}


@pytest.fixture(params=["database", "http"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def opened(engines: Engines, way: str) -> AsyncIterator[Client]:
    """A client with an empty collection of people."""
    if way == "http":
        async with connected(engines) as both:
            await both.client.records.define("people", schema=PERSON, key="email", find=["city", "age"])
            yield both.client
    else:
        async with engines.new(worker=False) as engine:
            await engine.records.define("people", schema=PERSON, key="email", find=["city", "age"])
            yield engine


async def test_a_record_lives_through_its_versions(engines: Engines, way: str) -> None:
    async with opened(engines, way) as client:
        records = client.records
        created = await records.create("people", {"email": "ann@x", "city": "Rome"})
        changed = await records.update("people", created.id, {"city": "Bonn", "age": 7}, version=1)
        whole = await records.update("people", created.id, {"email": "ann@y"}, version=2, whole=True)

        assert (created.collection, created.version) == ("people", 1)
        assert (changed.version, changed.data) == (2, {"email": "ann@x", "city": "Bonn", "age": 7})
        assert (whole.version, whole.data) == (3, {"email": "ann@y"})
        assert whole.created_at == pytest.approx(created.created_at, abs=1e-3)
        assert await records.get("people", created.id) == whole
        assert await records.get("people", key="ann@y") == whole
        with pytest.raises(RecordNotFound):
            await records.get("people", key="ann@x")
        with pytest.raises(RecordChanged, match="version 3, not 2"):
            await records.delete("people", created.id, version=2)
        assert await records.delete("people", created.id, version=3)
        assert not await records.delete("people", created.id)
        assert (await records.collection("people")).records == 0


async def test_pages_of_what_is_found_have_every_record_once(engines: Engines, way: str) -> None:
    async with opened(engines, way) as client:
        made = [
            await client.records.create(
                "people", {"email": f"{n}@x", "city": ("Rome", "Bonn")[n % 2], "age": n}
            )
            for n in range(7)
        ]
        seen: list[Record] = []
        before, pages = "", 0
        while pages == 0 or before:
            page = await client.records.find("people", {"city": "Rome"}, before=before, limit=2)
            seen += page
            before, pages = page.next, pages + 1

        assert [record.id for record in seen] == [record.id for record in made[::2]]
        assert pages == 2
        assert [r.data["age"] for r in await client.records.find("people", {"city": "Rome", "age": 4})] == [4]
        assert len(await client.records.find("people")) == 7
        assert await client.records.find("people", {"city": "Oslo"}) == []


async def test_a_repeated_create_with_an_id_is_the_same_record(engines: Engines, way: str) -> None:
    async with opened(engines, way) as client:
        first = await client.records.create("people", {"email": "ann@x"}, id="ann")
        again = await client.records.create("people", {"email": "ann@x"}, id="ann")

        assert again == first
        with pytest.raises(RecordExists, match="has a record 'ann'"):
            await client.records.create("people", {"email": "eve@x"}, id="ann")
        with pytest.raises(RecordExists, match="another record of people has this email"):
            await client.records.create("people", {"email": "ann@x"})


async def test_a_definition_changes_by_version_and_keeps_what_is_indexed(engines: Engines, way: str) -> None:
    async with opened(engines, way) as client:
        records = client.records
        same = await records.define("people", schema=PERSON, key="email", find=["city", "age"])
        await records.create("people", {"email": "ann@x"})
        changed = await records.define("people", schema=True, key="email", find=["city", "age"], expected=1)

        assert (same.version, changed.version) == (1, 2)
        for name, expected in {"people": 1, "others": 3}.items():
            with pytest.raises(CollectionChanged):
                await records.define(name, expected=expected)
        with pytest.raises(CollectionChanged):
            await records.define("people", expected=0)
        with pytest.raises(CollectionChanged, match="its key and its find fields cannot change"):
            await records.define("people", key="email", find=["zip"])
        with pytest.raises(CollectionChanged):
            await records.drop("people")
        assert await records.drop("people", with_records=True)
        assert not await records.drop("people")
        assert await records.collections() == []


async def test_exported_records_are_restored_as_they_were(engines: Engines, way: str) -> None:
    async with opened(engines, way) as client:
        one = await client.records.create("people", {"email": "ann@x", "city": "Rome"})
        two = await client.records.update("people", one.id, {"city": "Bonn"})
        await client.records.delete("people", one.id)

        assert await client.records.restore("people", [two]) == 1
        assert await client.records.restore("people", [two]) == 0
        assert await client.records.get("people", one.id) == two
        assert [r.id for r in await client.records.find("people", {"city": "Bonn"})] == [one.id]


HOSTILE: list[tuple[type[StepwellError], str, Any]] = [
    (RecordInvalid, "create", ("people", {"email": "no address"})),
    (RecordInvalid, "create", ("people", {"email": 7})),
    (RecordInvalid, "create", ("people", {})),
    (RecordInvalid, "create", ("people", {"email": "a@x", "age": 1.5})),
    (RecordInvalid, "create", ("people", {"email": "a@x", "city": ["Rome"]})),
    (RecordInvalid, "create", ("people", {"email": "a@x", "city": {"$ne": None}})),
    (RecordInvalid, "create", ("people", {"email": "a@x", "city": "x" * 300})),
    (RecordInvalid, "create", ("people", {"email": "a@x", "more": "x" * 70_000})),
    (RecordInvalid, "create", ("people", {"email": "a@x", "more": float("nan")})),
    (RecordInvalid, "create", ("people", [1])),
    (RecordInvalid, "create", ("people", "{}")),
    (RecordInvalid, "create", ("people", {"email": "a@x", "more": "\ud800"})),
    (CollectionNotFound, "create", ("nobody", {"email": "a@x"})),
    (InvalidRequest, "create", ("../people", {"email": "a@x"})),
    (InvalidRequest, "create", ("people; DROP TABLE records", {"email": "a@x"})),
    (InvalidRequest, "create", ("", {"email": "a@x"})),
    (InvalidRequest, "create", (None, {"email": "a@x"})),
    (InvalidRequest, "create", ("x" * 65, {"email": "a@x"})),
    (InvalidRequest, "get", ("people", "a/b")),
    (InvalidRequest, "get", ("people", "")),
    (InvalidRequest, "get", ("people", "x\0")),
    (RecordNotFound, "get", ("people", "nobody")),
    (InvalidRequest, "get", ("people", "' OR 1=1 --")),
    (InvalidRequest, "find", ("people", {"name": "x"})),
    (InvalidRequest, "find", ("people", {"city": ["Rome"]})),
    (InvalidRequest, "find", ("people", "city")),
    (CollectionNotFound, "find", ("nobody",)),
    (RecordNotFound, "update", ("people", "nobody", {"age": 1})),
    (RecordInvalid, "update", ("people", "one", {"email": "x"})),
    (RecordInvalid, "update", ("people", "one", {"email": None})),
    (RecordExists, "update", ("people", "one", {"email": "two@x"})),
    (InvalidRequest, "define", ("people and others",)),
    (CollectionNotFound, "collection", ("nobody",)),
]


async def test_what_does_not_fit_is_refused_with_its_reason_and_changes_nothing(
    engines: Engines, way: str
) -> None:
    async with opened(engines, way) as client:
        await client.records.create("people", {"email": "one@x"}, id="one")
        await client.records.create("people", {"email": "two@x"}, id="two")
        before = list(await client.records.find("people"))

        for error, verb, arguments in HOSTILE:
            with pytest.raises(error) as refused:
                await getattr(client.records, verb)(*arguments)
            assert refused.value.hint, (verb, arguments)
            assert len(str(refused.value)) < 2000

        assert list(await client.records.find("people")) == before


@pytest.mark.parametrize(
    "options",
    [
        {"schema": "a text"},
        {"schema": {"type": "strange"}},
        {"schema": {"$ref": "https://example.com/schema.json"}},
        {"schema": {"$ref": "file:///etc/passwd"}},
        {"schema": {"properties": {"a": {"pattern": "^(?=x)"}}}},
        {"schema": {"description": "x" * 70_000}},
        {"find": ["a", "a"]},
        {"key": "a", "find": ["a"]},
        {"find": [str(n) for n in range(9)]},
        {"find": "city"},
        {"find": [7]},
        {"find": [""]},
        {"find": ["a\0b"]},
        {"key": 7},
        {"expected": -1},
        {"expected": True},
    ],
)
async def test_a_definition_that_cannot_be_is_refused(
    memory_engines: Engines, way: str, options: dict[str, Any]
) -> None:
    async with opened(memory_engines, way) as client:
        with pytest.raises(InvalidRequest):
            await client.records.define("more", **options)

        assert [info.name for info in await client.records.collections()] == ["people"]


async def test_a_pattern_cannot_hold_up_the_database(engines: Engines) -> None:
    """BI: a pattern that another checker would need years for takes a time that grows with the text."""
    async with engines.new(worker=False) as engine:
        schema = {"properties": {"a": {"items": {"pattern": "^(a+)+$"}}}}
        await engine.records.define("texts", schema=schema)
        async with asyncio.timeout(20):
            with pytest.raises(RecordInvalid):
                await engine.records.create("texts", {"a": ["a" * 3000 + "!"] * 20})


async def test_a_full_collection_takes_no_more(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "RECORDS_MAX", 2)
    async with engines.new(worker=False) as engine:
        await engine.records.define("few")
        one = await engine.records.create("few", {"n": 1})
        await engine.records.create("few", {"n": 2})

        with pytest.raises(RecordLimit):
            await engine.records.create("few", {"n": 3})
        with pytest.raises(RecordLimit):
            await engine.records.restore("few", [Record(**{**_fields(one), "id": "other"})])
        await engine.records.update("few", one.id, {"n": 5})
        await engine.records.delete("few", one.id)
        await engine.records.create("few", {"n": 3})


def _fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


@pytest.mark.req("X5")
async def test_workspaces_do_not_see_each_others_records(engines: Engines) -> None:
    async with engines.new(worker=False) as engine:
        other = engine.within("acme")
        await engine.records.define("people", key="email")
        ours = await engine.records.create("people", {"email": "a@x"}, id="one")

        with pytest.raises(CollectionNotFound):
            await other.records.get("people", "one")
        await other.records.define("people", key="email")
        with pytest.raises(RecordNotFound):
            await other.records.get("people", "one")
        theirs = await other.records.create("people", {"email": "a@x"}, id="one")
        await other.records.update("people", "one", {"more": 1})
        await other.records.drop("people", with_records=True)

        assert theirs.id == ours.id
        assert await engine.records.get("people", "one") == ours


async def test_records_stay_when_old_runs_are_removed(engines: Engines) -> None:
    async with engines.new(worker=False) as engine:
        await engine.records.define("people")
        await engine.records.create("people", {"email": "a@x"})

        await engine.store.purge(0.0)

        assert len(await engine.records.find("people")) == 1


async def test_many_writers_of_one_collection_count_right(engines: Engines) -> None:
    async with engines.new(worker=False) as one, engines.new(worker=False) as two:
        await one.records.define("people", key="n")
        answers = await asyncio.gather(
            *(_tried(engine, n) for n in range(20) for engine in (one, two)),
        )

        assert answers.count(True) == 20
        assert (await two.records.collection("people")).records == 20
        assert len(await one.records.find("people")) == 20


async def _tried(engine: Engine, n: int) -> bool:
    try:
        await engine.records.create("people", {"n": n})
    except Conflict:
        return False
    return True
