"""`stepwell runs signal | cancel | retry | compensate | rerun | fork | export | import | delete`.

These need no workflow code. `list`, `get` and `events` are in `output`.
"""

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
from stepwell.client.options import WhoOptions
from stepwell.errors import InvalidFile, InvalidRequest
from stepwell.store.payloads import PayloadCodec
from stepwell.system import SystemIds


async def do(options: argparse.Namespace) -> int:
    file = b""
    codec = named_codec(options.codec)
    if options.what == "import":
        file = _read(options.file)  # before a new database is created for it
    else:
        must_exist(options.database)
    if options.what in ("rerun", "fork"):
        return await _make_another(options, codec)
    store = store_of(options.database, codec)
    await store.open()
    try:
        client = Client(store, SystemIds(), workspace=options.workspace)
        client.notifier.forward_to(store.hint)
        if options.what in ("list", "get", "events"):
            await show(client, options)
        elif options.what == "signal":
            await _signal(client, options)
        elif options.what == "export":
            _write(options.output, await client.export(options.run))
        elif options.what == "import":
            run = await client.import_run(file, by=options.by)
            print(run.id)
        elif options.what == "retry":
            await client.handle(options.run).retry(by=options.by, reason=options.reason)
            print(f"retrying {options.run}", file=sys.stderr)
        elif options.what == "compensate":
            await client.handle(options.run).compensate(by=options.by, reason=options.reason)
            print(f"compensating {options.run}", file=sys.stderr)
        elif options.what == "cancel":
            print(await _cancel(client.handle(options.run), options.reason, options.by), file=sys.stderr)
        else:
            await client.handle(options.run).delete(by=options.by, reason=options.reason)
            print(f"deleted {options.run}", file=sys.stderr)
    finally:
        await store.close()
    return 0


async def _signal(client: Client, options: argparse.Namespace) -> None:
    payload = None if options.payload is None else _json("payload", options.payload)
    await client.handle(options.run).signal(options.name, payload, id=options.id, by=options.by)
    print(f"sent signal {options.name} to {options.run}", file=sys.stderr)


async def _cancel(run: RunHandle[Any], reason: str, by: str) -> str:
    requested = await run.cancel(reason, by=by)
    status = await run.status()
    if not requested and status.terminal:
        return f"{run.id} had already ended: it is {status}"
    if requested and status.terminal:
        return f"{run.id} is {status}"
    return f"{run.id} is being cancelled" if requested else f"{run.id} was already being cancelled"


async def _make_another(options: argparse.Namespace, codec: PayloadCodec | None) -> int:
    """Use an engine without a worker: it knows which nodes of a graph depend on which."""
    edits = {name: getattr(options, name, None) for name in ("input", "state")}
    changed = {name: _json(name, text) for name, text in edits.items() if text is not None}
    step = getattr(options, "from_step", None)
    if step is not None and changed:
        raise InvalidRequest(
            "--input cannot be combined with --from-step",
            hint="the steps before it ran with the old input; use fork --at SEQ --input",
        )
    who: WhoOptions = {"by": options.by, "reason": options.reason}
    store = store_of(options.database, codec)
    async with Engine(store, worker=False, workspace=options.workspace) as engine:
        if options.what == "fork":
            run = await engine.fork(str(options.run), at=options.at, **changed, **who)
        elif step is not None:
            run = await engine.rerun_from(str(options.run), step, **who)
        else:
            run = await engine.rerun(str(options.run), **changed, **who)
        print(run.id)
    return 0


def _json(option: str, text: str) -> Any:
    data = _read(text[1:]) if text.startswith("@") else text
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidRequest(
            f"--{option} is not JSON: {error}", hint="put text in double quotes: '\"text\"'"
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
