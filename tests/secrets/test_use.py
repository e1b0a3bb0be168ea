"""Secrets in use: steps and nodes get them by name, and nothing that is written has them."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from stepwell import Context, Engine, Retry, RunFailed, StepContext, create_record, step, workflow
from stepwell.errors import InvalidDefinition, InvalidInput, SecretsKeyMissing
from stepwell.outbound.request import OutboundRules
from stepwell.secrets.keyring import Keyring
from tests.engines import Engines
from tests.handlers.test_http import graph_of
from tests.outbound.listener import Listener, answered, listening

KEYS = Keyring({"k1": b"1" * 32}, current="k1")
CANARY = "canary-4f9a-größe-71b2"
FORMS = (
    CANARY.encode(),
    base64.b64encode(CANARY.encode())[:20],
    quote(CANARY, safe="").encode(),
    b"canary-4f9a-gr\\u00f6\\u00dfe-71b2",
)


@step(secrets=["stripe"])
async def length(step: StepContext) -> int:
    return len(step.secrets["stripe"])


@step(secrets=["stripe"])
def length_in_thread(step: StepContext) -> int:
    return len(step.secrets["stripe"])


@step(secrets=["stripe"], isolation="process")
def length_in_process(step: StepContext) -> int:
    return len(step.secrets["stripe"])


@step(secrets=["stripe"], queue="default")
async def length_elsewhere(step: StepContext) -> int:
    return len(step.secrets["stripe"])


@workflow
async def lengths(ctx: Context) -> list[int]:
    return [
        await ctx.step(length),
        await ctx.step(length_in_thread),
        await ctx.step(length_in_process),
        await ctx.step(length_elsewhere),
    ]


@step(secrets=["stripe"], retry=Retry(2, delay="1ms"))
async def leaks(step: StepContext) -> Any:
    value = step.secrets["stripe"]
    logging.getLogger("leaks").warning("using %s", value)
    print("printed", value, file=sys.stderr)
    step.save("note", {"value": value, "basic": base64.b64encode(f"user:{value}".encode()).decode()})
    step.details(value=value)
    if step.attempt == 1:
        raise RuntimeError(f"refused: https://host/?token={quote(value, safe='')}")
    return {"echo": value, value: [f"Bearer {value}"]}


@workflow
async def leaky(ctx: Context) -> Any:
    echo = await ctx.step(leaks)
    raise ValueError(f"ended with {echo}")


@pytest.mark.req("X8")
async def test_steps_get_the_secrets_that_they_name_wherever_they_run(engines: Engines) -> None:
    async with engines.new(lengths, keyring=KEYS, steps=[length_elsewhere]) as engine:
        await engine.secrets.set("stripe", CANARY, by="ann")
        assert await engine.run(lengths) == [len(CANARY)] * 4


@pytest.mark.req("X8")
async def test_no_form_of_a_secret_is_written_anywhere(
    engines: Engines, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with engines.new(leaky, keyring=KEYS) as engine:
        await engine.secrets.set("stripe", CANARY)
        run = await engine.start(leaky, key="the run")
        with pytest.raises(RunFailed) as failure:
            await run.result(60)
        seen: list[Any] = [event async for event in run.events()]
        seen += [await run.trace(), await run.state(), await run.info(), str(failure.value)]
        seen += [await run.logs(), await engine.runs(error="ended"), await run.why()]
        seen += [await engine.export(run), await engine.secrets.list()]
        found = await engine.runs(error="größe")
        stored = await everything_stored(engines, engine)
        shown = repr(seen).encode() + caplog.text.encode()

    assert b"[secret stripe]" in shown
    assert not found
    for form in FORMS:
        assert form not in shown
        assert form not in stored


@pytest.mark.req("X8", "N24")
async def test_no_form_of_a_secret_is_written_into_a_record(engines: Engines) -> None:
    @workflow
    async def keep(ctx: Context) -> Any:
        echo = await ctx.step(echoed)
        record = await ctx.step(create_record, "notes", {"city": echo, "list": [echo]})
        return record.id

    async with engines.new(keep, keyring=KEYS) as engine:
        await engine.secrets.set("stripe", CANARY)
        await engine.records.define("notes", find=["city"])
        run_id = await engine.run(keep)
        await engine.records.create("notes", {"city": CANARY, "text": f"Bearer {CANARY}"})
        stored = await everything_stored(engines, engine)
        record = await engine.records.get("notes", run_id)

    assert "[secret stripe]" in str(record.data)
    for form in FORMS:
        assert form not in stored


@step(secrets=["stripe"])
async def echoed(step: StepContext) -> str:
    return step.secrets["stripe"]


async def everything_stored(engines: Engines, engine: Engine) -> bytes:
    """Return every byte of the database."""
    if engines.kind == "sqlite":
        path = Path(str(engines.database))
        return b"".join(
            file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")) if file.is_file()
        )
    if engines.kind == "postgres":
        connection = await asyncpg.connect(str(engines.database))
        try:
            tables = await connection.fetch(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'stepwell' ORDER BY 1"
            )
            rows = [await connection.fetch(f'SELECT t.* FROM stepwell."{name}" AS t') for (name,) in tables]
            return b"".join(_bytes(value) for table in rows for row in table for value in row.values())
        finally:
            await connection.close()
    return repr(vars(engine.store._store)).encode()  # type: ignore[attr-defined]  # the memory behind it


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def http_rules(listener: Listener) -> dict[str, Any]:
    return {"outbound": OutboundRules.of(["127.0.0.1"], [listener.port]), "keyring": KEYS}


@pytest.mark.req("N18", "X8")
@pytest.mark.parametrize(
    ("options", "header"),
    [
        ({}, b"authorization: Bearer token-12345678"),
        ({"use": "basic"}, b"authorization: Basic " + base64.b64encode(b"token-12345678")),
        ({"use": "header", "header": "X-Token"}, b"x-token: token-12345678"),
    ],
    ids=str,
)
async def test_an_http_node_sends_its_credential_and_its_trace_does_not_say_it(
    engines: Engines, options: dict[str, Any], header: bytes
) -> None:
    echo = answered(b'{"you sent": "token-12345678"}', "200 OK", "Content-Type: application/json")
    async with listening(echo) as web:
        host = f"http://127.0.0.1:{web.port}"
        async with engines.new(**http_rules(web)) as engine:
            await engine.secrets.set("api", "token-12345678", hosts=[host], **options)
            run = await engine.start_graph(graph_of({"url": f"{host}/x", "credential": "api"}), {})
            output = await run.result(60)
            trace = await run.trace()
            shown = repr([event async for event in run.events()]) + repr(trace)

    assert header in web.requests[0]
    [config] = [entry.config for entry in trace if entry.type == "http"]
    assert config["credential"] == "api"
    assert output["result"]["body"] == {"you sent": "[secret api]"}
    assert "token-12345678" not in shown


@pytest.mark.req("BI-H26", "X8")
async def test_a_credential_is_refused_for_another_host_before_any_connection(engines: Engines) -> None:
    async with listening(answered(b"{}")) as web, engines.new(**http_rules(web)) as engine:
        await engine.secrets.set("api", "token-12345678", hosts=["api.example.com"])
        url = f"http://127.0.0.1:{web.port}/x"
        run = await engine.start_graph(graph_of({"url": url, "credential": "api"}), {})
        with pytest.raises(RunFailed) as failure:
            await run.result(60)

    assert "may not be sent to" in str(failure.value)
    assert f"stepwell secrets set api --host http://127.0.0.1:{web.port}" in str(failure.value)
    assert not web.requests


@pytest.mark.req("X8")
async def test_a_credential_does_not_follow_a_redirect_to_another_origin(engines: Engines) -> None:
    async with listening(answered(b"{}")) as other:
        moved = answered(b"", "302 Found", f"Location: http://127.0.0.1:{other.port}/y")
        async with listening(moved) as web:
            rules = OutboundRules.of(["127.0.0.1"], [web.port, other.port])
            async with engines.new(outbound=rules, keyring=KEYS) as engine:
                hosts = [f"http://127.0.0.1:{web.port}", f"http://127.0.0.1:{other.port}"]
                await engine.secrets.set("api", "token-12345678", hosts=hosts, use="header", header="X-Token")
                run = await engine.start_graph(graph_of({"url": f"{hosts[0]}/x", "credential": "api"}), {})
                await run.result(60)

    assert b"x-token: token-12345678" in web.requests[0]
    assert b"token-12345678" not in other.requests[0]


@pytest.mark.req("X5", "X8")
async def test_a_workspace_has_its_own_secrets(engines: Engines) -> None:
    async with engines.new(lengths, keyring=KEYS, steps=[length_elsewhere]) as engine:
        acme = engine.within("acme")
        await engine.secrets.set("stripe", "12345678")
        await acme.secrets.set("stripe", "123456789")
        await acme.secrets.set("other", "12345678")
        await acme.store.put_definitions([])
        names = [[secret.name for secret in await one.secrets.list()] for one in (engine, acme)]

        assert names == [["stripe"], ["other", "stripe"]]
        assert await engine.run(lengths) == [8] * 4
        assert not await engine.secrets.delete("other")


@pytest.mark.req("X8")
async def test_a_new_value_is_used_and_a_deleted_one_fails_the_step(memory_engines: Engines) -> None:
    async with memory_engines.new(lengths, keyring=KEYS, steps=[length_elsewhere]) as engine:
        first = await engine.secrets.set("stripe", "12345678", by="ann")
        second = await engine.secrets.set("stripe", "123456789", by="bob", hosts=["api.example.com"])
        (listed,) = await engine.secrets.list()

        assert (first.version, second.version, second.created_by) == (1, 2, "bob")
        assert listed == second
        assert await engine.run(lengths) == [9] * 4

        assert await engine.secrets.delete("stripe", by="ann")
        engine.secret_opener._opened.clear()  # what five seconds do
        with pytest.raises(RunFailed, match="there is no secret 'stripe'"):
            await engine.run(lengths)


async def test_two_writers_of_one_secret_both_get_a_version(engines: Engines) -> None:
    async with engines.new(keyring=KEYS, worker=False) as engine:
        infos = await asyncio.gather(*(engine.secrets.set("stripe", f"value-{n}-12345") for n in range(5)))

    assert sorted(info.version for info in infos) == [1, 2, 3, 4, 5]


@pytest.mark.req("X8")
async def test_rotation_leaves_every_secret_readable(engines: Engines) -> None:
    both = Keyring({"k2": b"2" * 32, "k1": b"1" * 32}, current="k2")
    only_new = Keyring({"k2": b"2" * 32}, current="k2")
    async with engines.new(keyring=KEYS, worker=False) as engine:
        for n in range(120):
            await engine.secrets.set(f"s{n}", f"value-{n}-12345")
        await engine.within("acme").secrets.set("theirs", "value-theirs")
    async with engines.new(keyring=both, worker=False) as engine:
        assert await engine.secrets.rotate() == 121
        assert await engine.secrets.rotate() == 0
    async with engines.new(keyring=only_new, worker=False) as engine:
        rows = await engine.store.list_secrets("default", limit=500)
        assert {only_new.open(row) for row in rows} == {f"value-{n}-12345" for n in range(120)}


@pytest.mark.req("X8")
async def test_without_a_key_nothing_is_set_and_steps_say_what_is_missing(memory_engines: Engines) -> None:
    async with memory_engines.new(lengths) as engine:
        with pytest.raises(SecretsKeyMissing) as refusal:
            await engine.secrets.set("stripe", CANARY)
        with pytest.raises(RunFailed, match="this process has no key"):
            await engine.run(lengths)

    assert "STEPWELL_SECRETS_KEY" in refusal.value.hint


@pytest.mark.req("X8")
async def test_a_wrong_key_fails_the_step_and_never_gives_an_empty_value(durable_engines: Engines) -> None:
    async with durable_engines.new(keyring=KEYS, worker=False) as engine:
        await engine.secrets.set("stripe", CANARY)
    missing, wrong = Keyring({"k2": b"2" * 32}, current="k2"), Keyring({"k1": b"2" * 32}, current="k1")
    said = []
    for number, keyring in enumerate((missing, wrong)):
        async with durable_engines.new(lengths, keyring=keyring) as engine:
            run = await engine.start(lengths, key=str(number))
            with pytest.raises(RunFailed) as failed:
                await run.result(60)
            said.append(str(failed.value))

    assert "which this process does not have" in said[0]
    assert "has another value here" in said[1]


@pytest.mark.slow
@pytest.mark.req("X8")
async def test_several_workspaces_are_not_served_without_a_key(durable_engines: Engines) -> None:
    async with durable_engines.new(lengths, worker=False) as engine:
        await engine.start(lengths)
        await engine.check_key()  # one workspace needs none
        await engine.within("acme").keys.create("ann", scopes=["read"])
        with pytest.raises(SecretsKeyMissing, match="'acme'"):
            await engine.check_key()
    with pytest.raises(SecretsKeyMissing, match="several workspaces"):
        await durable_engines.new(lengths).serve(lambda: pytest.fail("it serves"))
    async with durable_engines.new(lengths, keyring=KEYS, worker=False) as engine:
        await engine.check_key()


@pytest.mark.slow
@pytest.mark.req("X8")
def test_the_server_refuses_several_workspaces_without_a_key(tmp_path: Path) -> None:
    database = tmp_path / "app.db"

    def said(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stepwell", *words, "--database", str(database)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **environment},
            check=False,
        )

    asyncio.run(_two_workspaces(str(database)))

    served = said("serve", "--port", "0")

    assert served.returncode != 0
    assert "SECRETS_KEY_MISSING" in served.stderr
    assert "openssl rand -base64 32" in served.stderr


async def _two_workspaces(database: str) -> None:
    async with Engine(database, worker=False) as engine:
        for workspace in ("default", "acme"):
            await engine.within(workspace).keys.create("ann", scopes=["read"])


@pytest.mark.parametrize(
    ("name", "value", "options", "message"),
    [
        ("", "12345678", {}, "cannot be the name"),
        ("a b", "12345678", {}, "cannot be the name"),
        ("../x", "12345678", {}, "cannot be the name"),
        ("x", "1234567", {}, "at least 8"),
        ("x", "1" * 70_000, {}, "at most 64 KiB"),
        ("x", "12345678\0", {}, "without NUL"),
        ("x", "12345678\ud800", {}, "valid Unicode"),
        ("x", 12345678, {}, "must be text"),
        ("x", "12345678", {"use": "bearr"}, "not a way to use"),
        ("x", "12345678", {"use": "header"}, "cannot be the name of a header"),
        ("x", "12345678", {"header": "X-Key"}, "takes no header"),
        ("x", "12345678", {"hosts": "api.example.com"}, "hosts is"),
        ("x", "12345678", {"hosts": ["https://a/b"]}, "cannot be a host"),
    ],
    ids=str,
)
async def test_what_cannot_be_a_secret_is_refused_without_saying_its_value(
    memory_engines: Engines, name: str, value: Any, options: dict[str, Any], message: str
) -> None:
    async with memory_engines.new(keyring=KEYS, worker=False) as engine:
        with pytest.raises(InvalidInput, match=message) as refusal:
            await engine.secrets.set(name, value, **options)
        assert str(value) not in str(refusal.value)
        assert not await engine.secrets.list()


def test_a_step_that_names_secrets_must_be_able_to_get_them() -> None:
    with pytest.raises(InvalidDefinition, match="takes no StepContext"):

        @step(secrets=["stripe"])
        async def blind() -> None: ...

    with pytest.raises(InvalidDefinition, match="secrets="):

        @step(secrets="stripe")
        async def text(step: StepContext) -> None: ...
