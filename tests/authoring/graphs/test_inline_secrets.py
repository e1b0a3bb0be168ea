"""Credentials in a definition are refused when it is saved or imported; nothing is executed: BI-G31."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepwell import InvalidGraph, graph
from stepwell.authoring.graphs.build.plan_builder import PlanBuilder
from stepwell.outbound.request import OutboundRules
from tests.engines import Engines
from tests.handlers.test_code import code_graph
from tests.handlers.test_http import graph_of
from tests.outbound.listener import answered, listening

URL = "https://api.example.com/"
# Put together here from halves, so that no scanner takes them for real ones.
TOKENS = {
    "stripe": "sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "github": "gh" + "p_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "aws": "AK" + "IAIOSFODNN7EXAMPLE",
    "slack": "xo" + "xb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy",
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA",
    "url": "postgresql://app:hunter2hunter2@" + "db.internal/app",
}


@pytest.mark.req("BI-G31", "X8")
@pytest.mark.parametrize(
    ("data", "field", "value"),
    [
        ({"headers": {"Authorization": "Bearer abcdef123456"}}, "headers.Authorization", "abcdef123456"),
        ({"headers": {"x-api-key": "abcdef123456"}}, "headers.x-api-key", "abcdef123456"),
        ({"headers": {"Cookie": "session=abcdef123456"}}, "headers.Cookie", "abcdef123456"),
        ({"query": {"api_key": "abcdef123456"}}, "query.api_key", "abcdef123456"),
        ({"query": {"accessToken": "abcdef123456"}}, "query.accessToken", "abcdef123456"),
        ({"body": {"login": {"password": "hunter2hunter2"}}}, "body.login.password", "hunter2"),
        ({"body": {"client_secret": "x{{ctx.input.n}}"}}, "body.client_secret", "x{{"),
        *(({"body": {"note": ["a", f"use {token}"]}}, "body.note.1", token) for token in TOKENS.values()),
        ({"query": {"q": TOKENS["stripe"]}}, "query.q", TOKENS["stripe"]),
    ],
)
def test_a_credential_in_a_node_is_refused_and_not_repeated(
    data: dict[str, Any], field: str, value: str
) -> None:
    with pytest.raises(InvalidGraph) as refused:
        graph(graph_of({"url": URL, **data}))

    (problem,) = [each for each in refused.value.problems if each.code == "SECRET_INLINE"]
    assert (problem.node, problem.field) == ("call", field)
    assert "credential" in problem.suggestion
    assert value not in str(refused.value)


@pytest.mark.req("BI-T07", "X8")
def test_an_expression_that_asks_for_a_secret_is_refused_with_its_field() -> None:
    body = graph_of({"url": URL, "headers": {"X-Key": "{{secrets.stripe}}"}})
    named = graph_of(
        {"url": URL, "query": {"q": "{{ctx.input.xs.map(secrets, secrets + 1)}} secrets.stripe"}}
    )
    with pytest.raises(InvalidGraph) as refused:
        graph(body)

    [problem] = refused.value.problems
    assert (problem.code, problem.node, problem.field) == ("SECRET_CONTEXT", "call", "headers")
    assert "credential" in problem.suggestion
    assert PlanBuilder(stored=True).check(body) == []  # saved before: it runs, and that node fails
    graph(named)  # a name of the expression's own


@pytest.mark.req("BI-G31")
@pytest.mark.parametrize(
    "data",
    [
        {"credential": "stripe"},
        {"headers": {"Authorization": "Bearer {{ctx.input.token}}"}},
        {"headers": {"Authorization": "{{ctx.input.token}}", "Accept": "application/json"}},
        {"query": {"token": "next-page", "key": "value", "api_key": "{{ctx.input.key}}"}},
        {"body": {"password": "{{ctx.input.password}}", "passwordHint": "the usual", "author": "ann"}},
        {"body": {"text": "see https://example.com:8443/a@b and sk-short"}},
    ],
)
def test_names_templates_and_ordinary_text_are_accepted(data: dict[str, Any]) -> None:
    assert graph(graph_of({"url": URL, **data})).plan.root.nodes


@pytest.mark.req("BI-G31")
def test_a_credential_in_code_or_in_a_trigger_is_refused() -> None:
    with pytest.raises(InvalidGraph) as code:
        graph(code_graph("javascript", f"return '{TOKENS['github']}'"))
    body = graph_of({"url": URL})
    body["triggers"] = [{"id": "hook", "type": "webhook", "path": "in", "password": "hunter2hunter2"}]
    with pytest.raises(InvalidGraph) as trigger:
        graph(body)

    assert code.value.codes == ["SECRET_INLINE"]
    assert "SECRET_INLINE" in trigger.value.codes
    assert "hunter2" not in str(trigger.value)


@pytest.mark.slow
@pytest.mark.req("BI-G31")
async def test_nothing_of_it_is_kept_and_an_old_graph_still_runs(engines: Engines) -> None:
    body = graph_of({"url": URL, "headers": {"Authorization": "Bearer abcdef123456"}})
    async with engines.new() as engine:
        with pytest.raises(InvalidGraph):
            await engine.library.create(body, name="leaky")
        with pytest.raises(InvalidGraph):
            await engine.start_graph(body, {})

        assert not await engine.library.list()
        assert not await engine.runs()
        assert engine.graphs.workflow(body, stored=True).definition.hash  # it was saved before the rule


@pytest.mark.slow
@pytest.mark.req("BI-G31", "BI-C01")
async def test_an_import_executes_nothing(engines: Engines, tmp_path: Path) -> None:
    """A definition with code, calls and triggers, drawn by another editor, is only read."""
    mark = tmp_path / "executed"
    body = code_graph("python", f"open({str(mark)!r}, 'w').write('x')\nraise ValueError('executed')")
    body["nodes"].append({"id": "hook", "type": "webhook", "data": {"path": "in"}})
    body["edges"].append({"source": "hook", "target": "call"})
    async with listening(answered()) as listener:
        data = {"url": f"http://127.0.0.1:{listener.port}/"}
        body["nodes"].insert(2, {"id": "phone", "type": "http", "data": data})
        body["edges"][1:2] = [{"source": "call", "target": "phone"}, {"source": "phone", "target": "end"}]
        rules = OutboundRules.of(["127.0.0.1"], [listener.port])
        async with engines.new(outbound=rules) as engine:
            saved = await engine.library.create(body, name="imported")
            await engine.library.publish("imported")
            runs = list(await engine.runs())

        assert saved.name == "imported"
        assert not runs
        assert not mark.exists()
        assert listener.connections == 0
