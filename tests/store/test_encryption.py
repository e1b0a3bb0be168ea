"""An encrypted database: nothing that users wrote is in it in clear text, and only its key opens it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from stepwell import (
    Context,
    Retry,
    RunHandle,
    Source,
    SourceEvent,
    StepContext,
    SyncClient,
    source,
    step,
    workflow,
)
from stepwell.domain import events as ev
from stepwell.domain.codec import digest
from stepwell.domain.commit import RunFilter
from stepwell.domain.events import Fact
from stepwell.domain.triggers.event_runs import TRIGGER
from stepwell.domain.triggers.trigger import Trigger
from stepwell.errors import (
    CodecMissing,
    KeyConflict,
    RecordExists,
    RunCancelled,
    RunFailed,
    SearchRefused,
    StoreUnusable,
)
from stepwell.store.base import Store
from stepwell.store.encoded import PLAIN_KINDS
from stepwell.store.memory import MemoryStore
from stepwell.store.open import open_store
from stepwell.store.payloads import CodecChain, Compression, Encryption, PayloadCodec
from stepwell.store.postgres import migrate
from stepwell.store.sqlite import database_file as sqlite_file
from tests.engines import Engines, suspended, until
from tests.store.old_database import write_runs

OLD, NEW = b"o" * 32, b"n" * 32
KEPT = Encryption({"a": OLD}, current="a")
TAGS = {"canary-name": "canary-value", "customer": "canary"}


@step
async def whisper(ctx: StepContext, word: str) -> str:
    ctx.save("note", "canary-document")
    return f"canary-{word}"


@step(retry=Retry(1))
async def fail(word: str) -> str:
    raise ValueError(f"canary-{word}")


@workflow
async def below(ctx: Context, word: str) -> str:
    return await ctx.signal("go", str)


@workflow
async def confide(ctx: Context, word: str) -> str:
    ctx.progress(1, 2, "canary-progress")
    ctx.publish("topic", "canary-news")
    await ctx.step(whisper, word)
    await ctx.start(below, "canary-child")
    first = await ctx.signal("go", str)
    second = await ctx.event("paid", key="7")
    return f"{first} {second}"


@workflow
async def failing(ctx: Context, word: str) -> None:
    await ctx.step(fail, word)


async def stored_bytes(engines: Engines) -> bytes:
    """Everything that the database holds."""
    if isinstance(engines.database, MemoryStore):
        return repr(vars(engines.database)).encode()
    assert isinstance(engines.database, str)
    if engines.kind == "sqlite":
        folder = Path(engines.database).parent
        return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    connection = await asyncpg.connect(engines.database)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'stepwell'")
        stored = b""
        for (table,) in tables:
            for row in await connection.fetch(f"SELECT * FROM stepwell.{table}"):
                stored += b"".join(v if isinstance(v, bytes) else str(v).encode() for v in row.values())
        return stored
    finally:
        await connection.close()


def plain_store(engines: Engines) -> Store:
    return (
        engines.database if isinstance(engines.database, MemoryStore) else open_store(str(engines.database))
    )


@pytest.mark.req("K42")
async def test_nothing_that_a_user_wrote_is_kept_in_clear_text(engines: Engines) -> None:
    async with engines.new(confide, below, failing, codec=KEPT) as engine:
        run = await engine.start(confide, "canary-input", tags=TAGS)
        await suspended(run)
        in_the_middle = await stored_bytes(engines)
        await run.signal("go", "canary-signal")
        await engine.emit("paid", "canary-event", key="7")
        assert await run.result(40) == "canary-signal canary-event"
        failed = await engine.start(failing, "input")
        with pytest.raises(RunFailed, match="canary-input"):
            await failed.result(40)
        cancelled = await engine.start(below, "x")
        await suspended(cancelled)
        await cancelled.cancel("canary-reason")
        with pytest.raises(RunCancelled, match="canary-reason"):
            await cancelled.result(40)

        state = await run.state()
        assert state.progress is not None
        assert state.progress.text == "canary-progress"
        assert msgspec.json.decode((await run.info()).tags) == TAGS

    assert b"canary" not in in_the_middle
    assert b"canary" not in await stored_bytes(engines)


@workflow
async def counted(ctx: Context, number: int) -> int:
    return number


def canaries(fails: list[bool], asked: list[Any]) -> Source:
    @source(every=0.05)
    async def letters(config: dict[str, str], cursor: Any) -> list[SourceEvent]:
        asked.append(cursor)
        if fails and asked.count(cursor) > 1:
            raise ConnectionError(f"canary-failure after {config}")
        return [SourceEvent("1", {"word": "canary-payload"}, cursor={"at": "canary-cursor"})]

    return letters


@pytest.mark.req("K42", "T3")
async def test_what_triggers_and_their_sources_meet_is_not_in_clear_text(engines: Engines) -> None:
    asked: list[Any] = []
    letters = canaries([True], asked)
    async with engines.new(counted, below, sources=[letters], codec=KEPT) as engine:
        options: dict[str, Any] = {"config": {"key": "canary-config"}, "tags": {"kind": "canary-tag"}}
        await engine.triggers.create("mail", counted, "canary-input", source="letters", **options)
        await engine.triggers.create("paid", counted, event="paid")
        await engine.schedules.create("daily", below, "canary-input", cron="0 2 * * *")
        await engine.webhooks.create("shop", below, "canary-input", secret="shop")
        await engine.triggers.pause("paid", reason="canary-reason")
        await engine.triggers.resume("paid")
        await engine.emit("paid", "canary-event")

        async def both() -> Any:
            mail, paid = await engine.triggers.get("mail"), await engine.triggers.get("paid")
            return (mail, paid) if mail.failures and paid.refused else None

        mail, paid = await until(both)

    assert "canary-failure after" in mail.error
    assert mail.refused_reason == paid.refused_reason == "invalid_input"
    assert paid.refused_message
    assert asked[-1] == {"at": "canary-cursor"}
    assert b"canary" not in await stored_bytes(engines)

    asked.clear()
    rotated = Encryption({"a": OLD, "b": NEW}, current="b")
    again = canaries([], asked)
    async with engines.new(counted, sources=[again], codec=rotated) as engine:
        await until(lambda: len(asked) > 1)  # its state is written with the old key, then with the new one
        assert not (await engine.triggers.get("mail")).error
        await engine.emit("paid", "canary-event")

        async def twice() -> bool:
            return (await engine.triggers.get("paid")).refused == 2

        await until(twice)
    assert asked[:2] == [{"at": "canary-cursor"}] * 2
    assert b"canary" not in await stored_bytes(engines)


@pytest.mark.req("K42")
async def test_the_state_of_a_trigger_from_before_there_was_a_codec_is_read_and_encoded(
    engines: Engines,
) -> None:
    asked: list[Any] = []
    async with engines.new(counted, sources=[canaries([], asked)]) as engine:
        await engine.triggers.create("mail", counted, source="letters", config={})
        await until(lambda: len(asked) > 1)
    async with engines.new(counted, sources=[canaries([], asked)], codec=KEPT) as engine:
        asked.clear()
        await until(lambda: len(asked) > 1)
        row = await stored_trigger(engines)

    assert asked[0] == {"at": "canary-cursor"}
    assert b"canary" not in row.state


async def stored_trigger(engines: Engines) -> Trigger:
    """The row of the trigger as the store has it."""
    store = plain_store(engines)
    await store.open(encoded=True)
    row = await store.read_trigger("default", TRIGGER, "mail")
    if not isinstance(store, MemoryStore):
        await store.close()
    assert row is not None
    return row


@pytest.mark.req("K42")
async def test_the_reason_to_cancel_what_nobody_began_is_not_in_clear_text(engines: Engines) -> None:
    async with engines.new(worker=False, codec=KEPT) as client:
        run = await client.start(below, "x")
        await run.cancel("canary-reason")

        with pytest.raises(RunCancelled, match="canary-reason"):
            await run.result(40)
    assert b"canary" not in await stored_bytes(engines)


@pytest.mark.req("K42")
def test_facts_that_stay_readable_hold_no_value_of_users() -> None:
    """A new fact is encoded unless somebody says here that it may be read."""
    fields: dict[str, set[str]] = {}
    for fact, kind in ev.KIND.items():
        assert issubclass(fact, Fact)
        if kind in PLAIN_KINDS:
            fields[kind] = set(fact.__struct_fields__) - {"starts"}  # paths, which are columns too

    assert fields == {
        "claimed": {"lease", "worker", "since"},
        "lease_lost": {"lease"},
        "timer_set": {"seconds", "retry"},
        "timer_fired": set(),
        "step_started": {"step"},
        "node_started": set(),
        "suspended": {"held"},  # whether a person held the run
        "resumed": set(),
        "wait_ended": {"outcome", "received"},
        "compensation_completed": {"failed"},
    }


async def written(engines: Engines, codec: PayloadCodec = KEPT) -> RunHandle[Any]:
    async with engines.new(confide, below, codec=codec) as engine:
        run = await engine.start(confide, "x", key="order-1", tags=TAGS)
        await suspended(run)
        return run


@pytest.mark.req("K42")
@pytest.mark.parametrize(
    "codec", [None, Encryption({"a": NEW}, current="a"), Encryption({"b": NEW}, current="b")]
)
async def test_without_the_key_no_engine_opens_it(engines: Engines, codec: PayloadCodec | None) -> None:
    await written(engines)
    before = await stored_bytes(engines) if engines.kind != "sqlite" else b""

    for worker in (True, False):
        with pytest.raises(CodecMissing) as refused:
            async with engines.new(confide, below, codec=codec, worker=worker):
                pass
        assert "codec" in refused.value.hint

    assert await stored_bytes(engines) == before or engines.kind == "sqlite"
    async with engines.new(confide, below, codec=KEPT) as engine:  # nothing was spoiled
        assert len(await engine.runs()) == 2


@pytest.mark.req("K42")
@pytest.mark.parametrize("codec", [None, Encryption({"a": NEW}, current="a")])
async def test_without_the_key_no_sync_client_opens_it(
    durable_engines: Engines, codec: PayloadCodec | None
) -> None:
    run = await written(durable_engines)

    with pytest.raises(CodecMissing), SyncClient(str(durable_engines.database), codec=codec):
        pass
    with SyncClient(str(durable_engines.database), codec=KEPT) as client:
        client.handle(run.id).signal("go", "canary-signal")

    assert b"canary" not in await stored_bytes(durable_engines)
    async with durable_engines.new(confide, below, codec=KEPT) as engine:
        await engine.emit("paid", "yes", key="7")
        assert await engine.handle(run.id).result(40) == "canary-signal yes"


@pytest.mark.req("K42", "K32")
async def test_a_chain_is_not_read_by_half_of_it(engines: Engines) -> None:
    await written(engines, CodecChain(Compression(), KEPT))

    with pytest.raises(CodecMissing, match="another key or codec"):
        async with engines.new(codec=KEPT):
            pass


@pytest.mark.req("K42", "K32")
async def test_who_lacks_the_new_key_is_refused_after_a_rotation(engines: Engines) -> None:
    run = await written(engines)
    rotated = Encryption({"a": OLD, "b": NEW}, current="b")
    async with engines.new(confide, below, codec=rotated) as engine:
        again = await engine.start(confide, "x", key="order-1")
        assert again.id == run.id
        with pytest.raises(KeyConflict):
            await engine.start(confide, "y", key="order-1")
        assert msgspec.json.decode((await again.info()).tags) == TAGS

    with pytest.raises(CodecMissing, match="'b'"):
        async with engines.new(codec=KEPT):
            pass


@pytest.mark.req("K42")
async def test_the_digest_of_an_input_tells_nothing_without_the_key(engines: Engines) -> None:
    run = await written(engines)
    guess = digest(b'confide\0"x"')

    assert guess.encode() not in await stored_bytes(engines)
    async with engines.new(confide, below, codec=KEPT) as engine:
        copy = await engine.export(run.id)
    assert guess.encode() in copy  # elsewhere, with another key or none, a repeated start is recognised


@pytest.mark.req("K42")
async def test_tags_can_be_indexed_without_the_key(engines: Engines) -> None:
    """One member a tag, named by a keyed hash; equal tags have equal hashes, also after a rotation."""
    await written(engines)
    rotated = Encryption({"b": NEW, "a": OLD}, current="b")
    async with engines.new(worker=False, codec=rotated) as client:
        await client.start(below, "x", tags={"customer": "canary", "canary-name": "other"})

    store = plain_store(engines)
    await store.open(encoded=True)
    try:
        rows = await store.list_runs(RunFilter())
    finally:
        await store.close()
    new, old = (msgspec.json.decode(row.tags) for row in rows if not row.parent)

    assert new.keys() == old.keys()
    assert sorted(new[name][0] == old[name][0] for name in new) == [False, True]
    assert all(new[name][1] != old[name][1] for name in new)


@pytest.mark.req("K40", "K42")
async def test_encrypted_tags_are_found_and_errors_are_not(engines: Engines) -> None:
    async with engines.new(worker=False) as client:
        old = await client.start(below, "x", tags={"customer": "7"})
    async with engines.new(worker=False, codec=KEPT) as client:
        new = await client.start(below, "x", tags={"customer": "7", "team": "a"}, key="order-1")
        await client.start(below, "x", tags={"customer": "8"})

        assert [row.id for row in await client.runs(tags={"customer": "7"})] == [new.id, old.id]
        assert [row.id for row in await client.runs(tags={"customer": "7"}, limit=1)] == [new.id]
        assert [row.id for row in await client.runs(tags={"team": "a", "customer": "7"})] == [new.id]
        assert [row.id for row in await client.runs(key_prefix="order-")] == [new.id]
        with pytest.raises(SearchRefused, match="encrypted"):
            await client.runs(error="refused")


@pytest.mark.req("K40", "K42")
async def test_words_of_encrypted_errors_are_not_stored(engines: Engines) -> None:
    async with engines.new(failing, codec=KEPT) as engine:
        run = await engine.start(failing, "canary")
        with pytest.raises(RunFailed):
            await run.result()
    store = plain_store(engines)
    await store.open(encoded=True)
    try:
        found = await store.list_runs(RunFilter(words=["canary"]))
    finally:
        await store.close()

    assert list(found) == []


@pytest.mark.req("K42")
async def test_a_start_from_before_digests_were_masked_is_recognised(engines: Engines) -> None:
    async with engines.new(worker=False) as client:
        run = await client.start(below, "x", key="order-1")
    async with engines.new(worker=False, codec=KEPT) as client:
        assert (await client.start(below, "x", key="order-1")).id == run.id
        with pytest.raises(KeyConflict):
            await client.start(below, "y", key="order-1")


@pytest.mark.req("K42")
async def test_a_value_that_was_changed_is_refused_and_named(memory_engines: Engines) -> None:
    run = await written(memory_engines)
    store = memory_engines.database
    assert isinstance(store, MemoryStore)
    kept = store._runs[run.id]
    kept.row = msgspec.structs.replace(kept.row, input=kept.row.input[:-1] + b"!")

    async with memory_engines.new(worker=False, codec=KEPT) as client:
        with pytest.raises(StoreUnusable) as refused:
            await client.handle(run.id).info()
    assert refused.value.context == {"run": run.id, "value": "input"}


LEGACY: dict[str, tuple[Any, Any]] = {
    "sqlite": (sqlite_file, sqlite_file.migrations),
    "postgres": (migrate, migrate.migrations),
}


@pytest.mark.req("K42", "R8")
@pytest.mark.parametrize("encrypted", [True, False])
@pytest.mark.parametrize("kind", LEGACY)
async def test_a_database_of_a_version_without_the_check_knows_what_it_is(
    kind: str, encrypted: bool, tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "app.db") if kind == "sqlite" else postgres_url
    engines = Engines(kind, url)
    module, migrations = LEGACY[kind]
    before = [
        entry
        for entry in migrations()
        if entry[0] < next(n for n, *rest in migrations() if "codec_check" in str(rest))
    ]
    monkeypatch.setattr(module, "migrations", lambda: before)
    monkeypatch.setattr(f"stepwell.store.{kind}.store.must_be_plain", _nothing)
    monkeypatch.setattr("stepwell.store.encoded.agreed", _no_secret)
    monkeypatch.setattr("stepwell.store.encoded.hides", lambda codec: False)
    async with engines.new(worker=False, codec=KEPT if encrypted else None):
        pass  # makes the database
    memory = MemoryStore(time.time)
    async with Engines("memory", memory).new(worker=False, codec=KEPT if encrypted else None) as client:
        run = await client.start(below, "x", tags=TAGS)
    await write_runs(kind, url, await memory.read_tree(run.id))
    monkeypatch.undo()

    if encrypted:
        for wrong in (None, Encryption({"b": NEW}, current="b"), Encryption({"a": NEW}, current="a")):
            with pytest.raises(CodecMissing):
                async with engines.new(codec=wrong):
                    pass
    async with engines.new(below, codec=KEPT if encrypted else None) as engine:
        await engine.handle(run.id).signal("go", "on")
        assert await engine.handle(run.id).result(40) == "on"
        assert msgspec.json.decode((await engine.handle(run.id).info()).tags) == TAGS


async def _nothing(store: Store) -> None:
    pass


async def _no_secret(*arguments: object) -> bytes:
    return b""


@pytest.mark.req("K42", "N24")
async def test_records_are_found_but_not_readable(engines: Engines) -> None:
    async with engines.new(confide, below, codec=KEPT) as engine:
        await engine.records.define("people", key="email", find=["city"])
        record = await engine.records.create("people", {"email": "canary@x", "city": "canary-city", "n": 1})
        await engine.records.update("people", record.id, {"n": 2, "note": "canary-note"}, version=1)

        found = await engine.records.find("people", {"city": "canary-city"})
        assert [each.data["n"] for each in found] == [2]
        assert (await engine.records.get("people", key="canary@x")).id == record.id
        with pytest.raises(RecordExists):
            await engine.records.create("people", {"email": "canary@x"})
        stored = await stored_bytes(engines)

    assert b"canary" not in stored
    assert record.id.encode() in stored


@pytest.mark.req("K42", "N24")
async def test_records_from_before_there_was_a_codec_are_still_found_and_unique(
    durable_engines: Engines,
) -> None:
    async with durable_engines.new(confide, below) as engine:
        await engine.records.define("people", key="email", find=["city"])
        old = await engine.records.create("people", {"email": "a@x", "city": "Rome"})
    async with durable_engines.new(confide, below, codec=KEPT) as engine:
        with pytest.raises(RecordExists):
            await engine.records.create("people", {"email": "a@x"})
        new = await engine.records.create("people", {"email": "b@x", "city": "Rome"})

        assert [each.id for each in await engine.records.find("people", {"city": "Rome"})] == [old.id, new.id]
        assert (await engine.records.get("people", key="a@x")).id == old.id
        changed = await engine.records.update("people", old.id, {"city": "canary-city"})
        assert [each.id for each in await engine.records.find("people", {"city": "canary-city"})] == [old.id]
        stored = await stored_bytes(durable_engines)

    assert changed.version == 2
    assert b"canary" not in stored
