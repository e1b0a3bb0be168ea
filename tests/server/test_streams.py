"""Live events: no gap, no repeat, resumable, and no harm from readers that do not read."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwell import Context, workflow
from stepwell.server import live, runs, stream
from tests.engines import Engines, until
from tests.server.served import BEARER, FLOWS, Served, bearer, code, messages, served
from tests.server.test_serve import running


async def seen(
    client: Served, path: str, *, last: str = "", most: int = 10_000, until_event: str = ""
) -> list[dict[str, Any]]:
    """The messages of a stream, until it ends, there are `most`, or one of that event came."""
    headers = {"Last-Event-ID": last} if last else {}
    listed: list[dict[str, Any]] = []
    async with client.stream("GET", path, headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        async for message in messages(response):
            listed.append(message)
            if len(listed) == most or (until_event and message.get("event") == until_event):
                break
    return listed


def seqs(listed: list[dict[str, Any]]) -> list[int]:
    return [message["data"]["seq"] for message in listed if "event" not in message]


@pytest.mark.req("A3")
async def test_a_run_is_followed_to_its_end(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("listening", 3)
        async with asyncio.TaskGroup() as group:
            following = group.create_task(seen(client, f"/api/v1/runs/{run}/stream"))
            for number in range(3):
                await client.post(f"/api/v1/runs/{run}/signal", json={"name": "word", "payload": number})
        listed = following.result()
        stored = (await client.get(f"/api/v1/runs/{run}/events?limit=1000")).json()["events"]

        assert [message["data"] for message in listed[:-1]] == stored
        assert [message["id"] for message in listed[:-1]] == [str(event["seq"]) for event in stored]
        assert listed[-1]["event"] == "end"
        assert listed[-1]["data"]["status"] == "completed"


@pytest.mark.req("A3")
async def test_the_first_event_comes_at_once(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        run = await client.started("listening", 1)
        await client.waiting(run)

        async with asyncio.timeout(5):
            assert seqs(await seen(client, f"/api/v1/runs/{run}/stream", most=1)) == [1]


@pytest.mark.req("A3")
async def test_a_stream_resumes_after_any_event_without_gap_or_repeat(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("doubling", 4)
        await client.ended(run)
        path = f"/api/v1/runs/{run}/stream"
        whole = seqs(await seen(client, path))

        for cut in whole[:-1]:
            assert seqs(await seen(client, path, last=str(cut))) == whole[cut:]
            assert seqs(await seen(client, f"{path}?after={cut}")) == whole[cut:]
        ended = await client.get(path, headers={"Last-Event-ID": str(whole[-1])})
        assert ended.status_code == 204  # a browser stops connecting


@pytest.mark.parametrize("last", ["abc", "-1", "9" * 19, "1.5", "٣"])
async def test_ids_that_are_not_of_this_stream_are_refused(memory_engines: Engines, last: str) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        run = await client.started("listening", 1)
        headers = {b"Last-Event-ID": last.encode()}

        assert code(await client.get(f"/api/v1/runs/{run}/stream", headers=headers)) == "CURSOR_INVALID"
        path = f"/api/v1/stream?topics=run:{run}"
        assert code(await client.get(path, headers=headers)) == "CURSOR_INVALID"


@pytest.mark.req("A3")
async def test_one_stream_carries_several_runs_and_resumes_by_its_cursor(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        runs = [await client.started("doubling", number) for number in range(3)]
        for run in runs:
            await client.ended(run)
        path = "/api/v1/stream?topics=" + ",".join(f"run:{run}" for run in runs)
        got: dict[str, list[int]] = {run: [] for run in runs}
        last = ""
        for _ in range(20):  # one batch a connection
            listed = await seen(client, path, last=last, until_event="batch")
            batches = [message for message in listed if message.get("event") == "batch"]
            for message in batches:
                last = message["id"]
                for event in message["data"]:
                    got[event["run"]].append(event["seq"])
            if not batches:
                break

        assert got == {run: [1, 2, 3, 4] for run in runs}


async def test_the_list_topic_says_reset_and_then_what_changed(durable_engines: Engines) -> None:
    async with served(durable_engines.new(*FLOWS)) as client:
        async with client.stream("GET", "/api/v1/stream?topics=runs") as response:
            listed = messages(response)
            first = await anext(listed)
            run = await client.started("doubling", 4)
            status = ""
            while status != "completed":
                message = await anext(listed)
                status = next(row["status"] for row in message["data"] if row["id"] == run)

        assert first["event"] == "reset"
        assert message["event"] == "runs"


async def test_changes_of_a_list_with_large_payloads_are_read_in_parts(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what has changed is encoded again, and few payloads are held at once."""
    monkeypatch.setattr(runs, "_FIRST_ROWS", 2)
    monkeypatch.setattr(runs, "_LEAST_ROWS", 1)
    monkeypatch.setattr(runs, "_ROWS_BYTES", 1000)
    async with served(engines.new(*FLOWS)) as client:
        others = [await client.started("asking", f"{number}" * 900) for number in range(5)]
        for other in others:
            await client.waiting(other)
        async with client.stream("GET", "/api/v1/stream?topics=runs") as response:
            listed = messages(response)
            await anext(listed)
            run = await client.started("failing", "no luck")
            await client.ended(run)
            await client.post(f"/api/v1/runs/{others[0]}/cancel", json={})
            ends: dict[str, Any] = {}
            while len(ends) < 2:
                message = await anext(listed)
                ends |= {row["id"]: row for row in message["data"] if row["ended_at"]}

    assert ends[run]["error"]["message"]
    assert {ended: row["status"] for ended, row in ends.items()} == {run: "failed", others[0]: "cancelled"}
    assert ends[others[0]]["input"] == "0" * 900


@pytest.mark.req("A3")
async def test_events_of_workers_in_other_processes_arrive(durable_engines: Engines) -> None:
    """Another engine with a notifier of its own stands for the other process."""
    async with durable_engines.new(*FLOWS), served(durable_engines.client()) as client:
        run = await client.started("doubling", 4)

        assert seqs(await seen(client, f"/api/v1/runs/{run}/stream")) == [1, 2, 3, 4]


async def test_a_stop_ends_streams_with_a_hint_and_parks_runs(durable_engines: Engines) -> None:
    async with served(durable_engines.new(*FLOWS)) as client:
        run = await client.started("listening", 1)
        await client.waiting(run)
        listed: list[dict[str, Any]] = []
        async with client.stream("GET", f"/api/v1/runs/{run}/stream") as response:
            async for message in messages(response):
                listed.append(message)
                client.server.should_exit = True
    async with served(durable_engines.new(*FLOWS)) as client:
        await client.post(f"/api/v1/runs/{run}/signal", json={"name": "word", "payload": 1})
        rest = await seen(client, f"/api/v1/runs/{run}/stream", last=listed[-1]["data"]["last_event_id"])

        assert listed[-1]["event"] == "resume"
        both = seqs(listed[:-1]) + seqs(rest)
        assert both == list(range(1, len(both) + 1))
        assert rest[-1]["data"]["status"] == "completed"


async def test_keep_alives_are_sent_while_nothing_happens(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "KEEP_ALIVE", 0.05)
    async with served(memory_engines.new(*FLOWS)) as client:
        run = await client.started("listening", 1)
        async with client.stream("GET", f"/api/v1/runs/{run}/stream") as response:
            async for line in response.aiter_lines():
                if line == ": keep-alive":
                    break

        assert response.status_code == 200


async def test_streams_are_counted_and_limited(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        client.app.state.streams._most = 2
        run = await client.started("listening", 1)
        path = f"/api/v1/runs/{run}/stream"
        async with client.stream("GET", path), client.stream("GET", path):
            await until(lambda: client.app.state.streams.open == 2)
            refused = await client.get(path)
        await until(lambda: client.app.state.streams.open == 0)

        assert (refused.status_code, code(refused)) == (429, "STREAM_LIMIT")
        assert seqs(await seen(client, path, most=1)) == [1]


@pytest.mark.req("X5")
async def test_a_workspace_with_many_streams_leaves_room_for_the_others(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PT-26: hoarding."""
    monkeypatch.setattr(live, "FEW", 1)
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client, httpx.AsyncClient(base_url=client.url) as other:
        other.headers.update(await bearer(engine, "olga", workspace="other"))
        client.app.state.streams._most = 5
        path = "/api/v1/stream?topics=runs"
        async with AsyncExitStack() as stack:
            for _ in range(4):
                await stack.enter_async_context(client.stream("GET", path))
            await until(lambda: client.app.state.streams.open == 4)
            refused = await client.get(path)
            welcome = await stack.enter_async_context(other.stream("GET", path))

    assert (refused.status_code, code(refused)) == (429, "STREAM_LIMIT")
    assert welcome.status_code == 200


@pytest.mark.req("A3")
async def test_a_reader_that_never_reads_is_cut_off_and_others_are_served(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_STALLED", 0.2)
    async with served(memory_engines.new(*FLOWS)) as client:
        run = await client.started("listening", 400)
        for number in range(400):
            body = {"name": "word", "payload": f"{number}" + "x" * 50_000}
            await client.post(f"/api/v1/runs/{run}/signal", json=body)
        await client.ended(run)
        port = int(client.url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        request = f"GET /api/v1/runs/{run}/stream HTTP/1.1\r\nHost: localhost\r\n"
        request += f"Authorization: {BEARER['Authorization']}\r\n\r\n"
        writer.write(request.encode())
        await until(lambda: client.app.state.streams.open == 1)
        await until(lambda: client.app.state.streams.open == 0)
        other = seqs(await seen(client, f"/api/v1/runs/{run}/stream"))
        writer.transport.abort()

        assert other == list(range(1, len(other) + 1))


@pytest.mark.slow
@pytest.mark.req("A3")
async def test_fifty_subscribers_get_every_event_once(durable_engines: Engines) -> None:
    async with served(durable_engines.new(*FLOWS)) as client:
        run = await client.started("listening", 5)
        path = f"/api/v1/runs/{run}/stream"
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(seen(client, path)) for _ in range(50)]
            await until(lambda: client.app.state.streams.open == 50)
            for number in range(5):
                await client.post(f"/api/v1/runs/{run}/signal", json={"name": "word", "payload": number})

        expected = seqs(readers[0].result())
        assert expected == list(range(1, len(expected) + 1))
        assert all(seqs(reader.result()) == expected for reader in readers)


@workflow
async def counting(ctx: Context, count: int) -> int:
    for _ in range(count):
        await ctx.signal("word")
    return count


@pytest.mark.slow
@pytest.mark.req("A3")
async def test_memory_of_the_server_stays_flat_with_fifty_readers_that_never_read(
    sqlite: Engines, tmp_path: Path
) -> None:
    """Buffered for each of them, the events would be a gigabyte."""
    async with sqlite.new(counting) as engine:
        with running("serve", "--database", str(sqlite.database), "--port", "0", folder=tmp_path) as (
            process,
            url,
        ):
            run = await engine.start("counting", 400)
            host, port = "127.0.0.1", int(url.rpartition(":")[2])
            request = f"GET /api/v1/runs/{run.id}/stream HTTP/1.1\r\nHost: localhost\r\n"
            request += f"Authorization: {BEARER['Authorization']}\r\n\r\n"
            writers = []
            for _ in range(50):
                reader, writer = await asyncio.open_connection(host, port, limit=1024)
                writer.write(request.encode())
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
                writers.append(writer)
            before = resident(process.pid)
            for number in range(400):
                await run.signal("word", f"{number}" + "x" * 50_000)
            await run.result(120)
            async with httpx.AsyncClient(base_url=url, headers=BEARER, timeout=60) as client:
                shown = await client.get(f"/api/v1/runs/{run.id}")
            grown = resident(process.pid) - before
            for writer in writers:
                writer.transport.abort()

    print(f"resident memory grew by {grown / 2**20:.0f} MiB")
    assert shown.json()["status"] == "completed"
    assert grown < 64 * 2**20


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024
