"""`stepwell serve` and `stepwell dev` as processes, and the docs that show how to call them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import asyncpg
import httpx
import pytest

from stepwell import Engine
from stepwell.cli.commands.serve import _files
from stepwell.errors import SettingsInvalid
from stepwell.server.listener import bind
from tests.engines import Engines, until
from tests.server.served import BEARER, FLOWS, TOKEN, code, served
from tools.postgres.cluster import Cluster

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
SOURCE = """
from stepwell import Context, step, workflow

@step
async def greet(name: str) -> str:
    return f"hello {name}"

@workflow
async def hello(ctx: Context, name: str) -> str:
    return await ctx.step(greet, name)
"""


@contextmanager
def running(*arguments: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stepwell", *arguments],
        cwd=folder,
        env={**os.environ, "STEPWELL_LAUNCH_TOKEN": TOKEN},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        address = None
        lines: list[str] = []
        while address is None:
            lines.append(process.stderr.readline())
            assert lines[-1], lines  # it ended
            address = re.search(r"API +(http://\S+)/api/v1", lines[-1])
        yield process, address[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def stopped(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


@pytest.mark.slow
async def test_serve_needs_only_the_database(durable_engines: Engines, tmp_path: Path) -> None:
    async with durable_engines.new(*FLOWS):
        with running(
            "serve", "--database", str(durable_engines.database), "--port", "0", folder=tmp_path
        ) as (
            process,
            url,
        ):
            async with httpx.AsyncClient(base_url=url, headers=BEARER, timeout=60) as client:
                body = {"workflow": "doubling", "input": 21}
                answer = await client.post("/api/v1/runs?wait=30s", json=body)
                assert answer.json()["run"]["output"] == 42
                assert (await client.get("/readyz")).json() == {"status": "ready"}
            assert stopped(process)[0] == 0


@pytest.mark.slow
def test_dev_works_on_the_file_and_starts_again_when_it_changes(tmp_path: Path) -> None:
    source = tmp_path / "flows.py"
    source.write_text(SOURCE)
    with running("dev", "flows.py", "--port", "0", folder=tmp_path) as (process, url):

        def greeting() -> str:
            body = {"workflow": "hello", "input": "ann"}
            answer = httpx.post(f"{url}/api/v1/runs?wait=30s", json=body, headers=BEARER, timeout=60)
            return str(answer.json()["run"]["output"])

        async def changed() -> None:
            await until(lambda: greeting() == "good day ann")

        assert greeting() == "hello ann"
        source.write_text(SOURCE.replace("hello {name}", "good day {name}"))
        asyncio.run(changed())
        source.write_text("def broken(:")
        assert process.stderr is not None
        while "waiting for a file to change" not in process.stderr.readline():
            pass
        source.write_text(SOURCE)
        while "API" not in process.stderr.readline():
            pass
        assert greeting() == "hello ann"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
        assert "ended by signal 9: starting again" in process.stderr.readline() + process.stderr.readline()
        assert greeting() == "hello ann"
        assert (tmp_path / ".stepwell" / "dev.db").exists()
        ended, said = stopped(process)
        assert (ended, "nothing was left half done" in said) == (0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--database", "nothing.db"],
        ["serve", "--database", "app.db", "--host", "0.0.0.0", "--port", "0", "--no-auth"],
        ["serve", "--database", "app.db", "--host", "203.0.113.1", "--port", "0"],
        ["serve", "--database", "app.db", "--port", "99999"],
        ["serve", "--database", "app.db", "--port", "0", "TOKEN=short"],
        ["dev", "flows.py", "--host", "0.0.0.0", "--port", "0", "--no-auth"],
        ["dev", "flows.py", "--port", "0", "TOKEN=short"],
        ["dev", "nothing.py", "--port", "0"],
    ],
)
def test_a_server_that_cannot_start_says_why(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "app.db").touch()
    (tmp_path / "flows.py").touch()
    token = {"STEPWELL_LAUNCH_TOKEN": "short"} if "TOKEN=short" in arguments else {}
    done = subprocess.run(
        [sys.executable, "-m", "stepwell", *(word for word in arguments if word != "TOKEN=short")],
        cwd=tmp_path,
        env={**os.environ, **token},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert "hint" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_code_and_graphs_are_a_change(tmp_path: Path) -> None:
    source = tmp_path / "flows.py"
    source.write_text(SOURCE)
    (tmp_path / "run.json").write_text('{"id": "0192f0c1", "status": "completed"}')
    (tmp_path / "order.json").write_text('{"nodes": [], "edges": []}')
    before = dict(_files(str(source)))
    (tmp_path / "run.json").write_text('{"id": "0192f0c2", "status": "completed"}')
    (tmp_path / "runs.json").write_text("[]")

    assert set(before) == {str(source), str(tmp_path / "order.json")}
    assert dict(_files(str(source))) == before
    os.utime(tmp_path / "order.json", ns=(1, 1))
    assert dict(_files(str(source))) != before


def test_the_next_free_port_is_taken() -> None:
    with bind("127.0.0.1", None) as first, bind("127.0.0.1", None) as second:
        assert first.getsockname()[1] >= 8710
        assert second.getsockname()[1] > first.getsockname()[1]
        with pytest.raises(SettingsInvalid):
            bind("127.0.0.1", first.getsockname()[1])


def test_a_port_that_is_named_is_the_port() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with bind("127.0.0.1", port) as listener:
        assert listener.getsockname()[1] == port
        assert listener.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's delay on


@pytest.mark.req("A7")
@pytest.mark.alone
async def test_readiness_follows_the_database(postgres_cluster: Cluster) -> None:
    url = postgres_cluster.databases.create()
    engines = Engines("postgres", url)
    async with served(engines.client()) as client:
        assert (await client.get("/readyz")).status_code == 200
        postgres_cluster.kill()
        try:
            async with asyncio.timeout(5):
                answer = await client.get("/readyz")
        finally:
            postgres_cluster.start()
        assert (answer.status_code, code(answer)) == (503, "STORE_UNAVAILABLE")
        assert "by itself" in answer.json()["hint"]
        assert (await client.get("/healthz")).status_code == 200

        async def ready() -> bool:
            return (await client.get("/readyz")).status_code == 200

        await until(ready)


@pytest.mark.req("A7")
async def test_readiness_follows_the_schema(durable_engines: Engines) -> None:
    """Another program upgrades the database, and takes that back."""
    async with served(durable_engines.client()) as client:
        before = (await client.get("/readyz")).status_code
        await set_schema(durable_engines, newer=True)
        async with asyncio.timeout(5):
            answer = await client.get("/readyz")
        await set_schema(durable_engines, newer=False)
        after = (await client.get("/readyz")).status_code

    assert (before, answer.status_code, code(answer), after) == (200, 503, "SCHEMA_MISMATCH", 200)


async def set_schema(engines: Engines, *, newer: bool) -> None:
    if engines.kind == "sqlite":
        connection = apsw.Connection(str(engines.database))
        connection.pragma("user_version", int(connection.pragma("user_version")) + (1 if newer else -1))
        connection.close()
        return
    database = await asyncpg.connect(str(engines.database))
    change = "INSERT INTO stepwell.migrations (number, name) VALUES (9999, 'newer')"
    await database.execute(change if newer else "DELETE FROM stepwell.migrations WHERE number = 9999")
    await database.close()


def test_a_stopping_server_is_not_ready(memory_engines: Engines) -> None:
    async def stopping() -> None:
        async with served(memory_engines.client()) as client:
            client.app.drain()
            assert code(await client.get("/readyz")) == "DRAINING"

    asyncio.run(stopping())


@pytest.mark.slow
def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    """The shell blocks run one after the other, as a reader would type them."""
    text = PAGE.read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    promised = re.findall(r"answers `([^`]+)`", text)
    (tmp_path / "flows.py").write_text(re.findall(r"```python\n# flows.py\n(.*?)```", text, re.DOTALL)[0])
    with running("dev", "flows.py", "--port", "0", folder=tmp_path) as (_, url):
        script = "\n".join(blocks).replace("http://localhost:8710", url)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "TOKEN": TOKEN},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert done.returncode == 0, done.stderr + done.stdout
    assert len(blocks) > 5
    for answer in promised:
        assert answer in done.stdout, done.stdout


TYPED = """
curl -sf "$URL/api/v1/runs?wait=30s" -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{"workflow": "hello", "input": "Ada"}'
stepwell runs start hello --input '"Bob"'
stepwell watch @last
stepwell runs show @last --json
stepwell runs steps @last --json
curl -sfN "$URL/api/v1/runs/$(stepwell runs list --json | sed 's/.*"id":"\\([0-9a-f]*\\)".*/\\1/')/stream" \\
  -H "Authorization: Bearer $TOKEN"
stepwell workflows show hello
stepwell doctor
"""


@pytest.mark.slow
@pytest.mark.req("A1", "C1", "D3")
def test_the_example_of_the_readme_is_served_to_curl_and_to_the_command_line(tmp_path: Path) -> None:
    readme = (PAGE.parents[1] / "README.md").read_text()
    (tmp_path / "hello.py").write_text(re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0])
    with running("dev", "hello.py", "--port", "0", folder=tmp_path) as (_, url):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", TYPED],
            cwd=tmp_path,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                **{"URL": url, "TOKEN": TOKEN, "STEPWELL_SERVER": url, "STEPWELL_API_KEY": TOKEN},
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert done.returncode == 0, done.stderr + done.stdout
    assert '"output":"hello Ada, good to see you again"' in done.stdout
    assert done.stdout.count("hello Bob, good to see you again") >= 2
    assert "event: end" in done.stdout


@pytest.mark.slow
@pytest.mark.req("A5")
async def test_the_commands_of_the_page_about_access_work(tmp_path: Path) -> None:
    text = (PAGE.parent / "access.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    async with Engine(tmp_path / "app.db", worker=False):
        pass  # creates it
    with running("serve", "--database", "app.db", "--port", "0", folder=tmp_path) as (_, url):
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-euo", "pipefail", "-c", "\n".join(blocks).replace("http://localhost:8710", url)],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert done.returncode == 0, done.stderr + done.stdout
    for answer in re.findall(r"answers `([^`]+)`", text):
        assert answer in done.stdout
