"""Addresses that a run gives away: one delivery of another service continues the run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell import Context, Machine, SyncContext, WaitTimedOut, step, transition, workflow
from stepwell.client.run_webhooks import AddressUsed
from stepwell.domain.triggers.webhook import WebhookRequest
from tests.engines import Engines, until
from tests.server.served import code, served
from tests.server.test_webhooks import KEYS, SECRET, signed, stranger

told: dict[str, str] = {}


@step
async def tell(run: str, path: str) -> None:
    told[run] = path


@workflow
async def asking(ctx: Context, secret: str = "") -> Any:
    path = ctx.webhook("partner", secret=secret)
    await ctx.step(tell, ctx.run_id, path)
    answer = await ctx.delivery(path, dict[str, int], timeout="1h")
    return answer["n"]


@workflow
def asking_plainly(ctx: SyncContext, secret: str = "") -> Any:
    path = ctx.webhook()
    ctx.step(tell, ctx.run_id, path)
    return ctx.delivery(path)["n"]


class Asking(Machine[dict[str, Any]], name="asking-machine"):
    @transition("start", "end")
    async def ask(self, ctx: Context, secret: str = "") -> None:
        path = ctx.webhook(secret=secret)
        await ctx.step(tell, ctx.run_id, path)
        self.state |= await ctx.delivery(path)


TOLD = ["{{run.id}}", "{{run.webhooks.answer}}"]
GRAPH = {
    "name": "asking-graph",
    "nodes": [
        {"id": "start", "type": "start"},
        {
            "id": "tell",
            "type": "call",
            "data": {"step": "tell", "args": ["{{run.id}}", "{{run.webhooks.answer}}"]},
        },
        {"id": "answer", "type": "wait", "data": {"mode": "webhook", "outputVariable": "got"}},
        {"id": "end", "type": "end", "data": {"output": {"n": "{{ctx.got.n}}"}}},
    ],
    "edges": [
        {"source": "start", "target": "tell"},
        {"source": "tell", "target": "answer"},
        {"source": "answer", "target": "end"},
    ],
}
FLOWS = {"asking": 7, "asking_plainly": 7, "asking-machine": {"n": 7}, "asking-graph": {"n": 7}}


@pytest.mark.req("T2", "N2", "X6")
@pytest.mark.parametrize("name", FLOWS)
async def test_a_run_of_every_style_waits_for_one_delivery(engines: Engines, name: str) -> None:
    body = json.dumps({"n": 7}).encode()
    headers = {"content-type": "application/json", "idempotency-key": "d-1"}
    engine = engines.new(asking, asking_plainly, Asking, GRAPH, steps=[tell])
    async with served(engine) as client, stranger(client) as sender:
        run = await engine.start(name, "" if name != "asking-graph" else {})
        path = await until(lambda: told.pop(run.id, ""))
        first = await sender.post(path, content=body, headers=headers)
        again = await sender.post(path, content=body, headers=headers)
        other = await sender.post(path, content=b"{}", headers={**headers, "idempotency-key": "d-2"})
        result = await run.result(60)
        late = await sender.post(path, content=b"{}", headers={**headers, "idempotency-key": "d-3"})
        repeated = await sender.post(path, content=body, headers=headers)

    assert (first.status_code, first.json()) == (202, {"run": "", "duplicate": False})
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    assert {(answer.status_code, code(answer)) for answer in (other, late)} == {(410, "WEBHOOK_GONE")}
    assert (repeated.status_code, repeated.json()["duplicate"]) == (200, True)
    assert result == FLOWS[name]


@pytest.mark.req("T2", "X6")
async def test_an_address_that_no_run_has_made_leads_nowhere(engines: Engines) -> None:
    engine = engines.new(asking, keyring=KEYS)
    async with served(engine) as client, stranger(client) as sender:
        await engine.secrets.set("shop", SECRET)
        run = await engine.start(asking, "shop")
        path = await until(lambda: told.pop(run.id, ""))
        place, _, token = path.rpartition("/")
        parts = token.split(".")
        forged = [
            f"{place}/{'.'.join(parts[:3])}",  # without its secret
            f"{place}/{'.'.join([*parts[:3], 'bearer', 'shop'])}",
            f"{place}/{'.'.join([parts[0], '0' * 32, *parts[2:]])}",
            f"{place}/{'.'.join(['0' * 32, *parts[1:]])}",
            f"{place}/{'.'.join([*parts[:2], '%C3%A9' * 32, *parts[3:]])}",  # 32 times é
            f"/hooks/acme/{token}",
        ]
        answers = [await sender.post(one, content=b"{}", headers=signed(b"{}")) for one in forged]
        unsigned = await sender.post(path, content=b'{"n": 1}')
        right = await sender.post(path, content=b'{"n": 1}', headers=signed(b'{"n": 1}'))
        result = await run.result(60)

    assert {(a.status_code, code(a)) for a in answers} == {(404, "WEBHOOK_NOT_FOUND")}
    assert (unsigned.status_code, code(unsigned)) == (401, "SIGNATURE")
    assert (right.status_code, result) == (202, 1)


@pytest.mark.req("T2")
async def test_a_delivery_before_its_wait_is_kept_and_one_after_it_is_refused(engines: Engines) -> None:
    @workflow
    async def early(ctx: Context) -> Any:
        first, second = ctx.webhook("a"), ctx.webhook("b")
        await ctx.step(tell, ctx.run_id, f"{first} {second}")
        await ctx.signal("go")
        try:
            return await ctx.delivery(first, timeout=0.01)
        except WaitTimedOut:
            await ctx.signal("again")
            return await ctx.delivery(second)

    engine = engines.new(early)

    async def send(path: str, id: str) -> bool:
        request = WebhookRequest({"idempotency-key": id}, {}, b"1", lambda: 1)

        async def no_secret(workspace: str, name: str) -> str:
            raise AssertionError("there is none")

        token = path.rpartition("/")[2]
        return (await engine.webhooks.deliver(token, request, no_secret)).duplicate

    async with engine:
        run = await engine.start(early)
        await run.waiting_for("go")
        first, second = told.pop(run.id).split()
        assert not await send(second, "x")
        assert await send(second, "x")
        await run.signal("go")
        await run.waiting_for("again")
        with pytest.raises(AddressUsed, match="no longer waits") as refused:
            await send(first, "y")
        assert "new address" in refused.value.hint
        await run.signal("again")

        assert await run.result(60) == 1


@pytest.mark.req("T2", "N7")
async def test_a_webhook_cannot_be_waited_for_in_a_loop(memory_engines: Engines) -> None:
    body = {
        "name": "g",
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "data": {"items": "[1]"}},
            {"id": "w", "type": "wait", "parentId": "each", "data": {"mode": "webhook"}},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": "each"}, {"source": "each", "target": "end"}],
    }

    [problem] = memory_engines.new().graphs.check(body)

    assert (problem.code, problem.node, problem.field) == ("INVALID_DATA", "w", "mode")
