"""Webhooks: other services start runs over HTTP, each delivery once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from stepwell import Context, Engine, workflow
from stepwell.domain.triggers.webhook import signature
from stepwell.secrets.keyring import Keyring
from tests.engines import Engines
from tests.server.served import Served, code, doubling, failing, served

KEYS = Keyring({"k": b"k" * 32}, current="k")
SECRET = "whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0"


@workflow
async def greeting(ctx: Context, body: dict[str, Any]) -> str:
    return f"hello {body['name']}"


@workflow
async def payment(ctx: Context, order: str) -> Any:
    return await ctx.event("paid", key=order)


FLOWS = (doubling, failing, greeting, payment)


@asynccontextmanager
async def hooked(engines: Engines, **options: Any) -> AsyncIterator[tuple[Served, Engine]]:
    engine = engines.new(*FLOWS, keyring=KEYS, **options)
    async with served(engine) as client:
        await engine.secrets.set("shop", SECRET)
        yield client, engine


def signed(body: bytes, id: str = "msg_1", *, at: float = 0.0, secret: str = SECRET) -> dict[str, str]:
    stamp = int(time.time() + at)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(stamp),
        "webhook-signature": signature(secret, id, stamp, body),
        "content-type": "application/json",
    }


async def created(client: Served, **body: Any) -> str:
    answer = await client.post("/api/v1/webhooks", json={"name": "hook", "secret": "shop", **body})
    assert answer.status_code == 201, answer.text
    path: str = answer.json()["path"]
    return path


@asynccontextmanager
async def stranger(client: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=client.url, timeout=60) as other:
        yield other


@pytest.mark.req("T2", "N2", "X6", "BI-W04")
async def test_a_signed_delivery_starts_one_run_however_often_it_comes(engines: Engines) -> None:
    body = json.dumps({"name": "Ana", "amount": 3}).encode()
    async with hooked(engines) as (client, engine), stranger(client) as sender:
        path = await created(client, workflow="greeting")
        first = await sender.post(path, content=body, headers=signed(body))
        again = [await sender.post(path, content=body, headers=signed(body)) for _ in range(3)]
        together = await asyncio.gather(
            *(sender.post(path, content=body, headers=signed(body, "msg_2")) for _ in range(5))
        )
        run = await engine.handle(first.json()["run"]).info()
        result = await engine.handle(first.json()["run"]).result(60)
        listed = await engine.runs(tags={"webhook": "hook"})

    assert (first.status_code, first.json()["duplicate"]) == (202, False)
    assert {(answer.status_code, answer.json()["duplicate"]) for answer in again} == {(200, True)}
    assert {answer.json()["run"] for answer in again} == {run.id}
    assert len({answer.json()["run"] for answer in together}) == 1
    assert len(listed) == 2
    assert (run.trigger, run.started_by, result) == ("webhook", "webhook hook", "hello Ana")


@pytest.mark.req("T2", "X6", "BI-W04")
async def test_a_repeated_delivery_counts_once_even_if_it_gives_another_input(engines: Engines) -> None:
    body = json.dumps({"name": "Ana"}).encode()
    async with hooked(engines) as (client, engine), stranger(client) as sender:
        path = await created(client, workflow="greeting", input={"name": "{{trigger.at}}"})
        first = await sender.post(path, content=body, headers=signed(body))
        again = await sender.post(path, content=body, headers=signed(body))
        together = await asyncio.gather(
            *(sender.post(path, content=body, headers=signed(body, "msg_2")) for _ in range(5))
        )
        runs = await engine.runs()

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == {"run": first.json()["run"], "duplicate": True}
    assert {answer.status_code for answer in together} <= {200, 202}
    assert len({answer.json()["run"] for answer in together}) == 1
    assert len(runs) == 2


@pytest.mark.req("T2", "X6", "BI-W01", "BI-W02", "BI-W03", "BI-W05", "BI-W06")
async def test_an_unsigned_delivery_starts_nothing(engines: Engines) -> None:
    body = b'{"name": "Eve"}'
    async with hooked(engines) as (client, engine), stranger(client) as sender:
        path = await created(client, workflow="greeting")
        unsigned = {"content-type": "application/json"}
        many = {"webhook-signature": " ".join([signed(body)["webhook-signature"]] * 1000)}
        answers = {
            "BI-W01": await sender.post(path, content=body, headers=unsigned),
            "BI-W02": await sender.post(path, content=body + b" ", headers=signed(body)),
            "BI-W03": await sender.post(path, content=body, headers=signed(body, at=-301)),
            "BI-W03 ahead": await sender.post(path, content=body, headers=signed(body, at=302)),
            "BI-W05": await sender.post(path, content=body, headers=signed(body, secret="whsec_b3RoZXI=")),
            "BI-W06": await sender.post(path, content=body, headers=signed(body) | many),
        }
        runs = await engine.runs()

    expected = {row: (401, "TIMESTAMP" if row.startswith("BI-W03") else "SIGNATURE") for row in answers} | {
        "BI-W06": (400, "SIGNATURES_MAX")
    }
    assert {row: (answer.status_code, code(answer)) for row, answer in answers.items()} == expected
    assert not any(SECRET in answer.text for answer in answers.values())
    assert not runs


@pytest.mark.req("T2", "X6", "BI-W05")
async def test_the_old_secret_of_a_webhook_is_refused_after_a_change(memory_engines: Engines) -> None:
    body, new = b'{"name": "Ana"}', "whsec_bmV3bmV3bmV3bmV3bmV3bmV3"
    async with hooked(memory_engines) as (client, engine), stranger(client) as sender:
        path = await created(client, workflow="greeting")
        before = await sender.post(path, content=body, headers=signed(body))
        await engine.secrets.set("shop", new)
        engine.secret_opener._opened.clear()  # as five seconds later
        old = await sender.post(path, content=body, headers=signed(body, "msg_2"))
        after = await sender.post(path, content=body, headers=signed(body, "msg_2", secret=new))

    assert (before.status_code, old.status_code, after.status_code) == (202, 401, 202)
    assert code(old) == "SIGNATURE"


@pytest.mark.req("T2", "X6", "BI-W07")
async def test_an_address_that_guesses_is_slowed_down_and_one_that_delivered_is_not(
    memory_engines: Engines,
) -> None:
    body, wrong = b'{"name": "Ana"}', "/hooks/default/unknown"
    async with hooked(memory_engines) as (client, engine), stranger(client) as sender:
        path = await created(client, workflow="greeting")
        guesses = [code(await sender.post(wrong, content=body)) for _ in range(25)]
        refused = await sender.post(path, content=body, headers=signed(body))
        key_of_others = await client.get("/api/v1/me")
        runs = await engine.runs()
    async with hooked(memory_engines) as (client, _), stranger(client) as sender:
        path = await created(client, workflow="greeting", name="again")
        await sender.post(path, content=body, headers=signed(body))
        mistakes = {
            code(await sender.post(path, content=body + b" ", headers=signed(body))) for _ in range(25)
        }
        accepted = await sender.post(path, content=body, headers=signed(body, "msg_2"))

    assert guesses == ["WEBHOOK_NOT_FOUND"] * 20 + ["TOO_MANY_ATTEMPTS"] * 5
    assert (refused.status_code, refused.headers["retry-after"], len(runs)) == (429, "60", 0)
    assert key_of_others.status_code == 200
    assert (mistakes, accepted.status_code) == ({"SIGNATURE"}, 202)


@pytest.mark.req("T2", "BI-W07", "BI-W12", "BI-W13")
async def test_addresses_that_lead_nowhere_look_alike(engines: Engines) -> None:
    body = b"{}"
    async with hooked(engines) as (client, engine), stranger(client) as sender:
        path = await created(client, workflow="doubling")
        token = path.rpartition("/")[2]
        await client.post("/api/v1/webhooks/hook/pause", json={"reason": "twice"})
        answers = [
            await sender.post("/hooks/default/unknown", content=body, headers=signed(body)),
            await sender.post(f"/hooks/acme/{token}", content=body, headers=signed(body)),
            await sender.post("/hooks/default/%00", content=body, headers=signed(body)),
            await sender.post("/hooks/%00/x", content=body, headers=signed(body)),
            await sender.post(f"/hooks/default/{token}%0a", content=body, headers=signed(body)),
            await sender.post("/hooks/default/%f0%9f%94%92", content=body, headers=signed(body)),
            await sender.post(f"/hooks/default/{'z' * 32}.{'z' * 32}.{'z' * 32}", content=body),
            await sender.post(path, content=body, headers=signed(body)),  # paused
        ]
        methods = [await sender.request(name, path) for name in ("GET", "HEAD", "PUT", "OPTIONS", "DELETE")]
        await client.post("/api/v1/webhooks/hook/resume", json={})
        await engine.disable("doubling", by="ann")
        disabled = await sender.post(path, content=b"4", headers=signed(b"4"))

    shapes = {(a.status_code, code(a), a.json()["message"]) for a in answers}
    assert shapes == {(404, "WEBHOOK_NOT_FOUND", "there is no webhook at this address")}
    assert {answer.status_code for answer in methods} == {405}
    assert not any("access-control-allow-origin" in answer.headers for answer in methods)
    assert (disabled.status_code, code(disabled)) == (409, "WORKFLOW_DISABLED")


@pytest.mark.req("T2")
async def test_a_sender_can_wait_for_the_result(engines: Engines) -> None:
    async with hooked(engines) as (client, _), stranger(client) as sender:
        path = await created(client, workflow="doubling", reply="result", wait=30)
        answer = await sender.post(path, content=b"21", headers=signed(b"21"))

    assert (answer.status_code, answer.json()["status"], answer.json()["result"]) == (200, "completed", 42)


@pytest.mark.req("T2", "X9")
async def test_a_sender_hears_that_a_run_failed_and_not_why(engines: Engines) -> None:
    async with hooked(engines) as (client, _), stranger(client) as sender:
        path = await created(client, workflow="failing", reply="result", wait=30)
        answer = await sender.post(path, content=b'"secret"', headers=signed(b'"secret"'))

    assert (answer.status_code, answer.json()["status"]) == (200, "failed")
    assert "secret" not in answer.text


@pytest.mark.req("T2", "N2")
async def test_a_run_that_waits_hears_of_a_delivery(engines: Engines) -> None:
    body = b'{"order": "o-7", "amount": 3}'
    async with hooked(engines) as (client, engine), stranger(client) as sender:
        path = await created(client, event="paid", event_key="{{trigger.body.order}}")
        run = await engine.start(payment, "o-7")
        await run.waiting_for("paid")
        answers = [await sender.post(path, content=body, headers=signed(body)) for _ in range(2)]

        assert await run.result(60) == {"order": "o-7", "amount": 3}
    assert [(a.status_code, a.json()) for a in answers] == [
        (202, {"run": "", "duplicate": False}),
        (200, {"run": "", "duplicate": True}),
    ]


@pytest.mark.req("T2", "BI-W08", "BI-W09", "BI-W10", "BI-W11", "BI-T06")
@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("application/json", b'{"files":{"a":{"filepath":"/etc/passwd"}}}', "files"),
        ("application/json", b'{"x": "{{secrets.KEY}} {{trigger.id}}"}', "{{secrets.KEY}} {{trigger.id}}"),
        ("application/x-www-form-urlencoded", b"a[__proto__][x]=1&b=2", "a[__proto__][x]"),
        ("application/x-www-form-urlencoded", b"&".join([b"a=1"] * 10_000), (400, "FORM_TOO_MANY")),
        ("application/x-www-form-urlencoded", b"&".join([b"a=1"] * 1000), "a"),
        ("application/x-www-form-urlencoded", b"a=1&&b", (400, "FORM_INVALID")),
        ("multipart/form-data; boundary=x", b"--x--", (415, "CONTENT_TYPE")),
        ("multipart/form-data", b"--x\r\n" * 100_000, (415, "CONTENT_TYPE")),
        ("application/xml", b"<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>", (415, "CONTENT_TYPE")),
        ("application/json", b'{"a": 1', (400, "JSON_INVALID")),
        ("application/json", b"[" * 200, (400, "JSON_TOO_DEEP")),
        ("text/plain", b"\xff\xfe", (400, "ENCODING")),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_bodies_are_plain_data(
    memory_engines: Engines, kind: str, body: bytes, expected: str | tuple[int, str]
) -> None:
    async with hooked(memory_engines) as (client, engine), stranger(client) as sender:
        path = await created(client, event="seen")
        answer = await sender.post(path, content=body, headers=signed(body) | {"content-type": kind})
        events = await engine.store.published("seen", "", since=0.0)

    if isinstance(expected, tuple):
        assert (answer.status_code, code(answer)) == expected, answer.text
        assert not events
    else:
        assert answer.status_code == 202, answer.text
        assert expected.encode() in events[0].payload


@pytest.mark.req("T2", "X5")
async def test_webhooks_are_managed_within_their_workspace(engines: Engines) -> None:
    async with hooked(engines) as (client, engine):
        path = await created(client, workflow="greeting", tags={"from": "shop"})
        body = {"name": "hook", "workflow": "greeting", "secret": "shop"}
        twice = await client.post("/api/v1/webhooks", json=body)
        wrong = await client.post("/api/v1/webhooks", json={**body, "name": "h", "workflow": "greetin"})
        shown = (await client.get("/api/v1/webhooks/hook")).json()
        other = await engine.within("acme").keys.create("eve", scopes=["admin"])
        async with httpx.AsyncClient(
            base_url=client.url, headers={"Authorization": f"Bearer {other.text}"}
        ) as eve:
            seen = (await eve.get("/api/v1/webhooks")).json()
            missing = await eve.get("/api/v1/webhooks/hook")
        deleted = [(await client.delete("/api/v1/webhooks/hook")).json()["changed"] for _ in range(2)]

    assert (twice.status_code, code(twice)) == (409, "TRIGGER_EXISTS")
    assert (wrong.status_code, code(wrong)) == (404, "UNKNOWN_WORKFLOW")
    assert (shown["path"], shown["tags"], shown["secret"]) == (path, {"from": "shop"}, "shop")
    assert len(path.rpartition("/")[2]) == 32
    assert (seen["webhooks"], missing.status_code) == ([], 404)
    assert deleted == [True, False]


@pytest.mark.req("T2", "X8")
async def test_a_server_without_the_key_says_that_it_cannot_check(engines: Engines) -> None:
    async with hooked(engines) as (client, _):
        path = await created(client, workflow="greeting")
    engine = engines.new(*FLOWS)
    async with served(engine) as client, stranger(client) as sender:
        answer = await sender.post(path, content=b"{}", headers=signed(b"{}"))

    assert (answer.status_code, code(answer)) == (503, "WEBHOOK_UNAVAILABLE")


@pytest.mark.req("X1", "T3", "BI-H23")
async def test_calls_of_runs_carry_how_many_runs_led_to_them(engines: Engines) -> None:
    depth, start = "x-stepwell-depth", {"workflow": "doubling", "input": 4}
    async with hooked(engines) as (client, engine), stranger(client) as sender:
        path = await created(client, event="seen", scheme="none", secret="")
        begun = await client.post(
            "/api/v1/runs", json={"workflow": "doubling", "input": 4}, headers={depth: "8"}
        )
        delivered = await sender.post(path, content=b"1", headers={depth: "3"})
        refused = [
            await client.post("/api/v1/runs", json=start, headers={depth: "9"}),
            await sender.post(path, content=b"2", headers={depth: "9"}),
            await sender.post(path, content=b"2", headers={depth: "-1"}),
            await sender.get("/healthz", headers={depth: "1e1"}),
        ]
        [first] = [event async for event in engine.handle(begun.json()["id"]).events()][:1]
        events = await engine.store.published("seen", "", since=0.0)
        runs = await engine.runs()

    assert {(answer.status_code, code(answer)) for answer in refused} == {(429, "RECURSION_LIMIT")}
    assert (first.data["hops"], [event.hops for event in events], len(runs)) == (8, [3], 1)
    assert delivered.status_code == 202


@pytest.mark.req("T2", "N2", "BI-W13")
async def test_webhooks_of_drafts_and_deleted_graphs_start_nothing(engines: Engines) -> None:
    graph = {
        "name": "refund",
        "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "end"}],
        "triggers": [{"id": "hook", "type": "webhook", "path": "refunds"}],
    }
    async with hooked(engines) as (client, engine), stranger(client) as sender:
        await engine.library.create(graph)
        drafts = await engine.webhooks.list()
        of_a_draft = await client.post("/api/v1/webhooks", json={"name": "d", "workflow": "draft:refund"})
        await engine.library.publish("refund")
        [hook] = await engine.webhooks.list()
        own = await created(client, workflow="refund", scheme="none", secret="")
        begun = await sender.post(hook.path, json={"order": 1})
        await engine.disable("refund")
        disabled = await sender.post(hook.path, json={"order": 2})
        await engine.enable("refund")
        await engine.library.delete("refund")
        gone = [await sender.post(path, json={"order": 3}) for path in (hook.path, own)]
        runs = await engine.runs(workflow="refund")

    assert (list(drafts), of_a_draft.status_code) == ([], 422)
    assert (begun.status_code, len(runs)) == (202, 1)
    assert (disabled.status_code, code(disabled)) == (409, "WORKFLOW_DISABLED")
    assert [answer.status_code for answer in gone] == [404, 404]


@pytest.mark.req("T2", "X6", "BI-W14")
async def test_a_result_in_an_answer_is_data_and_no_page(engines: Engines) -> None:
    body = b'{"name": "<script>alert(1)</script>"}'
    async with hooked(engines) as (client, _), stranger(client) as sender:
        path = await created(client, workflow="greeting", reply="result", wait=30)
        answer = await sender.post(path, content=body, headers=signed(body) | {"accept": "text/html"})

    assert (answer.status_code, answer.json()["result"]) == (200, "hello <script>alert(1)</script>")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
