"""The `javascript` and `python` nodes in running graphs."""

from __future__ import annotations

import logging
import time
from typing import Any, cast

import pytest

from stepwell import InvalidGraph, RunFailed, graph
from stepwell.handlers.code import Sandboxes
from stepwell.sandbox.code_sandbox import Language
from stepwell.sandbox.jail import jail
from stepwell.sandbox.probe import SandboxProbe
from stepwell.sandbox.syntax import faults_of
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


@pytest.mark.slow
@pytest.mark.req("X2", "N6", "BI-C02")
async def test_code_that_waits_behind_endless_code_does_not_fail(memory_engines: Engines) -> None:
    endless = code_graph("javascript", "for (;;) {}", timeoutMs=2000)
    quick = code_graph("javascript", "return 1", timeoutMs=1000)
    async with memory_engines.new() as engine:
        held = [await engine.start_graph(endless, {}, key=f"held-{number}") for number in range(8)]
        fine = [await engine.start_graph(quick, {}, key=f"fine-{number}") for number in range(4)]

        assert [await run.result(60) for run in fine] == [{"result": 1}] * 4
        for run in held:
            with pytest.raises(RunFailed) as failed:
                await run.result(60)
            assert failed.value.cause_code == "CODE_TIMEOUT"


UNREADABLE = [
    ("javascript", "const a = 1\nconst = 2", "line 2", 7),
    ("javascript", "return (", "line 1", 9),
    ("javascript", "}); ctx.reached(); (function () {", "line 1", 2),
    ("python", "total = 1\nreturn total +", "line 2", 15),
    ("python", "a = 1\nb = = 2", "line 2", 5),
    ("python", "yield 1", "line 1", 1),
]


@pytest.mark.slow
@pytest.mark.req("N6", "N7", "BI-C01")
@pytest.mark.parametrize(("language", "code", "line", "column"), UNREADABLE)
async def test_code_that_cannot_be_read_is_found_when_the_graph_is_saved(
    memory_engines: Engines, language: str, code: str, line: str, column: int
) -> None:
    async with memory_engines.new() as engine:
        with pytest.raises(InvalidGraph) as refused:
            await engine.library.create(code_graph(language, code), name="unreadable")
        assert not await engine.library.list()
        assert [each.code for each in engine.graphs.check(code_graph(language, code))] == ["CODE_SYNTAX"]

    (problem,) = refused.value.problems
    assert (problem.code, problem.node, problem.field) == ("CODE_SYNTAX", "call", "code")
    assert line in problem.message
    assert problem.column == column
    assert problem.suggestion


@pytest.mark.slow
@pytest.mark.req("BI-C01", "X2")
def test_code_is_never_executed_to_find_out_whether_it_can_be_read() -> None:
    """Whatever it is: decorators, defaults and the end of the function around it."""
    endless = [
        ("javascript", "for (;;) {}"),
        ("javascript", "}[(() => { for (;;) {} })()] = function () {"),
        ("javascript", "}); for (;;) {} (function () {"),
        ("python", "while True: pass"),
        ("python", "def f(a=[n for n in iter(int, 1)]): pass"),
        ("python", "@iter(int, 1).__next__\ndef f(): pass"),
    ]
    began = time.monotonic()

    faults = faults_of([(cast("Language", language), code) for language, code in endless])

    assert all(fault is not None for fault in faults)
    assert time.monotonic() - began < 2.0 + 8.0  # a parse that ran would take its two seconds each


@pytest.mark.slow
@pytest.mark.req("N6", "N7")
def test_good_code_is_accepted_and_none_is_guessed_without_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    for language, code in CODES.items():
        assert not graph(code_graph(language, code)).plan.warnings
    monkeypatch.setattr("stepwell.sandbox.syntax.is_installed", lambda language: False)

    (warning,) = graph(code_graph("javascript", "return ((")).plan.warnings

    assert warning.code == "CODE_UNCHECKED"
    assert "stepwell[code]" in warning.suggestion


@pytest.mark.req("N6", "N7")
@pytest.mark.parametrize("language", CODES)
def test_code_has_thirty_seconds_and_one_attempt_unless_it_says_otherwise(language: str) -> None:
    node = next(n for n in graph(code_graph(language, "return 1")).plan.root.nodes if n.id == "call")

    (request,), _ = node.behaviour.prepare({"ctx": {"n": 1}, "loop": None}, None)
    assert request["seconds"] == 30.0
    assert request["ctx"] == {"n": 1}
    assert node.behaviour.spec.retry.attempts == 1


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C15")
@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("javascript", r"console.log('\u001b[31mred\r\nfake\u0000end'); throw new Error('\u001b[2J')"),
        ("python", r"print('\x1b[31mred\r\nfake\x00end'); raise ValueError('\x1b[2J')"),
    ],
)
async def test_what_code_prints_cannot_steer_a_terminal(
    memory_engines: Engines, caplog: pytest.LogCaptureFixture, language: str, code: str
) -> None:
    caplog.set_level(logging.INFO, "stepwell.code")
    async with memory_engines.new() as engine:
        run = await engine.start_graph(code_graph(language, code), {})
        with pytest.raises(RunFailed) as failed:
            await run.result(60)
        lines = [line.text for line in (await run.logs())]

    said = "".join([*lines, *(record.getMessage() for record in caplog.records), str(failed.value)])
    assert r"\x1b[31mred" in said
    assert r"\x1b[2J" in said
    assert not set(said) & {"\x1b", "\0", "\r"}


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C24")
async def test_code_of_several_workspaces_runs_only_where_it_reaches_nothing(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWELL_SANDBOX_JAIL", "off")
    jail.cache_clear()
    try:
        async with engines.new() as engine:
            sandboxes = Sandboxes(lambda: engine.store.find_other_workspace("default"), probe=SandboxProbe())
            sandboxes._alone_seconds = 0.0
            engine._sandboxes = sandboxes
            alone = await engine.start_graph(code_graph("javascript", "return 1"), {}, key="alone")
            assert await alone.result(60) == {"result": 1}

            theirs = await engine.within("acme").start_graph(code_graph("javascript", "return 2"), {})
            ours = await engine.start_graph(code_graph("javascript", "return 3"), {}, key="beside")
            for run in (theirs, ours):
                with pytest.raises(RunFailed, match="would reach files") as failed:
                    await run.result(60)
                assert failed.value.cause_code == "SANDBOX_UNAVAILABLE"
                assert "bubblewrap" in str(failed.value)
    finally:
        monkeypatch.undo()
        jail.cache_clear()


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C24")
@pytest.mark.parametrize("workspaces", [1, 2])
async def test_a_worker_of_several_workspaces_probes_when_it_starts(
    engines: Engines, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, workspaces: int
) -> None:
    monkeypatch.setenv("STEPWELL_SANDBOX_JAIL", "off")
    jail.cache_clear()
    try:
        async with engines.new(worker=False) as engine:
            for name in ("default", "acme")[:workspaces]:
                await engine.within(name).start_graph(code_graph("javascript", "return 1"), {}, delay="1h")
        engine = engines.new(code_graph("javascript", "return 1"))
        probe = SandboxProbe()
        sandboxes = engine._own_sandboxes()
        sandboxes._probe = probe
        async with engine:
            assert sandboxes._probing is not None
            await sandboxes._probing
            tried = probe._reach is not None
    finally:
        monkeypatch.undo()
        jail.cache_clear()

    assert tried is (workspaces == 2)
    assert ("code nodes are refused here" in caplog.text) is tried


@pytest.mark.slow
@pytest.mark.req("X2", "BI-C24")
async def test_code_of_several_workspaces_runs_in_a_jail(memory_engines: Engines) -> None:
    jail.cache_clear()
    if not jail():
        pytest.skip("bubblewrap is not installed, or may not be used here")
    async with memory_engines.new() as engine:
        theirs = await engine.within("acme").start_graph(code_graph("python", "return 2"), {})
        ours = await engine.start_graph(code_graph("python", "return 3"), {})

        assert await theirs.result(60) == {"result": 2}
        assert await ours.result(60) == {"result": 3}
        sandbox = await engine._own_sandboxes().of("python")
        assert {child.owner for child in sandbox._pool._idle} == {"acme", "default"}


@pytest.mark.req("BI-C24")
@pytest.mark.parametrize("language", CODES)
async def test_a_missing_sandbox_says_what_to_install(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    monkeypatch.setattr("stepwell.sandbox.code_sandbox.find_spec", lambda name: None)
    async with memory_engines.new() as engine:
        run = await engine.start_graph(code_graph(language, "return 1"), {})
        with pytest.raises(RunFailed, match=r"stepwell\[code\]") as failed:
            await run.result(60)

    assert failed.value.cause_code == "SANDBOX_UNAVAILABLE"


@pytest.mark.req("N6")
@pytest.mark.parametrize("code", ["", "x" * 70_000, "a\0b", 5, None])
def test_code_that_is_no_code_is_refused(code: Any) -> None:
    with pytest.raises(InvalidGraph) as refused:
        graph(code_graph("javascript", code))

    problem = refused.value.problems[0]
    assert (problem.code, problem.node, problem.field) == ("INVALID_DATA", "call", "code")
    assert problem.suggestion
