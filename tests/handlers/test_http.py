"""The `http` node in running graphs, against a listener on loopback."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from stepwell import Engine, InvalidGraph, RunFailed, RunHandle, graph
from stepwell.domain.program import StepContext
from stepwell.handlers.http import StatusError, http_step
from stepwell.outbound.request import OutboundRules
from tests.engines import Engines, crash
from tests.outbound.listener import Answer, Listener, answered, client_of, listening

JSON = "Content-Type: application/json"


def graph_of(data: dict[str, Any], *more_edges: dict[str, Any]) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [
        {"id": "start", "type": "start"},
        {"id": "call", "type": "http", "data": {"outputVariable": "answer", **data}},
        {"id": "end", "type": "end", "data": {"output": {"result": "{{ctx.answer}}"}}},
        {"id": "failed", "type": "end", "data": {"output": {"result": "{{ctx.error.code}}"}}},
    ]
    edges = [{"source": "start", "target": "call"}, {"source": "call", "target": "end"}, *more_edges]
    return {"nodes": nodes if more_edges else nodes[:-1], "edges": edges}


ERROR_EDGE = {"source": "call", "target": "failed", "sourceHandle": "error"}
QUICKLY = {"maxAttempts": 3, "delayMs": 1, "maxDelayMs": 5}


def opened(engines: Engines, listener: Listener, *workflows: Any) -> Engine:
    return engines.new(*workflows, outbound=OutboundRules.of(["127.0.0.1"], [listener.port]))


async def result(run: RunHandle[Any]) -> Any:
    return (await run.result(60))["result"]


async def called(
    engines: Engines, answer: Answer, data: dict[str, Any], input: Any = None
) -> tuple[Any, Listener]:
    async with listening(answer) as listener, opened(engines, listener) as engine:
        url = data.get("url", "/").replace("HOST", f"http://127.0.0.1:{listener.port}")
        run = await engine.start_graph(graph_of({**data, "url": url}), input or {})
        return await result(run), listener


@pytest.mark.req("N18")
async def test_a_graph_calls_a_service_and_goes_on_with_its_answer(engines: Engines) -> None:
    data = {
        "method": "POST",
        "url": "HOST/orders/{{ctx.input.id}}/items",
        "query": {"limit": "{{ctx.input.limit}}", "tag": ["a", "b"]},
        "headers": {"X-Name": "order {{ctx.input.limit}}"},
        "body": {"id": "{{ctx.input.id}}", "count": "{{ctx.input.limit}}"},
    }

    output, listener = await called(
        engines, answered(b'{"total": 3}', "201 Created", JSON), data, {"id": "a/../b?x=1", "limit": 5}
    )

    assert output["status"] == 201
    assert output["body"] == {"total": 3}
    assert output["headers"]["content-type"] == "application/json"
    head, _, body = listener.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /orders/a%2F..%2Fb%3Fx%3D1/items?limit=5&tag=a&tag=b HTTP/1.1")
    assert b"x-name: order 5" in head
    assert msgspec.json.decode(body) == {"id": "a/../b?x=1", "count": 5}
    assert b"idempotency-key: " in head


@pytest.mark.req("N18")
async def test_a_header_says_a_value_as_a_text_does(memory_engines: Engines) -> None:
    values = {"yes": True, "none": None, "half": 0.5, "list": [1, "a"], "map": {"a": None}}
    data = {"url": "HOST/", "headers": {f"X-{name}": f"{{{{ctx.input.{name}}}}}" for name in values}}

    _, listener = await called(memory_engines, answered(), data, values)

    sent = listener.requests[0].decode().split("\r\n")
    said = {line.partition(": ")[0]: line.partition(": ")[2] for line in sent if line.startswith("x-")}
    assert {name: said[f"x-{name}"] for name in values} == {
        "yes": "true",
        "none": "",
        "half": "0.5",
        "list": '[1,"a"]',
        "map": '{"a":null}',
    }


@pytest.mark.req("N18", "BI-H18", "BI-T06")
@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b'\xef\xbb\xbf{"a": 1}', "application/json", {"body": {"a": 1}}),
        (b'{"a": 1}', "application/problem+json", {"body": {"a": 1}}),
        (b"gr\xfc\xdf", "text/plain; charset=latin-1", {"body": "grüß"}),
        (
            b"gr\xfc\xdf",
            "text/plain; charset=utf-8",
            {"body": "gr\ufffd\ufffd"},
        ),  # BI-H18
        (b"hello", "", {"body": "hello"}),
        (b"\x00\xff", "application/octet-stream", {"bodyBase64": "AP8="}),
        (b"", "application/json", {"body": None}),
        (b'{"x": "{{secrets.KEY}}"}', "application/json", {"body": {"x": "{{secrets.KEY}}"}}),  # BI-T06
    ],
)
async def test_answers_become_json(memory_engines: Engines, body: bytes, kind: str, expected: Any) -> None:
    output, _ = await called(
        memory_engines, answered(body, "200 OK", f"Content-Type: {kind}"), {"url": "HOST/"}
    )

    assert {name: output[name] for name in output if name.startswith("body")} == expected


@pytest.mark.req("N18", "BI-H18")
@pytest.mark.parametrize(
    "body", [b"{", b"<html>\x1b[2J", b'{"a": NaN}', b"[" * 100_000, b"\xff\xfe{\x00}\x00", b"{} {}"]
)
async def test_json_that_is_none_fails_with_its_beginning(memory_engines: Engines, body: bytes) -> None:
    async with listening(answered(body, "200 OK", JSON)) as listener, opened(memory_engines, listener) as e:
        data = {"url": f"http://127.0.0.1:{listener.port}/", "retry": {"maxAttempts": 1}}
        run = await e.start_graph(graph_of(data), {})
        with pytest.raises(RunFailed) as failed:
            await run.result(60)

    assert failed.value.cause_code == "RESPONSE_DECODE"
    assert "\x1b" not in str(failed.value)
    assert len(str(failed.value)) < 1000


@pytest.mark.req("N18", "BI-H24")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("99999999999", 9.0),
        ("-5", None),
        ("0", 0.0),
        ("3", 3.0),
        ("soon", None),
        ("", None),
        ("\u0663", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 9.0),
        ("Thu, 99 Foo 2026 00:00:00 GMT", None),
    ],
)
async def test_a_delay_that_a_service_wishes_is_kept_within_limits(
    header: str, seconds: float | None
) -> None:
    async def opened_secret(run: str, name: str) -> Any:
        raise AssertionError("no secret is asked for")

    raw = answered(b"", "503 Service Unavailable", f"Retry-After: {header}".encode().decode("latin-1"))
    async with listening(raw) as listener, client_of(listener) as client:
        step = http_step(lambda: client, opened_secret)
        config: dict[str, Any] = {
            "method": "GET",
            "url": f"http://127.0.0.1:{listener.port}/",
            "headers": {},
            "query": {},
            "body": None,
            "okStatus": ["2xx"],
            "maxResponseBytes": 1000,
            "timeout": 10.0,
            "longestDelay": 9.0,
        }
        with pytest.raises(StatusError) as busy:
            await step.function(StepContext(run_id="0" * 32, path="0/call", attempt=1, lease=""), config)

    assert getattr(busy.value, "seconds", None) == seconds


@pytest.mark.req("N18", "G11")
@pytest.mark.parametrize(
    ("status", "code", "attempts"),
    [
        ("404 Not Found", "HTTP_404", 1),
        ("400 Bad Request", "HTTP_400", 1),
        ("500 Internal Server Error", "HTTP_500", 3),
        ("429 Too Many Requests", "HTTP_429", 3),
        ("302 Found", "HTTP_302", 1),
    ],
)
async def test_a_status_decides_about_retry_and_the_error_edge(
    memory_engines: Engines, status: str, code: str, attempts: int
) -> None:
    async with listening(answered(b"no", status)) as listener, opened(memory_engines, listener) as engine:
        data = {"url": f"http://127.0.0.1:{listener.port}/", "retry": QUICKLY}
        run = await engine.start_graph(graph_of(data, ERROR_EDGE), {})

        assert await result(run) == code
        assert len(listener.requests) == attempts


@pytest.mark.req("N18", "BI-H24")
async def test_a_service_is_asked_again_when_it_says_so(memory_engines: Engines) -> None:
    def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        first = len(listener.requests) == 1
        busy = answered(b"", "503 Service Unavailable", "Retry-After: 99999999999")
        writer.write(busy if first else answered(b"fine"))

    async with listening(answer) as listener, opened(memory_engines, listener) as engine:
        data = {"url": f"http://127.0.0.1:{listener.port}/", "method": "POST", "retry": QUICKLY}
        run = await engine.start_graph(graph_of(data), {})

        assert (await result(run))["body"] == "fine"  # within the node's longest delay
        lines = [line for request in listener.requests for line in request.split(b"\r\n")]
        assert len(listener.requests) == 2
        assert len({line for line in lines if b"idempotency" in line}) == 1


@pytest.mark.req("N18", "G11")
async def test_a_busy_service_keeps_its_code(memory_engines: Engines) -> None:
    busy = answered(b"later", "503 Service Unavailable", "Retry-After: 0")
    async with listening(busy) as listener, opened(memory_engines, listener) as engine:
        data = {"url": f"http://127.0.0.1:{listener.port}/", "retry": QUICKLY}
        run = await engine.start_graph(graph_of(data, ERROR_EDGE), {})

        assert await result(run) == "HTTP_503"
        assert len(listener.requests) == 3


@pytest.mark.req("N18")
async def test_other_statuses_can_count_as_success(memory_engines: Engines) -> None:
    output, _ = await called(
        memory_engines, answered(b"", "404 Not Found"), {"url": "HOST/", "okStatus": ["2xx", "404"]}
    )

    assert output["status"] == 404


@pytest.mark.req("N18", "X1", "BI-T11", "BI-H01", "BI-H20", "BI-H21")
@pytest.mark.parametrize(
    ("data", "code", "field"),
    [
        ({"url": "file:///etc/passwd"}, "URL_SCHEME", "url"),
        ({"url": "https://{{ctx.input.host}}/x"}, "URL_HOST", "url"),
        ({"url": "{{ctx.input.url}}"}, "URL_HOST", "url"),
        ({"url": "https://u:p@example.com/"}, "URL_USERINFO", "url"),
        ({"url": "https://example.com/", "method": "TRACE"}, "INVALID_DATA", "method"),
        ({"url": "https://example.com/", "headers": {"Host": "x"}}, "HEADER_FORBIDDEN", "headers.Host"),
        ({"url": "https://example.com/", "okStatus": ["9xx"]}, "INVALID_DATA", "okStatus"),
        ({"url": "https://example.com/", "timeoutMs": 0}, "TIMEOUT", "timeoutMs"),
        ({"url": "https://example.com/", "uri": "x"}, "INVALID_DATA", "uri"),
        ({}, "INVALID_DATA", "url"),
    ],
)
def test_a_wrong_node_is_found_when_the_graph_is_saved(data: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(InvalidGraph) as refused:
        graph(graph_of(data))

    problem = refused.value.problems[0]
    assert problem.node == "call"
    assert problem.field.startswith(field)
    assert problem.code == code
    assert problem.message


@pytest.mark.req("X1", "N18", "BI-T10", "BI-T11")
async def test_values_cannot_lead_a_call_inside(memory_engines: Engines) -> None:
    async with listening(answered()) as listener, memory_engines.new() as engine:
        for host, code in (
            (f"127.0.0.1:{listener.port}", "URL_PORT"),
            ("127.0.0.1", "SSRF_BLOCKED"),
            ("evil.com/@internal\r\nX: y", "URL_INVALID"),
        ):
            data = {"url": "http://{{ctx.input.host}}/", "allowDynamicHost": True}
            run = await engine.start_graph(graph_of(data, ERROR_EDGE), {"host": host})
            assert await result(run) == code
        header = {"url": "https://example.com/", "headers": {"X-A": "{{ctx.input.text}}"}}
        run = await engine.start_graph(graph_of(header, ERROR_EDGE), {"text": "a\r\nHost: evil"})
        assert await result(run) == "HEADER_INVALID"
        assert listener.connections == 0


@pytest.mark.req("X1", "N18", "BI-T11")
@pytest.mark.parametrize("id", ["..", ".", "%2e%2E", "../admin", "a..b", "..."])
async def test_a_value_in_a_path_leads_to_no_other_path(memory_engines: Engines, id: str) -> None:
    async with (
        listening(answered(b"1", "200 OK", JSON)) as listener,
        opened(memory_engines, listener) as engine,
    ):
        data = {"url": f"http://127.0.0.1:{listener.port}/orders/{{{{ctx.input.id}}}}/items?up=.."}
        run = await engine.start_graph(graph_of(data, ERROR_EDGE), {"id": id})
        ended = await result(run)
        paths = [request.split(b" ")[1] for request in listener.requests]

    if id in ("..", "."):
        assert (ended, paths) == ("URL_INVALID", [])
    else:
        sent = {"%2e%2E": b"%252e%252E", "../admin": b"..%2Fadmin"}.get(id, id.encode())
        assert paths == [b"/orders/" + sent + b"/items?up=.."]


@pytest.mark.req("N18", "K12")
async def test_a_slow_service_fails_within_the_timeout(memory_engines: Engines) -> None:
    async def silent(request: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with listening(silent) as listener, opened(memory_engines, listener) as engine:
        data = {"url": f"http://127.0.0.1:{listener.port}/", "timeoutMs": 200, "retry": {"maxAttempts": 1}}
        run = await engine.start_graph(graph_of(data), {})
        with pytest.raises(RunFailed) as failed:
            await run.result(60)

    assert failed.value.cause_code == "HTTP_TIMEOUT"


@pytest.mark.req("N18", "K5")
async def test_a_recorded_call_is_not_made_again(durable_engines: Engines) -> None:
    body = graph_of({"url": "HOST/"})
    body["nodes"].insert(2, {"id": "pause", "type": "wait", "data": {"mode": "event", "event": "go"}})
    body["edges"] = [
        {"source": a, "target": b} for a, b in (("start", "call"), ("call", "pause"), ("pause", "end"))
    ]
    async with listening(answered(b"once")) as listener:
        body["nodes"][1]["data"]["url"] = f"http://127.0.0.1:{listener.port}/"
        first = opened(durable_engines, listener)
        await first.open()
        run = await first.start_graph(body, {})
        await run.waiting_for("pause", timeout=60)
        await crash(first)
        async with opened(durable_engines, listener, body) as second:
            again = second.handle(run.id)
            await second.emit("go", {})
            assert (await result(again))["body"] == "once"

        assert len(listener.requests) == 1
