"""The `javascript` and `python` nodes in running graphs."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import InvalidGraph, RunFailed, graph
from tests.engines import Engines
from tests.handlers.test_http import ERROR_EDGE, graph_of

CODES = {
    "javascript": "return {total: ctx.input.items.reduce((sum, item) => sum + item.price, 0)}",
    "python": "return {'total': sum([item['price'] for item in ctx['input']['items']])}",
}


def code_graph(language: str, code: str, *edges: dict[str, Any], **data: Any) -> dict[str, Any]:
    body = graph_of({}, *edges)
    body["nodes"][1] = {
        "id": "call",
        "type": language,
        "data": {"outputVariable": "answer", "code": code, **data},
    }
    return body


@pytest.mark.slow
@pytest.mark.req("N6", "N7")
@pytest.mark.parametrize("language", CODES)
async def test_a_graph_runs_code(engines: Engines, language: str) -> None:
    async with engines.new() as engine:
        items = {"items": [{"price": 2}, {"price": 5}]}
        run = await engine.start_graph(code_graph(language, CODES[language]), items)

        assert await run.result(60) == {"result": {"total": 7}}


@pytest.mark.slow
@pytest.mark.req("N6", "N7", "G11")
@pytest.mark.parametrize(
    ("language", "code", "expected"),
    [
        ("javascript", "throw new Error('no')", "CODE_ERROR"),
        ("javascript", "return (", "CODE_SYNTAX"),
        ("javascript", "for (;;) {}", "CODE_TIMEOUT"),
        ("python", "raise ValueError('no')", "CODE_ERROR"),
        ("python", "while True: pass", "CODE_TIMEOUT"),
    ],
)
async def test_a_failure_takes_the_error_edge(
    memory_engines: Engines, language: str, code: str, expected: str
) -> None:
    async with memory_engines.new() as engine:
        body = code_graph(language, code, ERROR_EDGE, timeoutMs=500)
        run = await engine.start_graph(body, {})

        assert await run.result(60) == {"result": expected}


@pytest.mark.slow
@pytest.mark.req("X2")
async def test_other_runs_go_on_beside_endless_code(memory_engines: Engines) -> None:
    endless = code_graph("javascript", "for (;;) {}", timeoutMs=2000)
    quick = code_graph("python", "return 1")
    async with memory_engines.new() as engine:
        held = [await engine.start_graph(endless, {}, key=f"held-{number}") for number in range(3)]
        fine = [await engine.start_graph(quick, {}, key=f"fine-{number}") for number in range(20)]

        assert [await run.result(60) for run in fine] == [{"result": 1}] * 20
        for run in held:
            with pytest.raises(RunFailed) as failed:
                await run.result(60)
            assert failed.value.cause_code == "CODE_TIMEOUT"


@pytest.mark.req("N7")
def test_python_that_cannot_be_parsed_is_found_when_the_graph_is_saved() -> None:
    with pytest.raises(InvalidGraph) as refused:
        graph(code_graph("python", "total = 1\nreturn total +"))

    problem = refused.value.problems[0]
    assert (problem.code, problem.node, problem.field) == ("CODE_SYNTAX", "call", "code")
    assert "line 2" in problem.message


@pytest.mark.req("N6")
@pytest.mark.parametrize("code", ["", "x" * 70_000, "a\0b", 5, None])
def test_code_that_is_no_code_is_refused(code: Any) -> None:
    with pytest.raises(InvalidGraph):
        graph(code_graph("javascript", code))
