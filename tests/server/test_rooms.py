"""Rooms over a WebSocket: what a client that joined a run gets, and who may open a socket."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from stepwell.server import live, rooms, stream
from tests.engines import Engines, until
from tests.server.served import BEARER, FLOWS, HANDSHAKE, Served, bearer, code, served


@asynccontextmanager
async def socket_of(
    client: Served, headers: dict[str, str] = BEARER, **options: Any
) -> AsyncIterator[ClientConnection]:
    url = client.url.replace("http://", "ws://") + "/api/v1/socket"
    async with connect(url, additional_headers=headers, **options) as socket:
        yield socket


async def said(socket: ClientConnection, last: str, run: str = "") -> list[dict[str, Any]]:
    """The messages up to one of that type."""
    listed: list[dict[str, Any]] = []
    async for text in socket:
        listed.append(json.loads(text))
        if listed[-1]["type"] == last and run in ("", listed[-1].get("run")):
            break
    return listed


async def ask(socket: ClientConnection, **request: Any) -> None:
    await socket.send(json.dumps(request))


@pytest.mark.req("A3")
async def test_who_joins_a_run_gets_its_nodes_and_statuses(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client, socket_of(client) as socket:
        run = await client.started("listening", 2)
        await client.waiting(run)
        await ask(socket, action="join", run=run, after=0)
        for number in range(2):
            await client.post(f"/api/v1/runs/{run}/signal", json={"name": "word", "payload": number})
        listed = await said(socket, "end")
        stored = (await client.get(f"/api/v1/runs/{run}/events?limit=1000")).json()["events"]

    assert [message["event"] for message in listed if message["type"] == "event"] == stored
    statuses = [message for message in listed if message["type"] == "status_update"]
    assert statuses[-1]["status"] == "completed"
    assert statuses[-1]["output"] == [0, 1]
    assert {"outputs", "place", "state"} == set(statuses[-1]["context"])


@pytest.mark.req("A3")
async def test_steps_are_node_updates(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client, socket_of(client) as socket:
        good, bad = await client.started("doubling", 4), await client.started("failing", "no")
        await ask(socket, action="join", run=good, after=0)
        await ask(socket, action="join", run=bad, after=0)
        listed = await said(socket, "end")
        listed += await said(socket, "end")
        nodes = [message for message in listed if message["type"] == "node_update"]

    assert [(n["run"], n["status"], n["output"]) for n in nodes if n["run"] == good][-1] == (
        good,
        "completed",
        8,
    )
    assert [(n["status"], n["error"]["message"]) for n in nodes if n["run"] == bad][-1] == ("failed", "no")


@pytest.mark.req("A3")
async def test_without_a_seq_a_room_tells_the_present_and_what_follows(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client, socket_of(client) as socket:
        run = await client.started("listening", 1)
        await client.waiting(run)
        await ask(socket, action="join", run=run)
        joined, status = await said(socket, "status_update")
        await client.post(f"/api/v1/runs/{run}/signal", json={"name": "word"})
        rest = await said(socket, "end")

    assert joined["type"] == "joined"
    assert joined["seq"] == status["seq"] > 1
    assert status["status"] == "suspended"
    assert next(message["seq"] for message in rest if message["type"] == "event") == joined["seq"] + 1


@pytest.mark.req("A3")
async def test_a_client_that_joins_again_after_its_last_seq_misses_nothing(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        run = await client.started("doubling", 4)
        await client.ended(run)
        got: list[int] = []
        while True:
            async with socket_of(client) as socket:
                await ask(socket, action="join", run=run, after=got[-1] if got else 0)
                listed = await said(socket, "event" if len(got) < 4 else "end")
            fresh = [message["seq"] for message in listed if message["type"] == "event"]
            got += fresh
            if not fresh:
                break

    assert got == [1, 2, 3, 4]


async def test_who_leaves_a_room_hears_no_more_of_it(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client, socket_of(client) as socket:
        run, other = await client.started("listening", 1), await client.started("listening", 1)
        await client.waiting(run)
        await ask(socket, action="join", run=run)
        await said(socket, "status_update")
        await ask(socket, action="leave", run=run)
        await said(socket, "left")
        await client.post(f"/api/v1/runs/{run}/signal", json={"name": "word"})
        await client.ended(run)
        await ask(socket, action="join", run=other)
        listed = await said(socket, "status_update")

    assert {message["run"] for message in listed} == {other}


REQUESTS: dict[str, tuple[str, str]] = {
    "not JSON": ("{", "JSON_INVALID"),
    "array": ("[]", "JSON_INVALID"),
    "unknown action": ('{"action": "shout", "run": "%s"}' % ("0" * 32), "JSON_INVALID"),
    "unknown field": ('{"action": "join", "run": "%s", "x": 1}' % ("0" * 32), "JSON_INVALID"),
    "wrong id": ('{"action": "join", "run": "../x"}', "ID_INVALID"),
    "negative seq": ('{"action": "join", "run": "%s", "after": -1}' % ("0" * 32), "CURSOR_INVALID"),
    "no such run": ('{"action": "join", "run": "%s"}' % ("0" * 32), "RUN_NOT_FOUND"),
}


@pytest.mark.req("A3", "X9")
async def test_bad_requests_get_their_code_and_the_socket_stays_open(memory_engines: Engines) -> None:
    got: dict[str, str] = {}
    async with served(memory_engines.new(*FLOWS)) as client, socket_of(client) as socket:
        for name, (text, _) in REQUESTS.items():
            await socket.send(text)
            got[name] = (await said(socket, "error"))[-1]["code"]
        run = await client.started("doubling", 4)
        await ask(socket, action="join", run=run, after=0)
        await said(socket, "end")

    assert got == {name: expected for name, (_, expected) in REQUESTS.items()}


@pytest.mark.req("X7")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({**BEARER, "Origin": "https://evil.example"}, 403),
    ],
)
async def test_a_socket_is_refused_before_it_opens(
    memory_engines: Engines, headers: dict[str, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Refusals are no errors of the server: a stranger must not fill its log with them."""
    async with served(memory_engines.new(*FLOWS)) as client:
        with pytest.raises(InvalidStatus) as refused:
            async with socket_of(client, headers):
                pass
        rebound = await client.get("/api/v1/socket", headers={**HANDSHAKE, "Host": "evil.example"})
        in_url = await client.get(f"/api/v1/socket?token={BEARER}", headers=HANDSHAKE)

    assert code(rebound) == "HOST_NOT_ALLOWED"
    assert code(in_url) == "KEY_IN_URL"
    answer = refused.value.response
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


@pytest.mark.req("X7")
async def test_a_cookie_opens_a_socket_only_for_a_page_of_the_server(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        answer = await client.get(f"/?t={BEARER['Authorization'].split()[1]}")
        cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        with pytest.raises(InvalidStatus) as refused:
            async with socket_of(client, cookie):
                pass
        async with socket_of(client, {**cookie, "Origin": client.url}) as socket:
            await ask(socket, action="leave", run="0" * 32)
            assert (await said(socket, "left"))[-1]["run"] == "0" * 32

    assert refused.value.response.status_code == 403


@pytest.mark.req("X5", "X8")
async def test_a_socket_ends_when_its_key_is_revoked(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BI-X08. The same holds for server-sent events."""
    monkeypatch.setattr(live, "RECHECK", 0.05)
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client:
        headers = await bearer(engine, "ray")
        run = await client.started("listening", 1)
        async with (
            socket_of(client, headers) as socket,
            client.stream("GET", f"/api/v1/runs/{run}/stream", headers=headers) as reading,
        ):
            await engine.keys.revoke(headers["Authorization"].split("_")[2])
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            async for _ in reading.aiter_lines():
                pass  # it ends

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


async def test_a_stop_tells_where_to_resume(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client, socket_of(client) as socket:
        run = await client.started("listening", 1)
        await client.waiting(run)
        await ask(socket, action="join", run=run)
        seq = (await said(socket, "status_update"))[-1]["seq"]
        client.server.should_exit = True
        hint = (await said(socket, "resume"))[-1]
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()

    assert hint["runs"] == {run: seq}
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012


async def test_runs_that_ended_or_were_left_need_no_resuming(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client, socket_of(client) as socket:
        ended, left = await client.started("doubling", 1), await client.started("listening", 1)
        await client.waiting(left)
        await ask(socket, action="join", run=ended, after=0)
        await said(socket, "end")
        await ask(socket, action="join", run=left)
        await said(socket, "status_update")
        await ask(socket, action="leave", run=left)
        await said(socket, "left")
        client.server.should_exit = True
        hint = (await said(socket, "resume"))[-1]

    assert hint["runs"] == {}


@pytest.mark.slow
@pytest.mark.req("A3")
async def test_memory_stays_flat_with_fifty_readers_that_never_read(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of them by SSE, half by WebSocket; they are cut off, and a good reader gets everything."""
    monkeypatch.setattr(stream, "_STALLED", 3.0)
    monkeypatch.setattr(rooms, "_STALLED", 3.0)
    async with served(memory_engines.new(*FLOWS)) as client:
        run = await client.started("listening", 200)
        for number in range(200):
            body = {"name": "word", "payload": f"{number}" + "x" * 50_000}
            await client.post(f"/api/v1/runs/{run}/signal", json=body)
        await client.ended(run)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        writers = [await deaf_reader(client, run) for _ in range(25)]
        sockets = []
        for _ in range(25):
            url = client.url.replace("http://", "ws://") + "/api/v1/socket"
            socket = await connect(url, additional_headers=BEARER, max_queue=1, ping_interval=None)
            await ask(socket, action="join", run=run, after=0)
            sockets.append(socket)
        await until(lambda: client.app.state.streams.open == 50)
        await until(lambda: client.app.state.streams.open == 0)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        for writer in writers:
            writer.transport.abort()
        for socket in sockets:
            socket.transport.abort()
        async with socket_of(client, max_size=None) as socket:
            await ask(socket, action="join", run=run, after=0)
            listed = await said(socket, "end")

    seqs = [message["seq"] for message in listed if message["type"] == "event"]
    assert seqs == list(range(1, len(seqs) + 1))
    assert grown < 64 * 1024, f"{grown} KiB"  # the log is 10 MiB: 50 readers would hold 500


async def deaf_reader(client: Served, run: str) -> asyncio.StreamWriter:
    port = int(client.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    request = f"GET /api/v1/runs/{run}/stream HTTP/1.1\r\nHost: localhost\r\n"
    writer.write(f"{request}Authorization: {BEARER['Authorization']}\r\n\r\n".encode())
    return writer
