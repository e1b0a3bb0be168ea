"""What the code of a step logs and prints is kept, per attempt, and readable while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell import Context, Engine, Machine, Retry, SyncClient, step, transition, workflow
from stepwell.authoring.graphs.format.python_builder import GraphBuilder
from stepwell.errors import InvalidInput, RunFailed, RunNotFound, SettingsInvalid
from stepwell.settings import Settings
from stepwell.store.payloads import Encryption
from tests.client.isolated_logs import isolated
from tests.engines import SETTINGS, Engines, crash, suspended, until

pytestmark = pytest.mark.req("K38")

app_log = logging.getLogger("app.orders")
tries: list[int] = []
gate = threading.Event()


@step
async def talk(name: str) -> str:
    print("hello", name)
    app_log.warning("paid %d", 12)
    await asyncio.sleep(0)
    print("no line end", end="")
    return name


@step(retry=Retry(2, delay=0.001))
async def second_time() -> str:
    tries.append(1)
    app_log.error("attempt %d", len(tries))
    if len(tries) < 2:
        raise ValueError("no luck")
    return "done"


@step
def threaded() -> str:
    print("in a thread")
    return "done"


@workflow
async def talking(ctx: Context, name: str) -> str:
    print("workflow code is not a step")
    return await ctx.step(talk, name)


def texts(lines: Any) -> list[str]:
    return [line.text for line in lines]


async def test_logged_and_printed_lines_are_kept_with_their_stream_level_and_logger(engines: Engines) -> None:
    async with engines.new(talking) as engine:
        run = await engine.start(talking, "ann")
        await run
        lines = await run.logs()

    assert [(line.stream, line.level, line.logger, line.text) for line in lines] == [
        ("stdout", "", "", "hello ann"),
        ("log", "warning", "app.orders", "paid 12"),
        ("stdout", "", "", "no line end"),
    ]
    assert {(line.path, line.attempt) for line in lines} == {("0/talk#1", 1)}
    assert lines[0].at <= lines[-1].at


async def test_lines_are_read_by_step_and_attempt(engines: Engines) -> None:
    @workflow
    async def both(ctx: Context) -> None:
        await ctx.step(talk, "ann")
        await ctx.step(second_time)

    tries.clear()
    async with engines.new(both) as engine:
        run = await engine.start(both)
        await run
        paths = sorted({line.path for line in await run.logs()})
        first = await run.logs(paths[0], attempt=1)
        second = await run.logs(paths[0], attempt=2)
        page = await run.logs(limit=2)
        rest = await run.logs(after=page[-1].n)

    assert paths == ["0/second_time#1", "0/talk#1"]
    assert texts(first) == ["attempt 1"]
    assert texts(second) == ["attempt 2"]
    assert len(page) == 2
    assert texts(rest)[-1] == "attempt 2"


async def test_lines_are_readable_while_the_step_runs(engines: Engines) -> None:
    go = asyncio.Event()

    @step
    async def slow() -> None:
        print("begun")
        await go.wait()
        print("ended")

    @workflow
    async def one(ctx: Context) -> None:
        await ctx.step(slow)

    async with engines.new(one) as engine:
        run = await engine.start(one)
        seen = []
        async for line in run.follow_logs():
            seen.append(line.text)
            if line.text == "begun":
                assert not (await run.status()).terminal
                go.set()

    assert seen == ["begun", "ended"]


async def test_lines_of_threads_processes_and_remote_steps_are_kept(durable_engines: Engines) -> None:
    @workflow
    async def everywhere(ctx: Context) -> None:
        await ctx.step(threaded)
        await ctx.step(isolated, False)
        await ctx.step.on(queue="elsewhere")(talk, "bob")

    async with (
        durable_engines.new(everywhere) as engine,
        durable_engines.new(steps=[talk], queues=["elsewhere"]),
    ):
        run = await engine.start(everywhere)
        await run
        lines = await run.logs()

    assert [(line.path, line.stream, line.text) for line in lines] == [
        ("0/threaded#1", "stdout", "in a thread"),
        ("0/isolated#1", "stdout", "printed there"),
        ("0/isolated#1", "log", "logged there"),
        ("0/isolated#1", "stderr", "to stderr"),
        ("0/talk#1", "stdout", "hello bob"),
        ("0/talk#1", "log", "paid 12"),
        ("0/talk#1", "stdout", "no line end"),
    ]


async def test_lines_of_a_failed_step_in_a_process_are_kept(memory_engines: Engines) -> None:
    @workflow
    async def fails(ctx: Context) -> None:
        await ctx.step(isolated, True)

    async with memory_engines.new(fails) as engine:
        run = await engine.start(fails)
        with pytest.raises(RunFailed, match="no luck"):
            await run
        assert texts(await run.logs()) == ["printed there", "logged there", "to stderr"]


async def test_transitions_and_nodes_have_logs_too(engines: Engines) -> None:
    class Order(Machine[dict[str, Any]]):
        @transition("start", "paid")
        async def pay(self, ctx: Context) -> None:
            print("paying")

        @transition("paid", "end")
        def ship(self, ctx: Any) -> None:
            print("shipping")

    graph = GraphBuilder("talks")
    say = graph.node("call", id="say", step="talk", args={"name": "graph"})
    graph.node("start") >> say >> graph.node("end")
    async with engines.new(Order, graph, steps=[talk]) as engine:
        machine = await engine.start(Order)
        await machine
        nodes = await engine.start("talks")
        await nodes
        moved, walked = await machine.logs(), await nodes.logs()

    assert texts(moved) == ["paying", "shipping"]
    assert texts(walked)[0] == "hello graph"


async def test_transactional_steps_have_logs(durable_engines: Engines) -> None:
    is_sync = durable_engines.kind == "sqlite"

    if is_sync:

        @step(transactional=True)
        def book(connection: Any) -> str:
            print("booking")
            return "done"
    else:

        @step(transactional=True)
        async def book(connection: Any) -> str:
            print("booking")
            return "done"

    @workflow
    async def one(ctx: Context) -> str:
        return await ctx.step(book)

    async with durable_engines.new(one) as engine:
        run = await engine.start(one)
        assert await run == "done"
        assert texts(await run.logs()) == ["booking"]


async def test_steps_at_the_same_time_do_not_mix_their_lines(engines: Engines) -> None:
    @step
    async def count(name: str) -> None:
        for i in range(5):
            print(name, end=" ")
            await asyncio.sleep(0)
            print(i)

    @workflow
    async def many(ctx: Context) -> None:
        await ctx.all(*(ctx.step(count, name) for name in "abc"))

    async with engines.new(many) as engine:
        run = await engine.start(many)
        await run
        lines = await run.logs()

    for name, path in zip("abc", sorted({line.path for line in lines}), strict=True):
        assert [line.text for line in lines if line.path == path] == [f"{name} {i}" for i in range(5)]


async def test_a_long_log_is_cut_off_and_says_so(engines: Engines) -> None:
    @step
    async def chatty() -> None:
        for i in range(1000):
            print("x" * 50, i)

    @workflow
    async def one(ctx: Context) -> None:
        await ctx.step(chatty)

    async with engines.new(one, settings=replace(SETTINGS, step_log_bytes_max=5_000)) as engine:
        run = await engine.start(one)
        await run
        lines = await run.logs()

    assert 10 < len(lines) < 100
    assert lines[-1].text == "the log of this attempt is cut off here, at 5,000 bytes"
    assert lines[-1].level == "warning"


async def test_text_that_no_database_holds_is_kept(engines: Engines) -> None:
    @step
    async def odd() -> None:
        for text, args in (("nul \x00 escape \x1b[31m surrogate \ud800", ()), ("bad %d", ("format",))):
            app_log.makeRecord("app", logging.WARNING, "orders.py", 1, text, args, None)
        print("long " + "x" * 20_000)

    @workflow
    async def one(ctx: Context) -> None:
        await ctx.step(odd)

    async with engines.new(one) as engine:
        run = await engine.start(one)
        await run
        lines = await run.logs()

    assert lines[0].text == "nul \x00 escape \x1b[31m surrogate \\ud800"
    assert lines[1].text == "bad %d"
    assert lines[2].text.endswith("(4,005 more characters)")


async def test_an_exception_is_logged_with_its_traceback(memory_engines: Engines) -> None:
    @step
    async def careful() -> None:
        try:
            raise ValueError("no luck")
        except ValueError:
            app_log.exception("went wrong")

    @workflow
    async def one(ctx: Context) -> None:
        await ctx.step(careful)

    async with memory_engines.new(one) as engine:
        run = await engine.start(one)
        await run
        [line] = await run.logs()

    assert line.text.startswith("went wrong\nTraceback")
    assert line.text.endswith("ValueError: no luck")


@pytest.mark.parametrize(("kept", "expected"), [("logging", ["paid 12"]), ("off", [])])
async def test_what_is_kept_is_a_setting(memory_engines: Engines, kept: Any, expected: list[str]) -> None:
    async with memory_engines.new(talking, settings=replace(SETTINGS, step_logs=kept)) as engine:
        before = sys.stdout
        run = await engine.start(talking, "ann")
        await run
        assert texts(await run.logs()) == expected
        assert sys.stdout is before


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(SettingsInvalid, match="step_logs is 'some'") as refused:
        Settings(step_logs="some")  # type: ignore[arg-type]

    assert refused.value.hint == 'it must be "all" or "logging" or "off"'
    assert Settings.from_env({"STEPWELL_STEP_LOGS": "off"}).step_logs == "off"


async def test_programs_print_and_log_as_before(
    memory_engines: Engines, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = sys.stdout
    async with memory_engines.new(talking) as engine:
        assert sys.stdout.encoding == outside.encoding
        assert sys.stdout.isatty() == outside.isatty()
        assert sys.stdout.buffer is outside.buffer
        assert isinstance(sys.stdout, io.TextIOBase)
        print("the program's own line")
        with contextlib.redirect_stdout(io.StringIO()) as elsewhere:
            print("redirected")
        run = await engine.start(talking, "ann")
        await run
        lines = await run.logs()

    assert sys.stdout is outside
    assert elsewhere.getvalue() == "redirected\n"
    assert "the program's own line\n" in (printed := capsys.readouterr().out)
    assert "workflow code is not a step\n" in printed
    assert "hello ann\n" in printed
    assert texts(lines)[0] == "hello ann"


async def test_a_record_that_a_handler_prints_is_kept_once(
    memory_engines: Engines, capsys: pytest.CaptureFixture[str]
) -> None:
    async with memory_engines.new(talking) as engine:
        handler = logging.StreamHandler()  # to sys.stderr as it is now
        app_log.addHandler(handler)
        try:
            run = await engine.start(talking, "ann")
            await run
        finally:
            app_log.removeHandler(handler)
        lines = await run.logs()

    assert texts(lines).count("paid 12") == 1
    assert "paid 12\n" in capsys.readouterr().err


async def test_lines_after_a_timeout_are_not_kept(memory_engines: Engines) -> None:
    @step(timeout=0.05, retry=Retry(1))
    def stuck() -> None:
        print("begun")
        gate.wait(20)
        print("too late")

    @workflow
    async def one(ctx: Context) -> None:
        await ctx.step(stuck)

    gate.clear()
    async with memory_engines.new(one) as engine:
        run = await engine.start(one)
        with pytest.raises(RunFailed):
            await run
        gate.set()
        assert texts(await run.logs()) == ["begun"]


@pytest.mark.req("K29")
async def test_lines_are_exported_and_deleted_with_the_run(engines: Engines) -> None:
    async with engines.new(talking) as engine:
        run = await engine.start(talking, "ann")
        await run
        before = await run.logs()
        file = await engine.export(run)
        await run.delete()
        with pytest.raises(RunNotFound):
            await run.logs()
        imported = await engine.import_run(file)

        assert await imported.logs() == before
        assert b"hello ann" in file


@pytest.mark.req("K32")
async def test_lines_are_encrypted(engines: Engines) -> None:
    codec = Encryption({"k1": b"k" * 32}, current="k1")
    async with engines.new(talking, codec=codec) as engine:
        run = await engine.start(talking, "ann")
        await run
        lines = await run.logs()
        stored = await engine.store._store.read_log_lines(run.id)  # type: ignore[attr-defined]

    assert texts(lines)[0] == "hello ann"
    assert not [row for row in stored if b"hello ann" in row.payload]


async def test_a_fork_does_not_repeat_the_lines_of_its_source(memory_engines: Engines) -> None:
    @workflow
    async def asks(ctx: Context) -> str:
        await ctx.step(talk, "ann")
        return await ctx.signal("go", str)

    async with memory_engines.new(asks) as engine:
        run = await engine.start(asks)
        await suspended(run)
        [completed] = [event.seq async for event in run.events() if event.kind == "step_completed"]
        fork = await engine.fork(run, at=completed)
        await suspended(fork)

        assert texts(await run.logs())[0] == "hello ann"
        assert await fork.logs() == []


async def test_lines_survive_a_kill_of_the_worker(durable_engines: Engines) -> None:
    @step
    async def hangs() -> None:
        print("begun")
        await asyncio.Event().wait()

    @workflow
    async def one(ctx: Context) -> None:
        await ctx.step(hangs)

    engine = durable_engines.new(one)
    await engine.open()
    run = await engine.start(one)

    async def written() -> Any:
        return await run.logs()

    await until(written)
    await crash(engine)

    async with durable_engines.client() as client:
        assert texts(await client.handle(run.id).logs()) == ["begun"]


def test_sync_code_reads_and_follows_logs(tmp_path: Path) -> None:
    with SyncClient(engine=Engine(tmp_path / "app.db", workflows=[talking])) as client:
        run = client.start(talking, "ann")
        run.result()

        assert texts(run.logs()) == texts(run.follow_logs())
        assert texts(run.logs())[0] == "hello ann"


@pytest.mark.parametrize(
    "wrong", [{"attempt": 1}, {"path": "a\nb"}, {"path": "a", "attempt": -1}, {"after": -1}, {"limit": 0}]
)
async def test_wrong_places_are_refused(memory_engines: Engines, wrong: dict[str, Any]) -> None:
    async with memory_engines.new(talking) as engine:
        run = await engine.start(talking, "ann")
        with pytest.raises(InvalidInput):
            await run.logs(**wrong)
