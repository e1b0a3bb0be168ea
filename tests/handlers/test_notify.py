"""`notify` in running graphs, functions and machines: BI-T10."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from stepwell import (
    Context,
    Engine,
    InvalidGraph,
    Machine,
    Retry,
    StepError,
    graph,
    notify,
    transition,
    workflow,
)
from stepwell.outbound.request import OutboundRules
from stepwell.secrets.keyring import Keyring
from tests.channels.mail_server import MailServer, mail_server
from tests.channels.test_webhook import SECRET, headers_of
from tests.engines import Engines, crash, until
from tests.handlers.test_http import ERROR_EDGE, QUICKLY, graph_of
from tests.outbound.listener import Listener, answered, listening

KEYRING = Keyring.from_text("a:" + "A" * 43 + "=")


def notify_graph(data: dict[str, Any], *edges: dict[str, Any]) -> dict[str, Any]:
    body = graph_of({}, *edges)
    node = {"outputVariable": "answer", "channel": "ops", "retry": QUICKLY, **data}
    body["nodes"][1] = {"id": "call", "type": "notify", "data": node}
    return body


async def told(engine: Engine, data: dict[str, Any], input: Any = None) -> Any:
    """The output of the node, or the code of its error."""
    run = await engine.start_graph(notify_graph(data, ERROR_EDGE), input or {})
    return (await run.result(60))["result"]


@pytest.mark.req("N26", "G11")
async def test_a_graph_sends_a_mail_with_values_of_its_run(engines: Engines) -> None:
    data = {
        "to": "{{ctx.input.to}}",
        "subject": "Order {{ctx.input.id}} is late",
        "text": "Dear {{ctx.input.name}},\nit comes tomorrow.",
    }
    async with mail_server() as server, engines.new(channels={"ops": server.url()}) as engine:
        output = await told(engine, data, {"id": 42, "name": "Ana", "to": ["a@x.org", "b@x.org"]})

    [mail] = server.mails
    assert output["accepted"] == ["a@x.org", "b@x.org"]
    assert mail.message["Subject"] == "Order 42 is late"
    assert mail.text.splitlines() == ["Dear Ana,", "it comes tomorrow."]


@pytest.mark.req("N26")
async def test_every_attempt_has_the_same_id(engines: Engines) -> None:
    answers = ["451 later", "451 later", "250 OK"]
    server = MailServer(answer=lambda mail: answers.pop(0))
    async with mail_server(server), engines.new(channels={"ops": server.url()}) as engine:
        output = await told(engine, {"to": ["a@x.org"], "text": "hello"})

    assert len(server.attempts) == 3
    assert {mail.id for mail in server.attempts} == {f"<{output['id']}@example.com>"}


@pytest.mark.req("N26")
async def test_a_worker_that_dies_while_it_sends_sends_the_same_message_again(
    durable_engines: Engines,
) -> None:
    async with mail_server(MailServer(silent=1)) as server:
        channels = {"ops": server.url()}
        doomed = durable_engines.new(channels=channels)
        await doomed.open()
        run = await doomed.start_graph(notify_graph({"to": ["a@x.org"], "text": "hello"}), {})
        await until(lambda: server.attempts)  # the server has it, and the worker has not heard of that
        await crash(doomed)
        server.spoken.set()
        async with durable_engines.new(late, channels=channels) as engine:
            await engine.handle(run.id).result(60)

    assert len(server.attempts) == 2
    assert len({mail.id for mail in server.attempts}) == 1


@pytest.mark.parametrize(
    ("data", "input", "code"),
    [
        ({"subject": "{{ctx.input.x}}"}, {"x": "a\r\nBcc: b@x.org"}, "HEADER_INVALID"),  # BI-T10
        ({"to": ["{{ctx.input.x}}"]}, {"x": "a@x.org\nRCPT TO:<b@x.org>"}, "HEADER_INVALID"),
        ({"to": ["{{ctx.input.x}}"]}, {"x": "a@x.org, b@x.org"}, "RECIPIENT_INVALID"),
        ({"to": ["{{ctx.input.x}}"]}, {"x": 7}, "RECIPIENT_INVALID"),
        ({"to": []}, {}, "RECIPIENT_MISSING"),
        ({"channel": "unknown"}, {}, "NOTIFY_CHANNEL"),
        ({"text": "{{ctx.input.x}}"}, {"x": {"a": 1}}, "INVALID_DATA"),
    ],
)
@pytest.mark.req("N26")
async def test_what_may_not_be_sent_takes_the_error_edge_at_once(
    memory_engines: Engines, data: dict[str, Any], input: Any, code: str
) -> None:
    async with mail_server() as server, memory_engines.new(channels={"ops": server.url()}) as engine:
        assert await told(engine, {"to": ["a@x.org"], "text": "hello", **data}, input) == code

    assert server.attempts == []


@pytest.mark.parametrize(
    ("data", "code", "field"),
    [
        ({"text": "x", "subject": "a\nb"}, "HEADER_INVALID", "subject"),
        ({"text": "x", "to": ["a@x.org", "nobody"]}, "RECIPIENT_INVALID", "to.1"),
        ({}, "INVALID_DATA", "text"),
        ({"text": "x", "chanel": "ops"}, "INVALID_DATA", "chanel"),
        ({"text": "{{ctx.}}"}, "BAD_EXPRESSION", "text"),
    ],
)
def test_a_mistake_is_found_when_the_graph_is_saved(data: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(InvalidGraph) as caught:
        graph(notify_graph(data))

    problem = caught.value.problems[0]
    assert (problem.node, problem.field, problem.code) == ("call", field, code)


@pytest.mark.req("N26")
async def test_a_graph_sends_a_signed_webhook(memory_engines: Engines) -> None:
    answers = [answered(b"", "503 Busy", "Retry-After: 0"), answered()]

    def answer(request: bytes, writer: Any) -> None:
        writer.write(answers.pop(0))

    async with listening(answer) as listener, hooked(memory_engines, listener) as engine:
        output = await told(engine, {"data": {"order": "{{ctx.input.id}}"}}, {"id": 42})

    assert output["status"] == 200
    ids = {headers_of(request)["webhook-id"] for request in listener.requests}
    assert ids == {output["id"]}
    assert len(listener.requests) == 2
    assert all(b'"order":42' in request for request in listener.requests)


@asynccontextmanager
async def hooked(engines: Engines, listener: Listener) -> AsyncIterator[Engine]:
    engine = engines.new(
        channels={"ops": f"http://127.0.0.1:{listener.port}/in#secret=hook"},
        outbound=OutboundRules.of(["127.0.0.1"], [listener.port]),
        keyring=KEYRING,
    )
    async with engine:
        await engine.secrets.set("hook", SECRET)
        yield engine


@workflow
async def late(ctx: Context, order: int) -> Any:
    quick = notify.options(retry=Retry(3, delay=0.001))
    return await ctx.step(quick, "ops", to=["a@x.org"], subject="Late", text=f"Order {order}")


class DeliveryState(BaseModel):
    order: int = 7


class Delivery(Machine[DeliveryState]):
    ends = frozenset({"told"})

    @transition("start", "told")
    async def tell(self, ctx: Context) -> None:
        await ctx.step(notify, "ops", to=["a@x.org"], text=f"Order {self.state.order}")


@pytest.mark.req("N26")
async def test_functions_and_machines_notify_by_a_step(engines: Engines) -> None:
    answers = ["451 later", "250 OK", "250 OK"]
    server = MailServer(answer=lambda mail: answers.pop(0))
    async with mail_server(server), engines.new(late, Delivery, channels={"ops": server.url()}) as engine:
        output = await (await engine.start(late, 42)).result(60)
        await (await engine.start(Delivery)).result(60)

    assert output["accepted"] == ["a@x.org"]
    assert [mail.text.strip() for mail in server.mails] == ["Order 42", "Order 7"]
    assert server.attempts[0].id == server.attempts[1].id


@pytest.mark.req("N26")
async def test_a_step_that_may_not_be_sent_fails_at_once(memory_engines: Engines) -> None:
    @workflow
    async def hostile(ctx: Context, subject: str) -> str:
        try:
            await ctx.step(notify, "ops", to=["a@x.org"], subject=subject)
        except StepError as error:
            return error.cause_code
        return "sent"

    async with mail_server() as server, memory_engines.new(hostile, channels={"ops": server.url()}) as engine:
        run = await engine.start(hostile, "a\r\nBcc: b@x.org")
        assert await run.result(60) == "HEADER_INVALID"

    assert server.attempts == []
