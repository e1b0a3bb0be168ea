"""The examples of work nodes in docs/graphs.md run, and a mistake in them is found."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepwell import Engine, InvalidGraph, graph
from stepwell.outbound.request import OutboundRules
from tests.channels.mail_server import mail_server
from tests.outbound.listener import answered, listening

PAGE = (Path(__file__).parents[2] / "docs" / "graphs.md").read_text()
EXAMPLES = {
    node["type"]: node
    for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    for node in [json.loads(block)]
    if isinstance(node, dict) and "type" in node and "data" in node
}
INPUT: dict[str, Any] = {"id": 7, "amount": 5, "customer": "ann", "items": [{"price": 2}, {"price": 5}]}
INPUT |= {"email": "ann@example.com", "invoice": "i-1"}
WORK = ("http", "query", "notify", "wait", "javascript", "python")


def around(node: dict[str, Any]) -> dict[str, Any]:
    end = {"id": "end", "type": "end", "data": {"output": {"all": "{{ctx}}"}}}
    return {
        "nodes": [{"id": "start", "type": "start"}, node, end],
        "edges": [{"source": "start", "target": node["id"]}, {"source": node["id"], "target": "end"}],
    }


async def given(node: dict[str, Any], **options: Any) -> Any:
    async with Engine(":memory:", **options) as engine:
        run = await engine.start_graph(around(node), INPUT)
        return (await run.result(60))["all"][node["data"]["outputVariable"]]


@pytest.mark.req("N18")
async def test_the_example_of_http_calls_its_service() -> None:
    node = EXAMPLES["http"]
    async with listening(answered(b'{"id": "r1"}', "200 OK", "Content-Type: application/json")) as web:
        node["data"]["url"] = node["data"]["url"].replace(
            "https://shop.example.com", f"http://127.0.0.1:{web.port}"
        )
        output = await given(node, outbound=OutboundRules.of(["127.0.0.1"], [web.port]))

        assert output["body"] == {"id": "r1"}
        assert web.requests[0].startswith(b"POST /orders/7/refund?notify=true ")
        assert json.loads(web.requests[0].partition(b"\r\n\r\n")[2]) == {"amount": 5}


@pytest.mark.req("N19")
async def test_the_example_of_query_asks_its_database(tmp_path: Path) -> None:
    with apsw.Connection(str(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER, total TEXT, customer TEXT)")
        shop.execute("INSERT INTO orders VALUES (1, '12.50', 'ann'), (2, '1.00', 'bob')")

    output = await given(EXAMPLES["query"], connections={"shop": f"sqlite:{tmp_path / 'shop.db'}"})

    assert output == {"rows": [{"id": 1, "total": "12.50"}], "count": 1}


@pytest.mark.slow
@pytest.mark.req("N6", "N7")
@pytest.mark.parametrize("language", ["javascript", "python"])
async def test_the_example_of_code_gives_its_output(language: str) -> None:
    output = await given(EXAMPLES[language])

    assert output == {"total": 7}


@pytest.mark.req("N26")
async def test_the_example_of_notify_sends_its_mail() -> None:
    async with mail_server() as server, Engine(":memory:", channels={"ops": server.url()}) as engine:
        await (await engine.start_graph(around(EXAMPLES["notify"]), INPUT)).result(60)

    [mail] = server.mails
    assert (mail.recipients, mail.message["Subject"]) == (["ann@example.com"], "Order 7 is late")
    assert mail.text.strip() == "It comes tomorrow."


@pytest.mark.req("N24")
async def test_the_example_of_wait_looks_at_its_record() -> None:
    async with Engine(":memory:") as engine:
        await engine.records.define("invoices", key="number")
        await engine.records.create("invoices", {"number": "i-1", "state": "paid"})
        run = await engine.start_graph(around(EXAMPLES["wait"]), INPUT)
        output = (await run.result(60))["all"]["invoice"]

    assert output["data"] == {"number": "i-1", "state": "paid"}


@pytest.mark.req("N6", "N7", "N18", "N19")
@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize(
    ("wrong", "field", "code"),
    [
        ({"outputVariabel": "x"}, "outputVariabel", "INVALID_DATA"),
        ({"timeoutMs": 0}, "timeoutMs", "TIMEOUT"),
        ({"timeoutMs": "soon"}, "timeoutMs", "TIMEOUT"),
        ({"retry": {"maxAttempts": 0}}, "retry.maxAttempts", "RETRY_POLICY"),
        ({"outputVariable": "ctx"}, "outputVariable", "VARIABLE_NAME"),
    ],
    ids=str,
)
def test_a_wrong_field_is_found_with_its_node_its_code_and_what_to_do(
    name: str, wrong: dict[str, Any], field: str, code: str
) -> None:
    node = {**EXAMPLES[name], "data": {**EXAMPLES[name]["data"], **wrong}}

    with pytest.raises(InvalidGraph) as refused:
        graph(around(node))

    problem = refused.value.problems[0]
    assert (problem.code, problem.node) == (code, node["id"])
    assert problem.field.startswith(field)
    assert problem.message
    assert problem.suggestion
