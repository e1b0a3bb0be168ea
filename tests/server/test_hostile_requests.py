"""Bad requests: each gets its code, nothing is written, and the next request is served."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import pytest

from tests.engines import Engines
from tests.server.served import FLOWS, TOKEN, Served, code, served

START = '{"workflow": "doubling", "input": %s}'

BODIES: dict[str, tuple[bytes, int, str]] = {
    "not JSON": (b"{workflow}", 400, "JSON_INVALID"),
    "two values": (b"{} {}", 400, "JSON_INVALID"),
    "empty": (b"", 400, "BODY_REQUIRED"),
    "array": (b"[]", 422, "TYPE_MISMATCH"),
    "text": (b'"doubling"', 422, "TYPE_MISMATCH"),
    "null": (b"null", 422, "TYPE_MISMATCH"),
    "deep": (b"[" * 100_000, 400, "JSON_TOO_DEEP"),
    "deep and closed": (START.encode() % (b"[" * 65 + b"]" * 65), 400, "JSON_TOO_DEEP"),
    "deep in objects": (b'{"a":' * 100_000, 400, "JSON_TOO_DEEP"),
    "many elements": (START.encode() % (b"[" + b"1," * 1_000_000 + b"1]"), 400, "JSON_TOO_MANY_NODES"),
    "many empty lists": (START.encode() % (b"[" + b"[]," * 200_000 + b"1]"), 400, "JSON_TOO_MANY_NODES"),
    "duplicate key": (b'{"workflow": "doubling", "workflow": "x"}', 400, "JSON_DUPLICATE_KEY"),
    "duplicate inside": (START.encode() % b'{"a": 1, "a": 2}', 400, "JSON_DUPLICATE_KEY"),
    "NaN": (START.encode() % b"NaN", 400, "JSON_NUMBER"),
    "Infinity": (START.encode() % b"-Infinity", 400, "JSON_NUMBER"),
    "huge float": (START.encode() % b"1e999", 400, "JSON_NUMBER"),
    "2^53": (START.encode() % b"9007199254740992", 422, "NUMBER_PRECISION"),
    "30 digits": (START.encode() % (b"1" * 30), 422, "NUMBER_PRECISION"),
    "5000 digits": (START.encode() % (b"1" * 5000), 400, "JSON_NUMBER"),
    "lone surrogate": (START.encode() % b'"\\ud800"', 400, "STRING_UNICODE"),
    "invalid UTF-8": (b'{"workflow": "\xff"}', 400, "ENCODING"),
    "UTF-16": (START.encode("utf-16"), 400, "ENCODING"),
    "byte order mark": (b"\xef\xbb\xbf{}", 400, "ENCODING"),
    "too large": (b" " * (4 * 1024 * 1024 + 1), 413, "BODY_TOO_LARGE"),
    "payload too large": (START.encode() % (b'"' + b"x" * 3_000_000 + b'"'), 422, "INVALID_INPUT"),
    "unknown field": (b'{"workflow": "doubling", "imput": 1}', 422, "UNKNOWN_FIELD"),
    "missing field": (b'{"input": 1}', 422, "FIELD_REQUIRED"),
    "number for a name": (b'{"workflow": 7}', 422, "TYPE_MISMATCH"),
    "true for a number": (b'{"workflow": "doubling", "priority": true}', 422, "TYPE_MISMATCH"),
    "text for a number": (b'{"workflow": "doubling", "priority": "5"}', 422, "TYPE_MISMATCH"),
    "object for tags": (b'{"workflow": "doubling", "tags": {"a": {}}}', 422, "TYPE_MISMATCH"),
    "workspace in the body": (b'{"workflow": "doubling", "workspace": "other"}', 422, "UNKNOWN_FIELD"),
    "unknown trigger": (b'{"workflow": "doubling", "trigger": "x"}', 422, "FIELD_INVALID"),
    "NUL in a name": (b'{"workflow": "a\\u0000b"}', 422, "INVALID_INPUT"),
    "wrong duration": (b'{"workflow": "doubling", "input": 1, "delay": "soon"}', 422, "INVALID_DEFINITION"),
    "negative delay": (b'{"workflow": "doubling", "input": 1, "delay": -1}', 422, "INVALID_DEFINITION"),
    "unknown workflow": (b'{"workflow": "nothing"}', 404, "UNKNOWN_WORKFLOW"),
    "a draft's name": (b'{"workflow": "draft:nothing"}', 404, "UNKNOWN_WORKFLOW"),
    "wrong input": (START.encode() % b'"four"', 422, "INVALID_INPUT"),
    "prototype keys": (START.encode() % b'{"__proto__": {"x": 1}}', 422, "INVALID_INPUT"),
}


@pytest.mark.req("X9", "A1")
async def test_bad_bodies_get_their_code(memory_engines: Engines) -> None:
    got: dict[str, Any] = {}
    async with served(memory_engines.new(*FLOWS)) as client:
        for name, (body, _, _) in BODIES.items():
            answer = await client.post(
                "/api/v1/runs", content=body, headers={"Content-Type": "application/json"}
            )
            got[name] = (answer.status_code, code(answer))

        assert got == {name: row[1:] for name, row in BODIES.items()}
        await served_as_before(client)


async def served_as_before(client: Served) -> None:
    assert (await client.get("/api/v1/runs")).json()["runs"] == []
    assert (await client.post("/api/v1/runs", json={"workflow": "doubling", "input": 1})).status_code == 201


HEADERS: dict[str, tuple[dict[str, str], int, str]] = {
    "plain text": ({"Content-Type": "text/plain"}, 415, "CONTENT_TYPE"),
    "XML": ({"Content-Type": "application/xml"}, 415, "CONTENT_TYPE"),
    "no type": ({}, 415, "CONTENT_TYPE"),
    "form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "CONTENT_TYPE"),
    "compressed": ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415, "CONTENT_ENCODING"),
    "empty key": ({"Content-Type": "application/json", "Idempotency-Key": ""}, 400, "IDEMPOTENCY_KEY"),
    "long key": (
        {"Content-Type": "application/json", "Idempotency-Key": "k" * 10_000},
        400,
        "IDEMPOTENCY_KEY",
    ),
    "tab in key": ({"Content-Type": "application/json", "Idempotency-Key": "a\tb"}, 400, "IDEMPOTENCY_KEY"),
}


@pytest.mark.req("X9")
async def test_bad_headers_get_their_code(memory_engines: Engines) -> None:
    got: dict[str, Any] = {}
    async with served(memory_engines.new(*FLOWS)) as client:
        for name, (headers, _, _) in HEADERS.items():
            answer = await client.post("/api/v1/runs", content=(START % 4).encode(), headers=headers)
            got[name] = (answer.status_code, code(answer))

        assert got == {name: row[1:] for name, row in HEADERS.items()}
        await served_as_before(client)


ADDRESSES: dict[str, tuple[int, str]] = {
    "/api/v1/runs?limit=-1": (400, "PARAM_INVALID"),
    "/api/v1/runs?limit=0": (400, "PARAM_INVALID"),
    "/api/v1/runs?limit=1000000000": (400, "PARAM_INVALID"),
    "/api/v1/runs?limit=abc": (400, "PARAM_INVALID"),
    "/api/v1/runs?limit=1&limit=2": (400, "PARAM_INVALID"),
    "/api/v1/runs?order_by=id;drop table": (400, "PARAM_INVALID"),
    "/api/v1/runs?statuss=failed": (400, "PARAM_INVALID"),
    "/api/v1/runs?status=lost": (400, "PARAM_INVALID"),
    "/api/v1/runs?key=x&status=lost": (400, "PARAM_INVALID"),
    "/api/v1/runs?cursor=abc": (400, "CURSOR_INVALID"),
    "/api/v1/runs?cursor=!!": (400, "CURSOR_INVALID"),
    "/api/v1/runs/abc": (400, "ID_INVALID"),
    "/api/v1/runs/" + "A" * 32: (400, "ID_INVALID"),
    "/api/v1/runs/" + "%D9%A1" * 32: (400, "ID_INVALID"),
    "/api/v1/runs/" + "0" * 32: (404, "RUN_NOT_FOUND"),
    "/api/v1/runs/" + "0" * 32 + "/events": (404, "RUN_NOT_FOUND"),
    "/api/v1/runs/" + "0" * 32 + "/stream": (404, "RUN_NOT_FOUND"),
    "/api/v1/runs/" + "0" * 32 + "/events/0": (400, "ID_INVALID"),
    "/api/v1/runs/..%2f..%2fetc": (404, "NOT_FOUND"),
    "/api/v1/runs/%252e%252e": (400, "ID_INVALID"),
    "/api/v1//runs": (404, "NOT_FOUND"),
    "/api/v1/runs/": (404, "NOT_FOUND"),
    "/api/v1/runs;x": (404, "NOT_FOUND"),
    "/api/v1/runs/configs": (400, "ID_INVALID"),
    "/API/v1/runs": (404, "NOT_FOUND"),
    "/api/v1/stream": (400, "PARAM_INVALID"),
    "/api/v1/stream?topics=all": (400, "PARAM_INVALID"),
    "/api/v1/stream?topics=run:..": (400, "PARAM_INVALID"),
    "/api/v1/stream?topics=run:" + "0" * 32: (404, "RUN_NOT_FOUND"),
    "/api/v1/workflows/nothing": (404, "UNKNOWN_WORKFLOW"),
    "/api/v1/graphs/nothing": (404, "UNKNOWN_WORKFLOW"),
    "/docs": (404, "NOT_FOUND"),
    "/openapi.json": (404, "NOT_FOUND"),
    "/metrics": (404, "NOT_FOUND"),
}


@pytest.mark.req("X9")
async def test_bad_addresses_get_their_code(memory_engines: Engines) -> None:
    got: dict[str, Any] = {}
    async with served(memory_engines.new(*FLOWS)) as client:
        for address in ADDRESSES:
            answer = await client.get(address)
            got[address] = (answer.status_code, code(answer))

        assert got == ADDRESSES
        await served_as_before(client)


async def test_a_method_that_is_not_there_is_refused(memory_engines: Engines) -> None:
    async with served(memory_engines.client()) as client:
        answer = await client.post("/healthz", headers={"X-HTTP-Method-Override": "GET"})

        assert code(answer) == "METHOD_NOT_ALLOWED"
        assert "GET" in answer.headers["allow"]


SUGGESTIONS = {
    "runs": ({"workflow": "doubling", "imput": 1}, "imput", "did you mean 'input'?"),
    "runs/batch": ({"workflow": "doubling", "inputs": [], "keey": 1}, "keey", "did you mean 'keys'?"),
    "runs/" + "0" * 32 + "/cancel": ({"reasn": "x"}, "reasn", "did you mean 'reason'?"),
    "keys": ({"name": "ci", "zzz": 1}, "zzz", "use one of: by, expires, name, principal, roles, scopes"),
}


@pytest.mark.req("BI-A29", "X9")
async def test_an_unknown_field_is_answered_with_the_one_that_was_meant(memory_engines: Engines) -> None:
    inside = {"workflow": "doubling", "concurrency": {"key": "a", "limt": 1}}
    asked = [*SUGGESTIONS.items(), ("runs", (inside, "concurrency.limt", "did you mean 'limit'?"))]
    async with served(memory_engines.new(*FLOWS)) as client:
        for path, (body, field, hint) in asked:
            problem = (await client.post(f"/api/v1/{path}", json=body)).json()
            assert (problem["code"], problem["field"]) == ("UNKNOWN_FIELD", field)
            assert problem["message"] == f"{field}: there is no such field"
            assert problem["hint"] == f"{hint}; nothing was written"


async def test_a_monitor_may_ask_with_head(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        answers = [await client.head(path) for path in ("/healthz", "/readyz", "/api/v1/runs")]

    assert [(answer.status_code, answer.content) for answer in answers[:2]] == [(200, b"")] * 2
    assert answers[2].status_code == 405


async def test_a_body_that_lies_about_its_length_is_cut_off_at_the_limit(memory_engines: Engines) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(80):
            yield b" " * 65536

    async with served(memory_engines.new(*FLOWS)) as client:
        answer = await client.post(
            "/api/v1/runs", content=endless(), headers={"Content-Type": "application/json"}
        )

        assert code(answer) == "BODY_TOO_LARGE"
        await served_as_before(client)


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: -5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: five\r\n",
        b"X: a\r\n b\nY\r\n",
    ],
)
async def test_broken_framing_closes_the_connection(memory_engines: Engines, lines: bytes) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        port = int(client.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + TOKEN.encode()
        writer.write(head + b"\r\n" + lines + b"\r\n{}")
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        await writer.wait_closed()

        assert answer.startswith(b"HTTP/1.1 400")
        await served_as_before(client)


@pytest.mark.req("X9")
async def test_wrong_types_everywhere_are_refused(memory_engines: Engines) -> None:
    wrong: list[Any] = [None, True, -1, 1.5, "", "x" * 600, [], [[]], {}, {"a": None}]
    fields = ("workflow", "version", "delay", "priority", "queue", "timeout", "tags", "concurrency", "key")
    async with served(memory_engines.new(*FLOWS)) as client:
        for name, value in product(fields, wrong):
            body = {"workflow": "doubling", "input": 1, name: value}
            answer = await client.post(
                "/api/v1/runs",
                content=json.dumps(body).encode(),
                headers={"Content-Type": "application/json"},
            )
            assert answer.status_code in (201, 404, 422), (body, answer.text)
            if answer.status_code != 201:
                assert code(answer)


async def test_an_unexpected_error_shows_only_its_request_id(
    memory_engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:

        async def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("secret detail")

        client.app.state.engine.runs = broken
        answer = await client.get("/api/v1/runs")

        assert (answer.status_code, code(answer)) == (500, "INTERNAL")
        assert "secret" not in answer.text
        assert answer.json()["request_id"] == answer.headers["x-request-id"]
        assert answer.json()["request_id"] in caplog.text
