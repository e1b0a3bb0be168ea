"""Schedules: workflows of every style that start by time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from stepwell import Context, Engine, Machine, SyncClient, transition, workflow
from stepwell.client.schedules import ScheduleInfo
from stepwell.domain.triggers.scheduled_runs import settings_of
from stepwell.errors import (
    BadCron,
    Conflict,
    InvalidInput,
    TriggerExists,
    TriggerNotFound,
    UnknownWorkflow,
    WorkflowDisabled,
)
from stepwell.store.payloads import Encryption
from tests.engines import DEAF, Engines, crash, until

GRAPH = {
    "name": "drawn",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "end", "type": "end", "data": {"output": {"day": "{{ctx.input.day}}"}}},
    ],
    "edges": [{"source": "start", "target": "end"}],
}


@workflow
async def report(ctx: Context, day: str = "none") -> str:
    return f"report of {day}"


@workflow
async def waits(ctx: Context, n: int = 0) -> str:
    return str(await ctx.signal("go"))


class Lamp(Machine[dict[str, int]]):
    @transition("start", "end")
    async def light(self, ctx: Context, size: int) -> None:
        self.state["size"] = size


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


async def ended(engine: Engine, name: str, count: int = 1) -> ScheduleInfo:
    """Wait until that many runs of the schedule have ended."""

    async def holds() -> bool:
        rows = await engine.runs(tags={"schedule": name}, status="completed")
        return len(rows) >= count

    await until(holds)
    return await engine.schedules.get(name)


@pytest.mark.req("T1")
async def test_a_workflow_of_every_style_starts_by_time(engines: Engines) -> None:
    async with engines.new(report, Lamp, GRAPH) as engine:
        await engine.schedules.create("f", report, "{{trigger.slot}}", every=1, tags={"team": "a"}, by="ann")
        await engine.schedules.create("m", Lamp, 7, every=1)
        await engine.schedules.create("g", "drawn", {"day": "{{trigger.date}}"}, every=1)
        infos = {name: await ended(engine, name) for name in "fmg"}

        [run, *_] = (await engine.runs(tags={"schedule": "f"}, status="completed"))[::-1]
        assert run.key.startswith("sched/")
        slot = run.key.rpartition("/")[2]
        assert (run.trigger, run.started_by, run.output) == (
            "schedule",
            "ann",
            f'"report of {slot}"'.encode(),
        )
        [drawn, *_] = await engine.runs(workflow="drawn", status="completed")
        assert drawn.output == f'{{"day":"{datetime.now(UTC).date().isoformat()}"}}'.encode()
        assert all(info.started >= 1 for info in infos.values())


@pytest.mark.req("T1")
async def test_each_slot_starts_once_with_two_workers_and_one_of_them_dies(engines: Engines) -> None:
    async with engines.new(report) as engine:
        other = engines.new(report)
        await other.open()
        await engine.schedules.create("s", report, every=1, overlap="allow")
        await ended(engine, "s", 1)
        await crash(other)
        info = await ended(engine, "s", 3)
        keys = [row.key for row in await engine.runs(tags={"schedule": "s"})]

    assert len(keys) == len(set(keys)) >= 3
    assert info.skipped == 0


@pytest.mark.req("T1")
async def test_a_worker_sleeps_exactly_until_the_next_slot(engines: Engines) -> None:
    """It neither looks every few seconds nor needs a hint."""
    async with engines.new(report, settings=DEAF) as engine:
        await engine.schedules.create("s", report, every=2)
        await ended(engine, "s", 2)
        rows = await engine.runs(tags={"schedule": "s"})
        [second, *_] = sorted(rows, key=lambda row: row.key)[1:]

    slot = datetime.fromisoformat(second.key.rpartition("/")[2].replace("Z", "+00:00")).timestamp()
    assert 0 <= second.created_at - slot < 1.0


OUTAGE, EVERY = 3 * 3600.0, 100.0  # seconds; 109 slots
MISSED = {"skip": [], "one": [108], "all": list(range(9, 109))}  # the slots that start, by their number


@pytest.mark.req("T1", "X9")
async def test_after_an_outage_of_three_hours_the_policy_decides(engines: Engines) -> None:
    """BI-S09."""
    async with engines.client() as client:
        async with engines.new(report):
            pass  # registers the workflow
        for missed in MISSED:
            await client.schedules.create(missed, "report", every=EVERY, overlap="allow", missed=missed)
        first = float(int(await client.store.now())) - OUTAGE - 65  # the last is late by more than a minute
        for missed in MISSED:
            row = await client.store.read_trigger("default", "schedule", missed)
            assert row is not None
            settings = msgspec.json.encode(structs.replace(settings_of(row), anchor=first))
            changed = {"settings": settings, "slot": first, "next_at": first}
            down = structs.replace(row, revision=row.revision + 1, **changed)
            assert await client.store.put_trigger(down, expected=row.revision)

    async with engines.new(report) as engine:
        for missed, numbers in MISSED.items():

            async def decided(name: str = missed) -> ScheduleInfo | None:
                info = await engine.schedules.get(name)
                return info if info.started + info.skipped >= 109 else None

            info = await until(decided)
            rows = await engine.runs(tags={"schedule": missed}, limit=200)
            slots = sorted(datetime.fromisoformat(row.key.rpartition("/")[2]).timestamp() for row in rows)
            assert slots == [first + EVERY * number for number in numbers]
            assert (info.started, info.skipped) == (len(numbers), 109 - len(numbers))
            assert info.next_at is not None
            assert info.next_at > first + OUTAGE


@pytest.mark.req("T1")
async def test_a_paused_schedule_starts_nothing_until_it_is_resumed(engines: Engines) -> None:
    async with engines.new(report) as engine:
        await engine.schedules.create("s", report, every=1)
        await ended(engine, "s")

        assert await engine.schedules.pause("s", by="ann", reason="the tape is full")
        assert not await engine.schedules.pause("s")
        paused = await engine.schedules.get("s")
        count = len(await engine.runs())
        await asyncio.sleep(1.2)
        assert len(await engine.runs()) == count
        assert (paused.paused, paused.paused_by, paused.reason) == (True, "ann", "the tape is full")
        assert (paused.next_at, paused.next_times) == (None, ())

        assert await engine.schedules.resume("s", by="bob")
        assert not await engine.schedules.resume("s")
        await ended(engine, "s", count + 1)
        assert (await engine.schedules.get("s")).skipped == 0  # what was due meanwhile is not made up for


@pytest.mark.req("T1")
async def test_trigger_starts_a_run_now_even_if_it_is_paused(engines: Engines) -> None:
    async with engines.new(report) as engine:
        await engine.schedules.create("s", report, "{{trigger.date}}", cron="0 0 1 1 *", paused=True)
        run = await engine.schedules.trigger("s", key="once", by="ann")
        again = await engine.schedules.trigger("s", key="once")

        assert await run.result() == f"report of {datetime.now(UTC).date().isoformat()}"
        assert again.id == run.id
        assert (await run.info()).started_by == "ann"
        assert (await engine.schedules.trigger("s")).id != run.id


@pytest.mark.req("T1")
async def test_backfill_starts_each_past_slot_that_has_no_run(engines: Engines) -> None:
    async with engines.new(report) as engine:
        await engine.schedules.create("s", report, "{{trigger.slot}}", cron="0 * * * *")
        day = datetime(2026, 1, 5, tzinfo=UTC)

        first = await engine.schedules.backfill("s", day, day.replace(hour=6))
        more = await engine.schedules.backfill("s", day.replace(hour=3), day.replace(hour=9), by="ann")
        rows = await engine.runs(tags={"schedule": "s"}, key_prefix="sched/")

        assert (tuple(first), tuple(more)) == ((6, 6), (6, 3))
        assert sorted(row.key.rpartition("/")[2] for row in rows) == [
            f"2026-01-05T0{hour}:00:00Z" for hour in range(9)
        ]
        with pytest.raises(InvalidInput, match="more than 1000 slots"):
            await engine.schedules.backfill("s", datetime(2025, 1, 1, tzinfo=UTC), day)
        with pytest.raises(InvalidInput, match="a span of time in the past"):
            await engine.schedules.backfill("s", day, time.time() + 100)


@pytest.mark.req("T1")
async def test_queue_lets_a_run_wait_for_the_one_before(engines: Engines) -> None:
    async with engines.new(waits) as engine:
        await engine.schedules.create("s", waits, every=1)

        async def two() -> Any:
            rows = await engine.runs(tags={"schedule": "s"})
            return rows if len(rows) >= 2 else None

        rows = sorted(await until(two), key=lambda row: row.key)
        await engine.schedules.pause("s")
        await engine.handle(rows[0].id).waiting_for("go")
        assert (await engine.handle(rows[1].id).info()).started_at is None

        for row in sorted(await engine.runs(tags={"schedule": "s"}), key=lambda row: row.key):
            handle = engine.handle(row.id)
            await handle.signal("go", "done")
            assert await handle.result() == "done"


@pytest.mark.req("T1")
async def test_changes_keep_what_they_do_not_name(engines: Engines) -> None:
    async with engines.new(report, waits) as engine:
        made = await engine.schedules.create(
            "s", report, "x", cron="30 2 * * *", timezone="Europe/Berlin", tags={"a": "b"}, by="ann"
        )
        changed = await engine.schedules.update("s", cron="0 3 * * *", by="bob")
        interval = await engine.schedules.update("s", every="90m", expected=changed.revision)

        assert (made.revision, changed.revision, interval.revision) == (1, 2, 3)
        assert (changed.timezone, changed.input, changed.tags) == ("Europe/Berlin", "x", {"a": "b"})
        assert changed.words == "At 03:00 every day, Europe/Berlin"
        assert (interval.cron, interval.every, interval.words) == ("", 5400.0, "Every 90 minutes")
        assert (changed.created_by, changed.updated_by) == ("ann", "bob")
        with pytest.raises(Conflict, match="was changed by"):
            await engine.schedules.update("s", missed="all", expected=2)
        with pytest.raises(InvalidInput):  # the input of the other workflow does not fit
            await engine.schedules.update("s", workflow=waits)
        assert (await engine.schedules.update("s", workflow=waits, input=3)).workflow == "waits"
        assert await engine.schedules.delete("s")
        assert not await engine.schedules.delete("s")


@pytest.mark.req("T1")
async def test_of_many_changes_at_once_none_is_lost(engines: Engines) -> None:
    async with engines.new(report) as engine:
        await engine.schedules.create("s", report, every="1h")
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(engine.schedules.update("s", tags={"n": str(number)}))
            group.create_task(engine.schedules.pause("s"))

        info = await engine.schedules.get("s")
        assert (info.revision, info.paused) == (7, True)


@pytest.mark.req("T1")
async def test_wrong_schedules_are_refused_before_anything_is_written(memory_engines: Engines) -> None:
    async with memory_engines.new(report, waits) as engine:
        await engine.schedules.create("taken", report, every="1h")
        wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
            (TriggerExists, "taken", {"name": "taken"}),
            (InvalidInput, "cron or by interval", {"every": None}),
            (InvalidInput, "cron or by interval", {"cron": "0 2 * * *"}),
            (BadCron, "'25' is not an hour", {"every": None, "cron": "0 25 * * *"}),
            (InvalidInput, "no time zone", {"timezone": "Mars/Olympus"}),
            (InvalidInput, "every is 0.1 s", {"every": "100ms"}),
            (InvalidInput, "overlap", {"overlap": "both"}),
            (InvalidInput, "without a slash", {"name": "a/b"}),
            (InvalidInput, "1 to 200 characters", {"name": " "}),
            (UnknownWorkflow, "reprt", {"workflow": "reprt"}),
            (UnknownWorkflow, "version", {"version": "9"}),
            (InvalidInput, "not of type", {"workflow": "waits", "input": "text"}),
            (InvalidInput, "slott", {"input": "{{trigger.slott}}"}),
            (InvalidInput, "has no option", {"color": "red"}),
            (InvalidInput, "paused", {"paused": "yes"}),
        ]
        for error, message, changes in wrong:
            options = {"name": "s", "workflow": "report", "every": "1h", **changes}
            with pytest.raises(error, match=message):
                await engine.schedules.create(**options)
        assert [info.name for info in await engine.schedules.list()] == ["taken"]
        with pytest.raises(TriggerNotFound, match="there is no schedule 'takn'"):
            await engine.schedules.pause("takn")


@pytest.mark.req("T1")
async def test_a_disabled_workflow_skips_its_slots_and_refuses_a_trigger(engines: Engines) -> None:
    async with engines.new(report) as engine:
        await engine.schedules.create("s", report, every=1)
        await engine.disable(report)

        async def skipped() -> bool:
            return (await engine.schedules.get("s")).skipped >= 1

        await until(skipped)
        assert (await engine.schedules.get("s")).skip_reason == "disabled"
        with pytest.raises(WorkflowDisabled):
            await engine.schedules.trigger("s")


@pytest.mark.req("T1")
async def test_a_schedule_that_a_worker_cannot_decide_holds_up_no_other(engines: Engines) -> None:
    """Its time zone is unknown on this host: an older host, or one without tzdata."""
    async with engines.new(report, settings=DEAF) as engine:
        await engine.schedules.create("odd", report, cron="* * * * *", timezone="Europe/Berlin")
        place = ("default", "schedule", "odd")
        row = await engine.store.read_trigger(*place)
        assert row is not None
        assert row.slot is not None
        settings = msgspec.json.encode(structs.replace(settings_of(row), timezone="Mars/Base"))
        due = row.slot - 120
        odd = structs.replace(row, settings=settings, slot=due, next_at=due, revision=2)
        assert await engine.store.put_trigger(odd, expected=1)
        await engine.schedules.create("good", report, every=1)
        await ended(engine, "good", 2)
        info = await engine.schedules.get("odd")
        listed = await engine.schedules.list()

        # Where the zone is known, the slot is still there to be started.
        row = await engine.store.read_trigger(*place)
        assert row is not None
        assert row.next_at is not None
        assert row.next_at > due
        known = structs.replace(odd, settings=settings.replace(b"Mars/Base", b"UTC"), revision=3)
        assert await engine.store.put_trigger(known, expected=2)
        await engine.schedules.create("hint", report, every="1h")
        started = await ended(engine, "odd")

    assert (info.started, info.skip_reason, info.next_times) == (0, "timezone", (due,))
    assert [one.name for one in listed] == ["good", "odd"]
    assert (started.started, started.skip_reason) == (1, "missed")


@pytest.mark.req("T1", "K46")
async def test_schedules_belong_to_their_workspace(engines: Engines) -> None:
    async with engines.new(report) as engine:
        there = engine.within("acme")
        await engine.schedules.create("s", report, every="1h")

        assert await there.schedules.list() == []
        with pytest.raises(TriggerNotFound):
            await there.schedules.get("s")
        with pytest.raises(UnknownWorkflow):
            await there.schedules.create("s", "report", every="1h")


@pytest.mark.req("T1")
async def test_lists_have_pages_and_filters(engines: Engines) -> None:
    async with engines.new(report, waits) as engine:
        for number in range(5):
            await engine.schedules.create(f"s{number}", report if number % 2 else waits, every="1h")
        page = await engine.schedules.list(limit=2)
        rest = await engine.schedules.list(limit=10, before=page.next)

        assert [info.name for info in [*page, *rest]] == ["s0", "s1", "s2", "s3", "s4"]
        assert (page.next, rest.next) == ("s1", "")
        assert [info.name for info in await engine.schedules.list(workflow="report")] == ["s1", "s3"]


@pytest.mark.req("T1")
async def test_times_at_the_ends_of_the_calendar_are_refused(memory_engines: Engines) -> None:
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    async with memory_engines.new(report) as engine:
        await engine.schedules.create("s", report, cron="* * * * *", timezone="Europe/Berlin", paused=True)
        for time in (first, last, float("inf")):
            with pytest.raises(InvalidInput, match="after is"):
                await engine.schedules.preview(every="1s", after=time)
            with pytest.raises(InvalidInput, match="since is"):
                await engine.schedules.backfill("s", time, datetime(2026, 1, 1, tzinfo=UTC))
        [time] = (await engine.schedules.preview(cron="0 0 1 1 *", after=221_845_391_999, count=1)).times

    assert datetime.fromtimestamp(time, UTC).isoformat() == "9000-01-01T00:00:00+00:00"


@pytest.mark.req("T1")
async def test_preview_says_words_and_times(memory_engines: Engines) -> None:
    async with memory_engines.client() as engine:
        preview = await engine.schedules.preview(
            cron="30 2 * * *",
            timezone="Europe/Berlin",
            after=datetime(2026, 3, 28, 12, tzinfo=UTC),
            count=2,
        )

    assert preview.words == "At 02:30 every day, Europe/Berlin"
    assert [datetime.fromtimestamp(at, UTC).isoformat() for at in preview.times] == [
        "2026-03-29T01:00:00+00:00",  # 03:00: half past two does not exist
        "2026-03-30T00:30:00+00:00",
    ]


@pytest.mark.req("T1", "K44")
async def test_what_a_schedule_gives_to_its_runs_is_encrypted(tmp_path: Path) -> None:
    codec, database = Encryption({"a": b"a" * 32}, current="a"), str(tmp_path / "a.db")
    async with Engine(database, workflows=[report], codec=codec) as engine:
        await engine.schedules.create("s", report, "canary-one", every=1, tags={"t": "canary-two"})
        await ended(engine, "s")
        await engine.schedules.pause("s", reason="canary-three")
        info = await engine.schedules.get("s")

    assert (info.input, info.tags, info.reason) == ("canary-one", {"t": "canary-two"}, "canary-three")
    assert b"canary" not in all_bytes(tmp_path)


@pytest.mark.req("T1", "F15")
def test_sync_code_has_the_same_verbs(tmp_path: Path) -> None:
    with SyncClient(engine=Engine(tmp_path / "a.db", workflows=[report])) as client:
        client.schedules.create("s", report, "x", cron="@daily")
        assert client.schedules.trigger("s").result() == "report of x"
        assert [info.name for info in client.schedules.list()] == ["s"]
        assert client.schedules.pause("s")
        assert client.schedules.get("s").paused
        assert client.schedules.preview(every="1h").words == "Every hour"
