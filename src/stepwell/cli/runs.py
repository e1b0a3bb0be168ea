"""`stepwell runs signal | cancel | retry | compensate | rerun | fork | export | import | delete`, without any
code; `list`, `get` and `events` are in `shown`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from stepwell.app import Engine
from stepwell.cli.codec import named_codec, store_of
from stepwell.cli.output import show
from stepwell.cli.source import must_exist
from stepwell.client import Client
from stepwell.client.handle import RunHandle
from stepwell.errors import InvalidFile, InvalidRequest
from stepwell.store.payloads import PayloadCodec
from stepwell.system import SystemIds


async def do(given: argparse.Namespace) -> int:
    file = b""
    codec = named_codec(given.codec)
    if given.what == "import":
        file = _read(given.file)  # before a new database is made for it
    else:
        must_exist(given.database)
    if given.what in ("rerun", "fork"):
        return await _make_another(given, codec)
    store = store_of(given.database, codec)
    await store.open()
    try:
        client = Client(store, SystemIds())
        client.notifier.forward_to(store.hint)
        if given.what in ("list", "get", "events"):
            await show(client, given)
        elif given.what == "signal":
            await _signal(client, given)
        elif given.what == "export":
            _write(given.output, await client.export(given.run))
        elif given.what == "import":
            run = await client.import_run(file)
            print(run.id)
        elif given.what == "retry":
            await client.handle(given.run).retry()
            print(f"sent on {given.run}", file=sys.stderr)
        elif given.what == "compensate":
            await client.handle(given.run).compensate()
            print(f"a worker undoes {given.run}", file=sys.stderr)
        elif given.what == "cancel":
            print(await _cancel(client.handle(given.run), given.reason), file=sys.stderr)
        else:
            await client.handle(given.run).delete()
            print(f"deleted {given.run}", file=sys.stderr)
    finally:
        await store.close()
    return 0


async def _signal(client: Client, given: argparse.Namespace) -> None:
    payload = None if given.payload is None else _json("payload", given.payload)
    await client.handle(given.run).signal(given.name, payload, id=given.id)
    print(f"left {given.name} for {given.run}", file=sys.stderr)


async def _cancel(run: RunHandle[Any], reason: str) -> str:
    asked = await run.cancel(reason)
    status = await run.status()
    if not asked and status.terminal:
        return f"{run.id} had ended: it is {status}"
    if asked and status.terminal:
        return f"{run.id} is {status}"
    return f"{run.id} {'is' if asked else 'was already'} asked to end"


async def _make_another(given: argparse.Namespace, codec: PayloadCodec | None) -> int:
    """By an engine without a worker: of a graph it knows what depends on what."""
    edits = {name: getattr(given, name, None) for name in ("input", "state")}
    changed = {name: _json(name, text) for name, text in edits.items() if text is not None}
    step = getattr(given, "from_step", None)
    if step is not None and changed:
        raise InvalidRequest(
            "--input does not go with --from-step",
            hint="what came before the step was done with the old input; use fork --at SEQ --input",
        )
    async with Engine(store_of(given.database, codec), worker=False) as engine:
        if given.what == "fork":
            run = await engine.fork(str(given.run), at=given.at, **changed)
        elif step is not None:
            run = await engine.rerun_from(str(given.run), step)
        else:
            run = await engine.rerun(str(given.run), **changed)
        print(run.id)
    return 0


def _json(option: str, text: str) -> Any:
    data = _read(text[1:]) if text.startswith("@") else text
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidRequest(
            f"--{option} is no JSON: {error}", hint="text is JSON in double quotes"
        ) from None


def _write(where: str, data: bytes) -> None:
    if where == "-":
        sys.stdout.buffer.write(data + b"\n")
    else:
        try:
            Path(where).write_bytes(data + b"\n")
        except OSError as error:
            raise InvalidRequest(
                f"{where} cannot be written: {error.strerror}", hint="name another file; - is stdout"
            ) from None
        print(f"wrote {where}", file=sys.stderr)


def _read(where: str) -> bytes:
    if where == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(where).read_bytes()
    except OSError as error:
        raise InvalidFile(f"{where} cannot be read: {error.strerror}") from None
