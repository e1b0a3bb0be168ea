"""Traces of OpenTelemetry: one for a run, its steps and its children, whichever processes drive them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from stepwell import Context, Engine, Machine, Retry, step, transition, workflow
from stepwell.telemetry import spans
from tests.engines import Engines, until
from tests.server.worker_processes import at_work, workers

SOURCE = """
import atexit, json, os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from stepwell import Context, Retry, step, workflow

memory = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(provider)

def write():
    with open(f"spans-{os.getpid()}.json", "w") as file:
        json.dump([json.loads(span.to_json()) for span in memory.get_finished_spans()], file)

atexit.register(write)

@step(retry=Retry(3, delay=0.01))
async def charge(cents: int) -> int:
    with trace.get_tracer("mine").start_as_current_span("call the bank"):
        if not os.path.exists("tried"):
            open("tried", "w").close()
            raise ConnectionError("canary-3e1c")
    return cents

@step
async def die_once(number: int) -> int:
    if not os.path.exists("died"):
        open("died", "w").close()
        os._exit(9)
    return number

@workflow
async def paying(ctx: Context, cents: int) -> int:
    return await ctx.step(charge, cents)

@workflow
async def ordering(ctx: Context, cents: int) -> int:
    await ctx.signal("go")
    paid = await ctx.run(paying, cents)
    return await ctx.step(die_once, paid)
"""


@pytest.mark.slow
@pytest.mark.req("A7")
async def test_a_run_has_one_trace_across_processes_children_and_a_crash(
    durable_engines: Engines, tmp_path: Path
) -> None:
    (tmp_path / "flows.py").write_text(SOURCE)
    database = str(durable_engines.database)
    patience = {"STEPWELL_LEASE_SECONDS": "2", "STEPWELL_HEARTBEAT_SECONDS": "0.5"}
    patience |= {"STEPWELL_REAP_SECONDS": "0.5", "STEPWELL_KEEP_LEASE_SECONDS": "0.001"}
    async with durable_engines.client() as client:
        with workers(tmp_path, database, 2, environment=patience) as processes:
            await at_work(client, 2)
            run = await client.start("ordering", 5)
            await run.waiting_for("go", 60)
            await run.signal("go")
            assert await run.result(60) == 5
            children = [row.id for row in await client.runs(workflow="paying")]
        codes = sorted(process.returncode for process in processes)

    listed = written(tmp_path)
    assert codes == [0, 9]
    assert {span["context"]["trace_id"] for span in listed} == {f"0x{run.id}"}
    assert {span["attributes"].get("stepwell.run") for span in listed} <= {run.id, *children, None}
    whole = one(listed, "ordering")
    last = one(listed, "die_once")
    assert whole["parent_id"] is None
    assert last["parent_id"] == whole["context"]["span_id"]
    assert whole["attributes"]["stepwell.status"] == "completed"
    ours = [span for span in listed if "stepwell.run" in span["attributes"]]
    assert "canary" not in json.dumps(ours)


def written(folder: Path) -> list[dict[str, Any]]:
    """The spans of all processes that ended in order."""
    return [span for path in folder.glob("spans-*.json") for span in json.loads(path.read_text())]


def one(listed: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [span for span in listed if span["name"] == name]
    return found


# In one process


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What a provider that this program has configured got."""
    yield from provided(monkeypatch, TracerProvider())


def provided(monkeypatch: pytest.MonkeyPatch, provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    memory = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield memory


FAILURES: list[int] = []


@step(retry=Retry(2, delay=0.01))
async def flaky(number: int) -> int:
    FAILURES.append(number)
    with trace.get_tracer_provider().get_tracer("mine").start_as_current_span("inside"):
        if len(FAILURES) == 1:
            raise ConnectionError("canary-3e1c")
    return number


@step
def plain(number: int) -> int:
    with trace.get_tracer_provider().get_tracer("mine").start_as_current_span("in a thread"):
        return number


@workflow
async def inner(ctx: Context, number: int) -> int:
    await ctx.step(flaky, number)
    return await ctx.step.on(queue="elsewhere")(plain, number)


@workflow
async def outer(ctx: Context, number: int) -> int:
    return await ctx.run(inner, number)


@workflow
async def failing(ctx: Context, number: int) -> int:
    raise ValueError("canary-3e1c")


class Door(Machine[dict], name="door"):  # type: ignore[type-arg]
    ends = frozenset({"open"})

    @transition("start", "open")
    async def push(self, ctx: Context, number: int) -> None:
        await ctx.step(plain, number)


def named(memory: InMemorySpanExporter) -> dict[str, list[Any]]:
    listed: dict[str, list[Any]] = {}
    for span in memory.get_finished_spans():
        listed.setdefault(span.name, []).append(span)
    return listed


@pytest.mark.req("A7")
async def test_steps_children_and_remote_steps_are_spans_inside_their_runs(
    engines: Engines, recorded: InMemorySpanExporter
) -> None:
    FAILURES.clear()
    async with engines.new(outer, inner, steps=[plain], queues=("default", "elsewhere")) as engine:
        run = await engine.start(outer, 7)
        await run.result(60)
        await until(lambda: {"outer", "inner"} <= named(recorded).keys())
    found = named(recorded)
    (whole,), (child,) = found["outer"], found["inner"]
    first, second = found["flaky"]
    (remote,) = found["plain"]

    assert {span.context.trace_id for span in recorded.get_finished_spans()} == {int(run.id, 16)}
    assert whole.parent is None
    assert child.parent.span_id == whole.context.span_id
    assert {span.parent.span_id for span in (first, second, remote)} == {child.context.span_id}
    assert found["inside"][1].parent.span_id == second.context.span_id
    assert found["in a thread"][0].parent.span_id == remote.context.span_id
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert (first.status.is_ok, second.status.is_ok) == (False, True)
    assert first.attributes["error.type"] == "ConnectionError"
    assert whole.start_time <= first.start_time <= second.end_time <= whole.end_time


@pytest.mark.req("A7")
async def test_a_failed_run_and_a_transition_are_spans_without_a_message(
    memory_engines: Engines, recorded: InMemorySpanExporter
) -> None:
    async with memory_engines.new(failing, Door) as engine:
        failed = await engine.start(failing, 1)
        await until(lambda: "failing" in named(recorded))
        await (await engine.start("door", 1)).result(60)
        await until(lambda: "door" in named(recorded))
    found = named(recorded)

    assert found["failing"][0].context.trace_id == int(failed.id, 16)
    assert not found["failing"][0].status.is_ok
    assert found["push"][0].parent.span_id == found["door"][0].context.span_id
    assert "canary" not in "".join(span.to_json() for span in recorded.get_finished_spans())


async def test_all_workers_sample_a_run_alike(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.0)))
    for memory in provided(monkeypatch, provider):
        async with memory_engines.new(outer, inner, steps=[plain], queues=("default", "elsewhere")) as engine:
            await (await engine.start(outer, 7)).result(60)

        assert memory.get_finished_spans() == ()


async def test_spans_are_off_until_a_program_configures_a_provider(memory_engines: Engines) -> None:
    assert spans.configured("w") is None  # the API's own provider does nothing

    async with memory_engines.new(outer, inner) as engine:
        assert services_of(engine).spans is None


def services_of(engine: Engine) -> Any:
    assert engine.worker is not None
    return engine.worker._services


@pytest.mark.slow
def test_a_worker_does_not_import_opentelemetry_by_itself(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from stepwell import Context, Engine, workflow\n"
        "@workflow\n"
        "async def f(ctx: Context, n: int) -> int: return n\n"
        "async def main():\n"
        "    async with Engine('a.db', workflows=[f]) as engine:\n"
        "        await (await engine.start(f, 1)).result(60)\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if 'opentelemetry' in name])\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout == "[]\n"
