"""Payload codecs: compression and encryption at rest, with rotation."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from stepwell import Context, Engine, step, workflow
from stepwell.errors import SettingsInvalid, StoreUnusable
from stepwell.store.payloads import CodecChain, Compression, Encryption

OLD, NEW = b"o" * 32, b"n" * 32


@step
async def whisper(word: str) -> str:
    return f"{word} is the secret canary"


@workflow
async def confide(ctx: Context, word: str) -> str:
    first = await ctx.step(whisper, word)
    return first + await ctx.signal("more", str)


@pytest.mark.req("K32")
async def test_no_value_is_on_disk_in_clear_text(tmp_path: Path) -> None:
    database = str(tmp_path / "app.db")
    codec = CodecChain(Compression(), Encryption({"a": OLD}, current="a"))
    async with Engine(database, workflows=[confide], codec=codec) as engine:
        run = await engine.start(confide, "canary-input")
        await run.signal("more", "canary-signal")
        assert await run.result(10) == "canary-input is the secret canarycanary-signal"

    assert b"canary" not in _on_disk(tmp_path)


def _on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


@pytest.mark.req("K32")
async def test_runs_written_with_the_old_key_go_on_after_a_rotation(tmp_path: Path) -> None:
    database = str(tmp_path / "app.db")
    async with Engine(database, workflows=[confide], codec=Encryption({"a": OLD}, current="a")) as engine:
        run_id = (await engine.start(confide, "x")).id

    rotated = Encryption({"a": OLD, "b": NEW}, current="b")
    async with Engine(database, workflows=[confide], codec=rotated) as engine:
        run = engine.handle(run_id, confide)
        await run.signal("more", "!")
        assert await run.result(10) == "x is the secret canary!"


@pytest.mark.req("K32")
async def test_values_from_before_the_codec_stay_readable(tmp_path: Path) -> None:
    database = str(tmp_path / "app.db")
    async with Engine(database, workflows=[confide]) as engine:
        run_id = (await engine.start(confide, "plain")).id

    async with Engine(database, workflows=[confide], codec=Compression()) as engine:
        run = engine.handle(run_id, confide)
        await run.signal("more", "z" * 5000)
        assert (await run.result(10)).endswith("zzz")

    rows = list(apsw.Connection(database).execute("SELECT max(length(payload)) FROM events"))
    assert rows[0][0] < 3000


@pytest.mark.req("K32")
def test_a_missing_key_is_named() -> None:
    written = Encryption({"a": OLD}, current="a").encode(b'"x"')

    with pytest.raises(StoreUnusable, match="'a'"):
        Encryption({"b": NEW}, current="b").decode(written)
    with pytest.raises(SettingsInvalid, match="32 bytes"):
        Encryption({"b": b"short"}, current="b")
