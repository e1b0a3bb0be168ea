"""Metrics on a port of their own, log lines as JSON, and readiness."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from stepwell import Context, Engine, workflow
from stepwell.cli.log_lines import JsonLines
from stepwell.domain.status import Status
from stepwell.server.metrics import Metrics, MetricsPort
from stepwell.server.readiness import NotReady, check_ready
from stepwell.store.base import SchemaVersion
from tests.engines import Engines, reaches, suspended, until
from tests.server.served import FLOWS, served

CANARY = "canary-7d1f"
LINE = re.compile(r'^([a-z_]+)(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? (-?[0-9.e+-]+|inf|nan)$')


async def shown(url: str) -> dict[str, float]:
    """The values by name and labels; every line must be in the format."""
    async with httpx.AsyncClient() as client:
        answer = await client.get(url)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    values: dict[str, float] = {}
    for line in answer.text.splitlines():
        if not line.startswith("# "):
            assert LINE.match(line), line
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    return values


@pytest.mark.req("A7")
async def test_a_process_shows_what_it_did(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with engine, MetricsPort(engine, Metrics(engine)).listening(("127.0.0.1", 0)) as url:
        await (await engine.start("doubling", 4)).result(30)
        failed = await engine.start("failing", "x")
        await reaches(failed, Status.FAILED)
        await suspended(await engine.start("listening", 1))
        values = await shown(url)

    assert values["stepwell_database_up"] == 1
    assert values["stepwell_workers"] == 1
    assert values['stepwell_step_seconds_count{outcome="completed"}'] == 1
    assert values['stepwell_step_seconds_count{outcome="failed"}'] == 1
    assert values['stepwell_run_seconds_count{status="completed"}'] == 1
    assert values['stepwell_run_seconds_count{status="failed"}'] == 1
    assert values["stepwell_claimed_total"] >= 3
    assert values["stepwell_commit_batch_size_count"] >= 3
    assert (
        values['stepwell_queue_waiting{queue="default"}'] + values['stepwell_queue_active{queue="default"}']
        == 1
    )
    assert values['stepwell_queue_ready{queue="default"}'] == 0
    assert values['stepwell_queue_age_seconds{queue="default"}'] == 0
    assert values["stepwell_claims_total"] >= 1
    assert values["stepwell_commit_seconds_count"] >= 3
    assert {"stepwell_pool_connections", "stepwell_pool_busy", "stepwell_pool_waiting"} <= set(values)
    assert values["stepwell_leases_lost_total"] == 0
    assert "stepwell_loop_lag_seconds_count" in values


@pytest.mark.req("A7", "X5")
async def test_metrics_name_nothing_of_a_workspace(memory_engines: Engines) -> None:
    @workflow(name=CANARY)
    async def named(ctx: Context, text: str) -> str:
        return text

    engine = memory_engines.new(named)
    async with (
        served(engine) as client,
        MetricsPort(engine, client.app.state.metrics).listening(("127.0.0.1", 0)) as url,
    ):
        await client.post(
            "/api/v1/runs",
            json={"workflow": CANARY, "input": CANARY, "queue": CANARY, "tags": {CANARY: CANARY}},
        )
        await client.get(f"/api/v1/workflows/{CANARY}")
        async with httpx.AsyncClient() as reader:
            text = (await reader.get(url)).text
        values = await shown(url)

    assert CANARY not in text
    assert values['stepwell_queue_ready{queue="other"}'] == 1
    assert values['stepwell_http_request_seconds_count{route="start_run",status="2xx"}'] == 1


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"GET /runs HTTP/1.1", b"404"),
        (b"GET /healthz HTTP/1.1", b"200"),
        (b"GET /readyz HTTP/1.1", b"200"),
        (b"\x00\xff", b"405"),
    ],
)
async def test_the_port_answers_only_what_it_has(
    memory_engines: Engines, request_line: bytes, status: bytes
) -> None:
    engine = memory_engines.new(*FLOWS)
    async with engine, MetricsPort(engine, Metrics(engine)).listening(("127.0.0.1", 0)) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_line + b"\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()

    assert answer.split()[1] == status


@pytest.mark.req("A7")
async def test_another_schema_is_not_ready(durable_engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    async with durable_engines.client() as engine:
        await check_ready(engine)

        async def newer() -> SchemaVersion:
            return SchemaVersion(999, 1)

        monkeypatch.setattr(engine.store, "read_schema", newer)
        with pytest.raises(NotReady) as reason:
            await check_ready(engine)

    assert reason.value.code == "SCHEMA_MISMATCH"


SOURCE = """
import logging
from stepwell import Context, step, workflow

@step
async def greet(name: str) -> str:
    logging.getLogger("mine").info("greeting", extra={"guest": name})
    return f"hello {name}"

@workflow
async def hello(ctx: Context, name: str) -> str:
    return await ctx.step(greet, name)
"""


@contextmanager
def working(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A worker process, and the address of its metrics."""
    command = [sys.executable, "-m", "stepwell", "worker", "flows.py", "--database", "app.db"]
    process = subprocess.Popen(
        [*command, "--metrics", "0", "--log-format", "json"],
        cwd=folder,
        env=os.environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        lines = [process.stderr.readline() for _ in range(2)]
        url = re.search(r"http://\S+/metrics", "".join(lines))
        assert url, lines
        yield process, url[0]
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.req("A7")
async def test_a_worker_shows_metrics_and_logs_json_with_run_step_and_attempt(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text(SOURCE)
    with working(tmp_path) as (process, url):
        async with Engine(tmp_path / "app.db", worker=False) as engine:
            run = await engine.start("hello", "ann")
            await run.result(30)

        async def counted() -> bool:
            return (await shown(url)).get('stepwell_run_seconds_count{status="completed"}') == 1

        await until(counted)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    greeting = next(json.loads(line) for line in said.splitlines() if '"greeting"' in line)

    assert {"run": run.id, "step": "0/greet#1", "attempt": 1, "guest": "ann"}.items() <= greeting.items()
    assert (greeting["level"], greeting["logger"]) == ("info", "mine")


def test_log_lines_are_json_whatever_they_hold() -> None:
    fields = {"name": "stepwell.engine", "levelname": "ERROR", "msg": "run %s, step %s: \n\x1b[31m"}
    record = logging.makeLogRecord({**fields, "more": object()})
    record.args = ("0" * 32, "0/charge#1")
    try:
        raise ValueError("x")
    except ValueError:
        record.exc_info = sys.exc_info()
    line = JsonLines().format(record)
    read = json.loads(line)

    assert "\n" not in line
    assert (read["run"], read["step"]) == ("0" * 32, "0/charge#1")
    assert "ValueError" in read["traceback"]
