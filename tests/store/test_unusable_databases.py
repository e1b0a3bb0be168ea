"""Databases that cannot be used: said at once, with what to do, and left as they are."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import apsw
import asyncpg
import pytest

from stepwell import Context, Engine, SyncClient, workflow
from stepwell.errors import SettingsInvalid, StoreError, StoreUnavailable, StoreUnusable
from tests.engines import Engines

ROOT = Path(__file__).parents[2]


@workflow
async def nothing(ctx: Context) -> str:
    return "nothing"


async def opening(database: str) -> StoreError:
    with pytest.raises(StoreError) as caught:
        async with Engine(database, workflows=[nothing]):
            pass
    assert caught.value.hint
    return caught.value


@pytest.mark.req("R4")
async def test_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    path.write_bytes(b"this is a letter, not a database\n" * 100)
    before = path.read_bytes()

    error = await opening(str(path))

    assert isinstance(error, StoreUnusable)
    assert error.code == "STORE_UNUSABLE"
    assert path.read_bytes() == before


@pytest.mark.req("R4")
async def test_corrupt_database(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    async with Engine(str(path), workflows=[nothing]) as engine:
        await (await engine.start(nothing)).result()
    for extra in ("app.db-wal", "app.db-shm"):
        (tmp_path / extra).unlink(missing_ok=True)
    data = bytearray(path.read_bytes())
    data[100:4000] = os.urandom(3900)
    path.write_bytes(bytes(data))

    error = await opening(str(path))

    assert error.code == "STORE_UNUSABLE"
    assert path.read_bytes()[100:4000] == bytes(data[100:4000])


@pytest.mark.req("R4", "K22")
async def test_database_of_a_newer_stepwell(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    async with Engine(str(path), workflows=[nothing]) as engine:
        await (await engine.start(nothing)).result()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 9999")
    connection.close()

    error = await opening(str(path))

    assert isinstance(error, StoreUnusable)
    assert "newer" in str(error)


@pytest.mark.req("R4")
async def test_unreachable_postgres() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    error = await opening(f"postgresql://nobody:secret@127.0.0.1:{port}/nowhere")

    assert isinstance(error, StoreUnavailable)
    assert error.code == "STORE_UNAVAILABLE"
    assert "secret" not in str(error)


@pytest.mark.req("R4")
async def test_postgres_database_that_does_not_exist(postgres: Engines) -> None:
    error = await opening(f"{postgres.database}_gone")

    assert error.code in ("STORE_UNAVAILABLE", "STORE_UNUSABLE")


def obey_file_modes() -> None:
    """Root may write everywhere; without these two capabilities it is bound like everybody."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


OPENING = """
import asyncio, sys
from stepwell import Engine
from stepwell.errors import StoreError
async def main():
    try:
        async with Engine(sys.argv[1]):
            print("opened")
    except StoreError as error:
        print(error.code, bool(error.hint))
asyncio.run(main())
"""


@pytest.mark.req("R4")
def test_read_only_directory(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)

    done = subprocess.run(
        [sys.executable, "-c", OPENING, str(folder / "app.db")],
        cwd=ROOT / "src",
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=obey_file_modes if os.geteuid() == 0 else None,
    )

    assert done.stdout.strip() == "STORE_UNUSABLE True", done.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.req("R4")
async def test_directory_that_does_not_exist(tmp_path: Path) -> None:
    error = await opening(str(tmp_path / "no" / "such" / "app.db"))

    assert error.code == "STORE_UNUSABLE"
    assert not (tmp_path / "no").exists()


@pytest.mark.req("R4")
@pytest.mark.parametrize("address", ["mysql://host/db", "", "sqlite://app.db", "a\x00b"])
def test_address_that_no_store_has(address: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        Engine(address)
    assert caught.value.hint


def test_a_sync_client_that_cannot_open_leaves_nothing_behind(tmp_path: Path) -> None:
    before = set(threading.enumerate())

    with pytest.raises(StoreUnusable), SyncClient(str(tmp_path / "none" / "app.db")):
        pass

    assert not [
        thread for thread in threading.enumerate() if "stepwell" in thread.name and thread not in before
    ]


@workflow
async def answering(ctx: Context) -> int:
    return await ctx.signal("answer", int)


@pytest.mark.req("R4", "K1")
async def test_nothing_is_accepted_into_a_file_that_is_no_longer_there(tmp_path: Path) -> None:
    """SQLite writes on into a deleted file: all of it would be gone with the process."""
    path, aside = tmp_path / "app.db", tmp_path / "aside.db"
    async with Engine(path, workflows=[answering]) as engine:
        run = await engine.start(answering)
        path.rename(aside)

        with pytest.raises(StoreUnusable, match="deleted, moved or replaced") as caught:
            await engine.start(answering)
        path.write_bytes(b"")  # not ours either
        with pytest.raises(StoreUnusable):
            await run.signal("answer", 41)

        assert "put the same file back" in caught.value.hint
        aside.rename(path)
        await run.signal("answer", 42)
        assert await run.result(timeout=40) == 42


@pytest.mark.req("R4")
async def test_a_server_without_a_free_connection_says_so(postgres: Engines) -> None:
    address = urlsplit(str(postgres.database))
    role = f"narrow_{uuid.uuid4().hex}"
    connection = await asyncpg.connect(str(postgres.database))
    try:
        await connection.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")

        error = await opening(address._replace(netloc=f"{role}@{address.netloc.rpartition('@')[2]}").geturl())

        assert isinstance(error, StoreUnavailable)
        assert "no connection left" in error.message
        assert "max_connections" in error.hint
    finally:
        await connection.execute(f"DROP ROLE IF EXISTS {role}")
        await connection.close()
