"""Opening a server, being refused, and requests whose answers are lost."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from stepwell import Context, Engine, Machine, StepwellError, SyncClient, connect, transition, workflow
from stepwell.client.rates import StartRate
from stepwell.errors import (
    Forbidden,
    InvalidRequest,
    OutcomeUnknown,
    PayloadTooLarge,
    RateLimited,
    RequestRefused,
    RunNotFound,
    ServerFault,
    ServerUnavailable,
    SettingsInvalid,
    Unauthenticated,
)
from tests.engines import Engines, until
from tests.http_client.connected import connected, order
from tests.http_client.processes import serving
from tests.server.served import FLOWS, TOKEN, Served, doubling, listening, served
from tests.server.test_serve import running


@pytest.mark.req("A4")
@pytest.mark.parametrize("address", ["app.db", "ftp://host", "http://", "", "http://me@host"])
def test_what_is_not_the_address_of_a_server_is_refused(address: str) -> None:
    with pytest.raises(SettingsInvalid, match="address"):
        connect(address)


@pytest.mark.req("A4")
def test_a_server_is_not_taken_for_a_database() -> None:
    with pytest.raises(SettingsInvalid, match="a server, not a database") as refused:
        Engine("http://localhost:8710")
    assert "stepwell.connect" in refused.value.hint
    with pytest.raises(SettingsInvalid, match="workspace"):
        SyncClient("http://localhost:8710", workspace="other")
    with pytest.raises(SettingsInvalid, match="key"):
        SyncClient("app.db", key="sw_key_1_2")


@pytest.mark.req("A4")
async def test_a_server_is_opened_with_a_key_a_launch_address_or_a_variable(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as server:
        new = await engine.within("other").keys.create("ann", scopes=["read", "run"])
        async with connect(f"{server.url}/?t={TOKEN}") as client:
            assert await client.run(doubling, 2) == 4
        async with connect(f"{server.url}/api/v1/", key=new.text) as client:
            assert client.workspace == "other"
            assert client.within("other") is client
            with pytest.raises(InvalidRequest, match="other"):
                client.within("third")
        monkeypatch.setenv("STEPWELL_API_KEY", new.text)
        async with connect(server.url) as client:
            assert client.workspace == "other"
        monkeypatch.delenv("STEPWELL_API_KEY")
        for key in ("", "wrong", new.text + "x"):
            with pytest.raises(Unauthenticated):
                async with connect(server.url, key=key):
                    pass
        with pytest.raises(SettingsInvalid):
            connect(server.url, key="schlüssel")


@pytest.mark.req("A4", "A5")
async def test_refusals_of_a_server_are_errors_with_its_words(memory_engines: Engines) -> None:
    engine = memory_engines.new(*FLOWS, start_rates=[StartRate("workflow", 1, seconds=3600)])
    async with served(engine) as server:
        new = await engine.keys.create("ann", scopes=["read"])
        async with connect(server.url, key=new.text) as reader, connect(server.url, key=TOKEN) as client:
            with pytest.raises(Forbidden, match="scope run"):
                await reader.start(doubling, 1)
            await client.start(doubling, 1)
            with pytest.raises(RateLimited) as limited:
                await client.start(doubling, 2)
            assert limited.value.retry_after >= 1
            with pytest.raises(RunNotFound, match="0000"):
                await client.handle("0" * 32).info()
            with pytest.raises(RequestRefused, match="not an id") as refused:
                await client.handle("my run").info()
            assert refused.value.code == "ID_INVALID"
            assert "[ID_INVALID]" in str(refused.value)
            with pytest.raises(PayloadTooLarge):
                await client.emit("news", "x" * 5_000_000)
            with pytest.raises(InvalidRequest, match="does not reach the database"):
                await client.store.list_workers()


@pytest.mark.req("A4")
async def test_only_the_key_says_who_it_was(memory_engines: Engines) -> None:
    engine = memory_engines.new(order)
    async with served(engine) as server:
        new = await engine.keys.create("ann", scopes=["read", "run", "approve"])
        async with connect(server.url, key=new.text) as client:
            run = await client.start(order, 5)
            await run.waiting_for("approval")
            with pytest.raises(Forbidden, match="ann"):
                await run.decide(True, by="bob")
            with pytest.raises(Forbidden, match="roles"):
                await run.decide(True, roles=["boss"])
            await run.decide(True, by="ann")
            await run.result()
            state = await run.state()
        assert state.started_by == "ann"


@pytest.mark.req("A4")
async def test_a_client_that_is_not_open_says_so(memory_engines: Engines) -> None:
    client = connect("http://127.0.0.1:9", key=TOKEN)
    with pytest.raises(InvalidRequest, match="not open"):
        await client.runs()
    with pytest.raises(ServerUnavailable, match=r"127\.0\.0\.1:9"):
        await client.open()
    async with connected(memory_engines) as (client, _):
        pass
    with pytest.raises(InvalidRequest, match="not open"):
        await client.runs()


class Proxy:
    """Passes bytes on, and loses the answers that it is told to lose."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.losing = 0
        self.lost = 0
        self.open: set[asyncio.StreamWriter] = set()  # to the server, once it has answered

    def cut(self) -> None:
        """Break every connection that is open."""
        for writer in self.open:
            writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.TaskGroup() as group:
                request = group.create_task(self._copy(reader, back))
                while data := await there.read(65536):
                    if self.losing:
                        self.losing -= 1
                        self.lost += 1
                        break
                    writer.write(data)
                    await writer.drain()
                    self.open.add(back)
                request.cancel()
        except* ConnectionError:
            pass
        finally:
            self.open.discard(back)
            writer.close()
            back.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def lossy(engine: Engine) -> AsyncIterator[tuple[Any, Proxy, Served]]:
    async with served(engine) as server:
        proxy = Proxy(int(server.url.rpartition(":")[2]))
        async with proxy.listening() as url, connect(url, key=TOKEN) as client:
            yield client, proxy, server


@pytest.mark.slow
@pytest.mark.req("A3", "A4")
async def test_a_quiet_run_is_followed_over_many_short_outages(memory_engines: Engines) -> None:
    """Together they last longer than a client waits for a server that is away."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as server:
        proxy = Proxy(int(server.url.rpartition(":")[2]))
        async with proxy.listening() as url, connect(url, key=TOKEN, retry_seconds=2.5) as client:
            run = await client.start("listening", 1)
            seqs = asyncio.create_task(_seqs(client.handle(run.id)))
            began = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() < began + 5:
                await until(lambda: proxy.open or seqs.done())
                proxy.cut()
                await until(lambda: not proxy.open)
            await run.signal("word", "the last")

            assert await seqs == [row.seq async for row in engine.handle(run.id).log()]


async def _seqs(run: Any) -> list[int]:
    return [event.seq async for event in run.events(follow=True)]


@pytest.mark.req("A4", "K20")
async def test_what_is_sent_again_after_a_lost_answer_happens_once(engines: Engines) -> None:
    engine = engines.new(*FLOWS, order)
    async with lossy(engine) as (client, proxy, _):

        async def losing(count: int, call: Any) -> Any:
            proxy.losing = count
            answer = await call
            assert proxy.losing == 0
            return answer

        run = await losing(2, client.start(doubling, 3))
        assert await run.result() == 6
        assert len(await losing(1, client.runs())) == 1
        many = await losing(2, client.start_many(listening, [2] * 10))
        assert len(await client.runs(workflow="listening")) == 10
        words = many[0]
        await losing(1, words.signal("word", "one"))
        await losing(1, words.signal("word", "two"))
        assert await words.result() == ["one", "two"]
        again = await losing(1, client.rerun(run))
        assert await again.result() == 6
        assert len(await client.runs(workflow="doubling")) == 2
        failed = await client.start(order, 1)
        await failed.waiting_for("approval")
        await losing(2, failed.decide(False))
        with pytest.raises(StepwellError):
            await failed.result()
        await losing(1, failed.retry())
        assert await losing(1, many[1].cancel("enough"))
        assert await losing(1, client.disable("doubling"))
        await losing(1, again.delete())
        assert await losing(1, client.emit("news", 1))
        await losing(1, client.set_limit("workflow", "doubling", 3))
        assert await losing(1, client.drop_limit("workflow", "doubling"))
        assert proxy.lost == 17


@workflow
async def asked_twice(ctx: Context, number: int) -> list[str]:
    return [await ctx.approval(str, title="Really?") for _ in range(2)]


class Turning(Machine[dict[str, int]]):
    ends: ClassVar = {"done"}

    @transition("start", "asked")
    async def ask(self, ctx: Context, size: int) -> None:
        self.state["turns"] = 0

    @transition("asked", "asked", wait=True)
    async def turn(self, ctx: Context) -> None:
        self.state["turns"] += 1

    @transition("asked", "done", wait=True)
    async def leave(self, ctx: Context) -> None: ...


@pytest.mark.req("A4", "M3")
async def test_a_repeated_decision_is_not_taken_for_the_next_one(engines: Engines) -> None:
    async with lossy(engines.new(asked_twice, Turning)) as (client, proxy, _):
        run, machine = await client.start("asked_twice", 1), await client.start("Turning", 1)
        await run.waiting_for("approval")
        await run.decide("yes", id="first")
        await until(lambda: received(run, 1))
        await run.waiting_for("approval")
        proxy.losing = 1
        await run.decide("yes", id="first")
        assert len(await run.waits()) == 1, "the second question is still open"
        await run.decide("no")
        assert await run.result("30s") == ["yes", "no"]
        with pytest.raises(StepwellError):
            await run.decide("no")
        await run.decide("yes", id="first")

        for id, count in (("one", 1), ("one", 1), ("two", 2)):
            await until(machine.waits)
            proxy.losing = 1
            await machine.trigger("turn", id=id)
            await until(partial(received, machine, count))
        await until(machine.waits)
        await machine.trigger("leave")
        assert await machine.result("30s") == {"turns": 2}


async def received(run: Any, count: int) -> bool:
    return len([event async for event in run.events() if event.kind == "received"]) == count


@pytest.mark.req("A4")
async def test_what_cannot_be_repeated_is_not(memory_engines: Engines) -> None:
    async with lossy(memory_engines.new(*FLOWS)) as (client, proxy, _):
        proxy.losing = 1
        with pytest.raises(OutcomeUnknown, match="may or may not"):
            await client.keys.create("ci")
        assert len(await client.keys.list()) == 1


@pytest.mark.req("A4")
async def test_another_server_at_the_address_is_recognised() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ServerFault, match="not a Stepwell server"):
            async with connect(f"http://127.0.0.1:{port}", key=TOKEN):
                pass


@pytest.mark.req("A4")
def test_sync_code_uses_a_server_as_it_uses_a_database(tmp_path: Any) -> None:
    with serving(tmp_path / "app.db") as (url, _), SyncClient(url, key=TOKEN) as client:
        run = client.start("listening", 2, key="words")
        run.signal("word", "one")
        run.signal("word", "two")

        assert run.result(timeout="60s") == ["one", "two"]
        assert [event.kind for event in run.events(follow=True)][-1] == "completed"
        assert client.runs()[0].key == "words"
        found = client.find("words")
        assert found is not None
        assert found.info().id == run.id
        assert client.keys.create("ci").credential.name == "ci"


@pytest.mark.parametrize(
    "command", ["import stepwell", "import stepwell; stepwell.Engine, stepwell.SyncClient"]
)
def test_the_package_loads_no_http_client(command: str) -> None:
    script = f"import sys; {command}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert not {"httpx2", "stepwell.http_client"} & set(done.stdout.split())


@pytest.mark.slow
@pytest.mark.req("A4")
def test_the_code_of_the_page_works(tmp_path: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    flows = re.findall(r"```python\n# flows.py\n(.*?)```", (docs / "server.md").read_text(), re.DOTALL)
    blocks = re.findall(r"```python\n(.*?)```", (docs / "http-client.md").read_text(), re.DOTALL)
    (tmp_path / "flows.py").write_text(flows[0])
    with running("dev", "flows.py", "--port", "0", folder=tmp_path) as (_, url):
        said = [
            subprocess.run(
                [sys.executable, "-c", block.replace("http://localhost:8710", url)],
                env={**os.environ, "STEPWELL_API_KEY": TOKEN},
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            ).stdout
            for block in blocks
        ]

    assert said[0].startswith("receipt-42\n1 ")
    assert said[0].rstrip().endswith("completed")
    assert said[1].rstrip().endswith("completed")
