"""Rules of records: what a change reads and writes is one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

import pytest

from stepwell.domain.records import (
    COLLECTIONS_MAX,
    Collection,
    Decide,
    Record,
    RecordFilter,
    RecordPlace,
    creating,
    deleting,
    term_of,
    updating,
)
from stepwell.errors import (
    CollectionChanged,
    CollectionNotFound,
    RecordChanged,
    RecordExists,
    RecordInvalid,
    RecordLimit,
    RecordNotFound,
    StepwellError,
)
from stepwell.testing.stores.scene import Scene, checked

SCHEMA = b'{"type":"object","required":["email"],"properties":{"age":{"type":"integer"}}}'


def people(**changes: Any) -> Collection:
    values: dict[str, Any] = {
        "name": "people",
        "schema": SCHEMA,
        "key": "email",
        "find": ("city",),
        "created_at": 1000.5,
        "created_by": "ann",
        "updated_at": 1000.5,
        "updated_by": "ann",
    }
    return Collection(**{**values, **changes})


async def change(
    scene: Scene, decide: Decide, id: str = "r1", *, action: Any = "create", **place: Any
) -> Any:
    values: dict[str, Any] = {"workspace": "default", "collection": "people", "id": id, **place}
    return await scene.store.change_record(RecordPlace(action, **values), decide)


async def create(scene: Scene, id: str, data: bytes, **place: Any) -> Record:
    record: Record = await change(scene, creating(id, data), id, **place)
    return record


async def found(scene: Scene, *terms: tuple[str, Any], **more: Any) -> list[str]:
    wanted = tuple((field, term_of(field, value)) for field, value in terms)
    filter = RecordFilter(collection="people", terms=wanted, **more)
    return [record.id for record in await scene.store.find_records(filter)]


async def count(scene: Scene) -> int:
    collection = await scene.store.read_collection("default", "people")
    assert collection is not None
    return collection.records


class RecordRules:
    @pytest.mark.req("N24")
    @checked
    async def test_a_collection_is_put_under_its_version(self, scene: Scene) -> None:
        store = scene.store
        changed = people(version=2, schema=b"true", updated_at=1001.0)

        assert not await store.put_collection(changed, expected=1)
        assert await store.put_collection(people(), expected=0)
        assert await store.put_collection(people(), expected=0), "a repeated call"
        assert not await store.put_collection(people(created_by="eve"), expected=0)
        assert await store.put_collection(changed, expected=1)
        assert not await store.put_collection(people(version=2), expected=1)

        assert await store.read_collection("default", "people") == changed
        assert await store.read_collection("acme", "people") is None

    @pytest.mark.req("X5")
    @checked
    async def test_collections_are_listed_by_workspace_and_name(self, scene: Scene) -> None:
        for name in ("b", "c", "a"):
            await scene.store.put_collection(people(name=name), expected=0)
        await scene.store.put_collection(people(workspace="acme"), expected=0)

        listed = await scene.store.list_collections("default")
        page = await scene.store.list_collections("default", after="a", limit=1)

        assert [each.name for each in listed] == ["a", "b", "c"]
        assert [each.name for each in page] == ["b"]

    @checked
    async def test_a_workspace_has_so_many_collections(self, scene: Scene) -> None:
        for number in range(COLLECTIONS_MAX):
            await scene.store.put_collection(people(name=f"c{number}"), expected=0)

        with pytest.raises(RecordLimit):
            await scene.store.put_collection(people(name="one-more"), expected=0)
        assert await scene.store.put_collection(people(workspace="acme"), expected=0)

    @pytest.mark.req("N24")
    @checked
    async def test_a_record_is_created_changed_and_deleted(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)

        created = await create(scene, "r1", b'{"email":"a@x","city":"Rome"}')
        scene.clock.advance(5.0)
        changed = await change(scene, updating("r1", b'{"city":"Bonn"}'), action="update")
        stored = await scene.store.read_record("default", "people", id="r1")
        gone = await change(scene, deleting("r1", version=2), action="delete")

        assert (created.version, created.data) == (1, {"email": "a@x", "city": "Rome"})
        assert (changed.version, changed.data) == (2, {"email": "a@x", "city": "Bonn"})
        assert changed.updated_at == created.updated_at + 5.0
        assert changed.created_at == created.created_at
        assert stored is not None
        assert (stored.version, stored.body) == (2, b'{"email":"a@x","city":"Bonn"}')
        assert gone is True
        assert await scene.store.read_record("default", "people", id="r1") is None
        assert await count(scene) == 0
        assert await found(scene, ("city", "Bonn")) == []

    @pytest.mark.req("N24")
    @checked
    async def test_what_does_not_fit_changes_nothing(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)
        await create(scene, "r1", b'{"email":"a@x"}')
        refused: list[tuple[type[Exception], str, Decide, str]] = [
            (RecordInvalid, "r2", creating("r2", b'{"email":"b@x","age":"old"}'), "create"),
            (RecordInvalid, "r2", creating("r2", b'{"email":null}'), "create"),
            (RecordExists, "r1", creating("r1", b'{"email":"b@x"}'), "create"),
            (RecordExists, "r2", creating("r2", b'{"email":"a@x"}'), "create"),
            (RecordChanged, "r1", updating("r1", b"{}", version=2), "update"),
            (RecordChanged, "r1", deleting("r1", version=2), "delete"),
            (RecordNotFound, "r2", updating("r2", b"{}"), "update"),
            (RecordInvalid, "r1", updating("r1", b'{"age":1}', whole=True), "update"),
        ]

        for error, id, decide, action in refused:
            with pytest.raises(error):
                await change(scene, decide, id, action=action)
        with pytest.raises(CollectionNotFound):
            await create(scene, "r1", b"{}", workspace="acme")
        repeated = await create(scene, "r1", b'{"email":"a@x"}')

        assert repeated.version == 1
        assert await count(scene) == 1
        assert await found(scene) == ["r1"]

    @pytest.mark.req("N24")
    @checked
    async def test_records_are_found_by_all_their_marks_in_pages(self, scene: Scene) -> None:
        await scene.store.put_collection(people(find=("city", "age")), expected=0)
        for number in range(6):
            city = "Rome" if number % 2 else "Bonn"
            data = f'{{"email":"{number}@x","city":"{city}","age":{number % 3}}}'
            await create(scene, f"r{number}", data.encode())

        assert await found(scene, ("city", "Rome")) == ["r1", "r3", "r5"]
        assert await found(scene, ("city", "Rome"), after="r1", limit=1) == ["r3"]
        assert await found(scene, ("city", "Rome"), ("age", 2)) == ["r5"]
        assert await found(scene, ("city", "Rome"), ("age", 2.0)) == ["r5"]
        assert await found(scene, ("age", "2")) == [], "a text is not a number"
        assert await found(scene, ("email", "4@x")) == ["r4"], "the key is indexed, too"
        assert await found(scene, after="r3", limit=9) == ["r4", "r5"]
        assert await found(scene, workspace="acme") == []

    @checked
    async def test_a_record_is_reached_by_its_key(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)
        await create(scene, "r1", b'{"email":"a@x"}')
        key: dict[str, Any] = {"id": "", "keys": ('"a@x"',)}

        changed = await change(scene, updating("", b'{"age":7}'), action="update", **key)
        stored = await scene.store.read_record("default", "people", keys=['"a@x"'])

        assert (changed.id, changed.version) == ("r1", 2)
        assert stored is not None
        assert stored.id == "r1"
        assert await change(scene, deleting(""), action="delete", **key)
        assert not await change(scene, deleting(""), action="delete", **key)

    @checked
    async def test_a_key_that_was_freed_may_be_taken(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)
        await create(scene, "r1", b'{"email":"a@x"}')
        await change(scene, updating("r1", b'{"email":"b@x"}'), action="update")

        assert (await create(scene, "r2", b'{"email":"a@x"}')).id == "r2"
        with pytest.raises(RecordExists):
            await change(scene, updating("r1", b'{"email":"a@x"}'), action="update")

    @checked
    async def test_of_changes_of_one_version_one_wins(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)
        await create(scene, "r1", b'{"email":"a@x"}')

        answers = await _at_once(
            change(scene, updating("r1", b'{"age":%d}' % number, version=1), action="update")
            for number in range(8)
        )

        won = [answer for answer in answers if isinstance(answer, Record)]
        assert [record.version for record in won] == [2]
        assert all(isinstance(answer, Record | RecordChanged) for answer in answers), answers

    @checked
    async def test_of_records_with_one_key_one_is_created(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)

        answers = await _at_once(create(scene, f"r{number}", b'{"email":"a@x"}') for number in range(8))

        assert sum(isinstance(answer, Record) for answer in answers) == 1
        assert all(isinstance(answer, Record | RecordExists) for answer in answers), answers
        assert await count(scene) == 1

    @checked
    async def test_what_is_indexed_stays_while_there_are_records(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)
        await create(scene, "r1", b'{"email":"a@x"}')

        with pytest.raises(CollectionChanged):
            await scene.store.put_collection(people(version=2, find=("age",)), expected=1)
        with pytest.raises(CollectionChanged):
            await scene.store.drop_collection("default", "people")
        assert await scene.store.put_collection(people(version=2, schema=b"true"), expected=1)
        assert await scene.store.clear_collection("default", "people") == 1
        assert await scene.store.drop_collection("default", "people")
        assert not await scene.store.drop_collection("default", "people")

    @checked
    async def test_a_collection_is_cleared_in_parts(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)
        for number in range(5):
            await create(scene, f"r{number}", b'{"email":"%d"}' % number)

        counts = [await scene.store.clear_collection("default", "people", limit=2) for _ in range(4)]

        assert counts == [2, 2, 1, 0]
        assert await count(scene) == 0
        assert await found(scene, ("email", "1")) == []

    @pytest.mark.req("N24", "K14")
    @checked
    async def test_a_change_in_a_commit_is_written_with_it_or_not_at_all(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)
        claim = await scene.begun()
        place = RecordPlace("create", "default", "people", "r1")
        decide = creating("r1", b'{"email":"a@x"}')
        lost = scene.member(claim, scene.done("tx"), lease=type(claim.lease)("stale"))

        await scene.store.transact(scene.store.record_change(place, decide), _turn(scene, lost))
        before = await scene.store.read_record("default", "people", id="r1")
        results: list[Record] = []
        done = await scene.store.transact(
            scene.store.record_change(place, decide),
            _turn(scene, scene.member(claim, scene.done("tx")), results),
        )

        assert before is None
        assert done.outcome.value == "ok"
        assert results[0].data == {"email": "a@x"}
        assert await found(scene, ("email", "a@x")) == ["r1"]
        assert await count(scene) == 1

    @checked
    async def test_a_refused_change_in_a_commit_writes_no_event(self, scene: Scene) -> None:
        await scene.store.put_collection(people(), expected=0)
        claim = await scene.begun()
        place = RecordPlace("update", "default", "people", "r1")
        turned: list[Any] = []
        body = scene.store.record_change(place, updating("r1", b"{}"))

        with pytest.raises(RecordNotFound):
            await scene.store.transact(body, _turn(scene, scene.member(claim, scene.done("tx")), turned))

        assert turned == []
        await scene.ok(scene.member(claim, scene.done("after")))


async def _at_once(calls: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    """What concurrent calls return or raise."""

    async def outcome(call: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await call
        except StepwellError as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(outcome(call)) for call in calls]
    return [task.result() for task in tasks]


def _turn(scene: Scene, commit: Any, results: list[Any] | None = None) -> Any:
    def turn(result: Any) -> Any:
        if results is not None:
            results.append(result)
        return commit

    async def turned(result: Any) -> Any:
        return turn(result)

    return turn if scene.store.sync_transactions else turned
