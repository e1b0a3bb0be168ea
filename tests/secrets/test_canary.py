"""The canary: secrets used in all three styles, and then every byte that was written or answered is searched.

Each secret is echoed by a service, returned, raised, printed, logged and saved by the code that uses it. The
bytes are those of the database's files with its journal, of every answer and stream of the API, of exports,
logs, metrics, spans and the output of the process.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import asyncpg
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stepwell import (
    Context,
    Engine,
    Machine,
    Retry,
    SourceEvent,
    StepContext,
    source,
    step,
    transition,
    workflow,
)
from stepwell.outbound.request import OutboundRules
from stepwell.secrets.keyring import Keyring
from stepwell.server.metrics import Metrics
from tests.engines import Engines, until
from tests.outbound.listener import Listener, answered, listening
from tests.server.served import Served, served

KEY = b"K" * 32
KEYS = Keyring({"k1": KEY}, current="k1")
PASSED = "Canary/7d1f+Größe 9c42==passed"  # to a step
SENT = "canary-5b8e?sent&by=http node"  # as a credential
PAIR = "canary-user:canary-3a90-password"  # for basic
LINES = "-----BEGIN KEY-----\nMIIEvCanaryLineOne01\nkqhkiCanaryLineTwo02\n-----END KEY-----"
SECRETS = {"passed": PASSED, "sent": SENT, "pair": PAIR, "lines": LINES}
SHORTEST = 12  # characters of a secret that must appear nowhere, also where a text was cut


def traces_of(value: str) -> Iterator[bytes]:
    """What must not be found: the value in each form, its beginning and its lines."""
    parts = [value, value[:SHORTEST], *value.splitlines()[1:-1]]
    for part in parts:
        data = part.encode()
        yield data
        yield json.dumps(part)[1:-1].encode()
        yield quote(part, safe="").encode()
        yield quote_plus(part).encode()
        yield data.hex().encode()  # as a database shows bytes
        for offset in range(3):
            whole = base64.b64encode(b"\0" * offset + data).decode()
            inner = whole[(0, 2, 3)[offset] : 4 * ((offset + len(data)) // 3)]
            if len(inner) >= SHORTEST:
                yield inner.encode()
                yield inner.translate(str.maketrans("+/", "-_")).encode()


def leaks(where: str, data: bytes) -> list[str]:
    return [
        f"{where}: {name} as {form[:20]!r} in {data[max(0, data.find(form) - 60) : data.find(form) + 30]!r}"
        for name, value in SECRETS.items()
        for form in dict.fromkeys(traces_of(value))
        if form in data
    ]


def spilled(step: StepContext, value: str) -> Any:
    """Put a value wherever code can put one, and return it."""
    logging.getLogger("spill").warning("using %s", value)
    logging.getLogger("spill").info("as json %s", json.dumps({"token": value}))
    print("printed", value)
    print("printed", value[: len(value) - 3], file=sys.stderr)
    step.save("note", {"value": value, "basic": base64.b64encode(f"user:{value}".encode()).decode()})
    step.details(value=value)
    return {"echo": value, value: [f"Bearer {value}", quote(value)], "cut": value[:20] + "..."}


@step(secrets=["passed", "lines"], retry=Retry(2, delay="1ms"))
async def spilling(step: StepContext) -> Any:
    given = [spilled(step, step.secrets[name]) for name in ("passed", "lines")]
    if step.attempt == 1:
        raise RuntimeError(f"refused: https://host/?token={quote(step.secrets['passed'], safe='')}")
    return given


@step(secrets=["passed", "lines"], isolation="process")
def spilling_in_process(step: StepContext) -> Any:
    return [spilled(step, step.secrets[name]) for name in ("passed", "lines")]


@workflow
async def leaky(ctx: Context, fails: bool = False) -> Any:
    given = await ctx.step(spilling)
    await ctx.step(spilling_in_process)
    await ctx.run(listening_child, given)
    if fails:
        raise ValueError(f"ended with {given}")
    return given


@workflow
async def listening_child(ctx: Context, given: Any) -> Any:
    return given


@dataclass
class Order:
    seen: Any = None


class LeakyMachine(Machine[Order]):
    ends = frozenset({"done"})

    @transition("start", "done")
    async def pay(self, ctx: Context) -> None:
        self.state.seen = await ctx.step(spilling)


class Spans:
    def __init__(self) -> None:
        self.memory = InMemorySpanExporter()

    def text(self) -> bytes:
        return "".join(span.to_json() for span in self.memory.get_finished_spans()).encode()


def graph_calling(port: int) -> dict[str, Any]:
    """An http node for each way to send a credential, and a Python step; errors go on."""
    nodes: list[dict[str, Any]] = [{"id": "start", "type": "start"}]
    for name, credential in (("bearer", "sent"), ("basic", "pair"), ("broken", "sent"), ("moved", "sent")):
        data = {
            "method": "POST",
            "url": f"http://127.0.0.1:{port}/{name}",
            "body": {"of": name},
            "credential": credential,
            "retry": {"maxAttempts": 1},
            "outputVariable": name,
        }
        nodes.append({"id": name, "type": "http", "data": data})
    nodes.append({"id": "call", "type": "call", "data": {"step": "spilling", "outputVariable": "spilled"}})
    nodes.append({"id": "code", "type": "javascript", "data": {"code": "console.log(ctx); return ctx"}})
    nodes.append({"id": "end", "type": "end", "data": {"output": {"all": "{{ctx}}"}}})
    order = [node["id"] for node in nodes]
    edges = [{"source": one, "target": other} for one, other in pairwise(order)]
    edges.append({"source": "broken", "sourceHandle": "error", "target": "moved"})
    return {"name": "leaky-graph", "nodes": nodes, "edges": edges}


def echo(request: bytes, writer: asyncio.StreamWriter) -> None:
    """Send back what was sent, in the body, in headers and in other forms."""
    head = request.split(b"\r\n\r\n")[0].decode("latin-1")
    sent = next(line for line in head.split("\r\n") if line.lower().startswith("authorization"))
    path = head.split(" ")[1]
    value = sent.split(" ", 2)[-1].encode("latin-1").decode("utf-8", "replace")
    said = {"you": sent, "quoted": quote(value), "base64": base64.b64encode(value.encode()).decode()}
    body = json.dumps(said).encode() if path != "/broken" else b"x" * 95 + value.encode()
    status = "500 Internal Server Error" if path == "/broken" else "200 OK"
    writer.write(answered(body, status, "Content-Type: application/json", f"X-Echo: {quote(value)}"))


async def answers(client: Served, runs: list[str]) -> AsyncIterator[tuple[str, bytes]]:
    """Every answer that the API gives to a GET: Studio shows nothing else."""
    names = {"{name}": "leaky", "{seq}": "2", "{job_id}": "none", "{id}": "none", "{webhook_id}": "none"}
    for route in client.app.table:
        if route.method != "GET" or route.path == "/":
            continue
        for run in runs if "{run_id}" in route.path else runs[:1]:
            path = route.path.replace("{run_id}", run)
            for name, value in names.items():
                path = path.replace(name, value)
            if "{" in path:
                continue
            if path.endswith("/stream"):
                topic = {} if "/runs/" in path else {"params": {"topic": [f"run:{run}", "runs"]}}
                yield path, await streamed(client, path, **topic)
                continue
            answer = await client.get(path, params={"error": "ended"} if path.endswith("/runs") else {})
            yield path, answer.content + repr(answer.headers).encode()
    yield "graph", (await client.get("/api/v1/runs", params={"search": "canary"})).content


async def streamed(client: Served, path: str, **options: Any) -> bytes:
    """What a stream sends until it falls silent."""
    data = b""
    try:
        async with client.stream("GET", path, timeout=2.0, **options) as response:
            async for chunk in response.aiter_bytes():
                data += chunk
    except httpx.TimeoutException:
        pass
    return data


async def stored(engines: Engines) -> AsyncIterator[tuple[str, bytes]]:
    """Every byte that the database has on its disk: files, journals, and rows as they are read."""
    if engines.kind == "sqlite":
        path = Path(str(engines.database))
        for file in sorted(path.parent.iterdir()):
            if file.is_file():
                yield file.name, file.read_bytes()
        return
    connection = await asyncpg.connect(str(engines.database))
    try:
        names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'stepwell'")
        for (name,) in names:
            for row in await connection.fetch(f'SELECT t.* FROM stepwell."{name}" AS t'):
                for value in row.values():
                    yield name, value if isinstance(value, bytes) else str(value).encode()
        await connection.execute("CHECKPOINT")
        folder = Path(str(await connection.fetchval("SHOW data_directory")))
        (number,) = await connection.fetchrow(
            "SELECT oid FROM pg_database WHERE datname = current_database()"
        )
    finally:
        await connection.close()
    for part in (folder / "base" / str(number), folder / "pg_wal", folder / "log"):
        for file in sorted(part.iterdir()) if part.is_dir() else ():
            if file.is_file():
                yield f"{part.name}/{file.name}", file.read_bytes()


@asynccontextmanager
async def in_use(engines: Engines, web: Listener) -> AsyncIterator[tuple[Engine, Served]]:
    options: dict[str, Any] = {"outbound": OutboundRules.of(["127.0.0.1"], [web.port]), "keyring": KEYS}
    engine = engines.new(leaky, listening_child, LeakyMachine, steps=[spilling], **options)
    async with served(engine) as client:
        for name, value in SECRETS.items():
            use = {"use": "basic"} if name == "pair" else {}
            body = {"value": value, "hosts": [f"http://127.0.0.1:{web.port}"], **use}
            answer = await client.put(f"/api/v1/secrets/{name}", json=body)
            assert answer.status_code in (200, 201), answer.text
            assert not leaks("set", answer.content)
        yield engine, client


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    exporter, provider = Spans(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter.memory))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


@pytest.mark.slow
@pytest.mark.req("X8", "BI-T06", "PT-15")
async def test_no_secret_is_in_any_byte_that_was_written(
    durable_engines: Engines,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    spans: Spans,
) -> None:
    caplog.set_level(logging.DEBUG)
    found: list[str] = []
    async with listening(echo) as web:
        async with in_use(durable_engines, web) as (engine, client):
            runs = [
                await engine.start(leaky, key="fine"),
                await engine.start(leaky, True, key="fails"),
                await engine.start(LeakyMachine),
                await engine.start_graph(graph_calling(web.port), {}),
            ]
            for run in runs:
                await client.ended(run.id)
            statuses = [(await run.info()).status.value for run in runs]
            async for path, answer in answers(client, [run.id for run in runs]):
                found += leaks(f"GET {path}", answer)
            for run in runs:
                found += leaks("export", json.dumps(await engine.export(run), default=str).encode())
                found += leaks("events", repr([event async for event in run.events()]).encode())
                found += leaks("trace", repr(await run.trace()).encode())
            text = await Metrics(engine, client.app.state.streams).text()
            found += leaks("metrics", text.encode())
            async for name, data in stored(durable_engines):
                found += leaks(name, data)
        async for name, data in stored(durable_engines):
            found += leaks(f"{name}, after the end", data)
        requests = b"".join(web.requests)
    found += leaks("spans", spans.text())
    found += leaks("logging", caplog.text.encode() + repr([vars(r) for r in caplog.records]).encode())
    output = "".join(capfd.readouterr())
    found += leaks("output", output.encode())

    assert statuses == ["completed", "failed", "completed", "completed"]
    assert output.count("printed [secret passed]") >= 4  # also of the process
    assert SENT.encode() in requests  # it was used
    assert spans.memory.get_finished_spans()
    assert found == []


@workflow
async def numbered(ctx: Context, number: int) -> int:
    return number


@workflow
async def told(ctx: Context, what: Any) -> Any:
    return what


@source(every=0.05)
async def careless(config: Any, cursor: Any) -> list[SourceEvent]:
    """Fails with what it was given, and continues at an address that has a secret in it."""
    if cursor is not None:
        raise ConnectionError(f"refused: https://host/?token={quote(PASSED, safe='')} for {SENT}")
    return [SourceEvent("1", {"token": PASSED}, cursor=f"https://host/?page=2&token={quote(PASSED)}")]


@pytest.mark.slow
@pytest.mark.req("X8", "BI-T06", "T1", "T2", "T3")
async def test_no_secret_is_in_what_starts_runs(
    durable_engines: Engines, caplog: pytest.LogCaptureFixture
) -> None:
    """Sources, events, schedules and webhooks meet secrets; so do notes about why nothing was started."""
    caplog.set_level(logging.DEBUG)
    found: list[str] = []
    engine = durable_engines.new(numbered, told, sources=[careless], keyring=KEYS)
    async with served(engine) as client:
        for name, value in SECRETS.items():
            await engine.secrets.set(name, value)
            await engine.secret_opener.value("default", name)
        await engine.triggers.create("mail", numbered, source="careless", config={"key": SENT})
        await engine.triggers.create("paid", numbered, {"of": PASSED}, event="paid")
        await engine.schedules.create("daily", told, {"of": PASSED, "pair": PAIR}, cron="0 2 * * *")
        run = await engine.schedules.trigger("daily")
        everything = {"all": "{{trigger.headers}}", "body": "{{trigger.body}}", "of": LINES}
        hooks = [
            await engine.webhooks.create("bearer", told, everything, scheme="bearer", secret="sent"),
            await engine.webhooks.create("basic", told, everything, scheme="basic", secret="pair"),
        ]
        basic = base64.b64encode(PAIR.encode()).decode()
        for hook, credential in zip(hooks, (f"Bearer {SENT}", f"Basic {basic}"), strict=True):
            delivered = await client.post(
                hook.path, json={"echo": PASSED}, headers={"authorization": credential, "x-pair": PAIR}
            )
            assert delivered.status_code == 202, delivered.text
            await client.ended(delivered.json()["run"])
        await engine.triggers.pause("mail", reason=f"it has {SENT}")
        await engine.triggers.resume("mail")
        await engine.emit("paid", {"token": PASSED}, key="7")
        await client.ended(run.id)

        async def noted() -> Any:
            mail, paid = await engine.triggers.get("mail"), await engine.triggers.get("paid")
            return (mail, paid) if mail.failures > 1 and mail.refused and paid.refused else None

        mail, paid = await until(noted)
        found += leaks("triggers", repr((mail, paid)).encode())
        async for path, answer in answers(client, [run.id]):
            found += leaks(f"GET {path}", answer)
        async for name, data in stored(durable_engines):
            found += leaks(name, data)
    found += leaks("logging", caplog.text.encode() + repr([vars(r) for r in caplog.records]).encode())

    assert "[secret passed]" in mail.error
    assert found == []


@pytest.mark.req("X8")
def test_the_canary_is_recognised() -> None:
    for name, value in SECRETS.items():
        assert leaks("here", f"...{value}...".encode())
        assert leaks("here", base64.b64encode(f"u:{value}".encode()))
        assert leaks("here", quote(value, safe="").encode()), name
    assert leaks("here", LINES.splitlines()[1].encode())
    assert not leaks("here", b"[secret passed] and nothing else")
