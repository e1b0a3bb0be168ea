"""`stepwell runs export | import | retry | compensate | delete`: whole runs, without their code."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from stepwell.cli.source import must_exist
from stepwell.client import Client
from stepwell.errors import AskedWrongly, InvalidFile
from stepwell.store.open import open_store
from stepwell.system import SystemIds


async def do(given: argparse.Namespace) -> int:
    file = b""
    if given.what == "import":
        file = _read(given.file)  # before a new database is made for it
    else:
        must_exist(given.database)
    store = open_store(given.database)
    await store.open()
    try:
        client = Client(store, SystemIds())
        client.bulletin.on_far(store.hint)
        if given.what == "export":
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
        else:
            await client.handle(given.run).delete()
            print(f"deleted {given.run}", file=sys.stderr)
    finally:
        await store.close()
    return 0


def _write(where: str, data: bytes) -> None:
    if where == "-":
        sys.stdout.buffer.write(data + b"\n")
    else:
        try:
            Path(where).write_bytes(data + b"\n")
        except OSError as error:
            raise AskedWrongly(
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
