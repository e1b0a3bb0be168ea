"""The command line on an encrypted database: with its key as on any other, without it not at all."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest

from stepwell.app import Engine
from stepwell.cli import main
from stepwell.cli.source import collect
from stepwell.store.payloads import Encryption
from tests.engines import suspended

FLOWS = """
from stepwell import Context, step, workflow
from stepwell.store.payloads import CodecChain, Compression, Encryption

codec = Encryption({"a": b"a" * 32}, current="a")

@workflow
async def pay(ctx: Context, cents: int) -> int:
    paid = await ctx.step(lambda: cents)
    return paid + await ctx.signal("more", int)
"""
KEY = base64.b64encode(b"a" * 32).decode()
WRONG = base64.b64encode(b"b" * 32).decode()


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flows = folder / "flows_of_payment.py"
        self.flows.write_text(FLOWS)
        self.database = str(folder / "app.db")
        self.codec = Encryption({"a": b"a" * 32}, current="a")

    async def live_run(self, codec: Encryption | None) -> str:
        workflows = collect(str(self.flows)).workflows
        async with Engine(self.database, workflows=workflows, codec=codec) as engine:
            run = await engine.start("pay", 5)
            await suspended(run)
            return run.id

    def on_disk(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.folder.glob("app.db*"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def verbs(place: Place, run: str) -> list[list[str]]:
    asked = [["list"], ["get", run], ["events", run], ["signal", run, "more", "--payload", "37"]]
    asked += [["cancel", run], ["retry", run], ["rerun", run], ["fork", run, "--at", "1"], ["export", run]]
    asked += [["delete", run], ["compensate", run]]
    runs = [["runs", *words, "--database", place.database] for words in asked]
    flows = str(place.flows)
    return [
        *runs,
        ["check", flows, "--against", place.database],
        ["worker", flows, "--database", place.database],
    ]


@pytest.mark.req("K42", "C1")
@pytest.mark.parametrize("key", ["", f"a:{WRONG}", f"b:{WRONG}"])
def test_without_the_key_every_verb_is_refused(
    place: Place, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = asyncio.run(place.live_run(place.codec))
    monkeypatch.setenv("STEPWELL_ENCRYPTION_KEY", key)

    for asked in verbs(place, run):
        assert main(asked) == 2, asked
        out, err = capsys.readouterr()
        assert out == ""
        assert "[CODEC_MISSING]" in err


@pytest.mark.req("K42", "C1")
def test_with_the_key_it_is_a_database_like_any_other(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = asyncio.run(place.live_run(place.codec))
    monkeypatch.setenv("STEPWELL_ENCRYPTION_KEY", f"a:{KEY}")
    here = ["--database", place.database]

    assert main(["runs", "get", run, "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out)["input"] == 5
    assert main(["runs", "signal", run, "more", "--payload", '"canary"', *here]) == 0
    assert main(["check", str(place.flows), "--against", place.database]) == 0
    assert main(["runs", "export", run, "-o", str(place.folder / "run.json"), *here]) == 0
    assert main(["runs", "rerun", run, "--input", "77123456", *here]) == 0
    again = capsys.readouterr().out.strip().splitlines()[-1]
    assert main(["runs", "cancel", again, "--reason", "canary", *here]) == 0

    assert b"canary" not in place.on_disk()
    assert b"77123456" not in place.on_disk()
    there = place.folder / "there"
    there.mkdir()
    assert main(["runs", "import", str(place.folder / "run.json"), "--database", str(there / "b.db")]) == 0
    monkeypatch.delenv("STEPWELL_ENCRYPTION_KEY")
    assert (
        main(["runs", "list", "--database", str(there / "b.db")]) == 2
    )  # a new one is encrypted from its start


@pytest.mark.req("K42", "C1")
def test_the_codec_can_be_named(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(place.live_run(place.codec))
    here = ["--database", place.database]

    assert main(["runs", "list", "--codec", f"{place.flows}:codec", *here]) == 0
    monkeypatch.setenv("STEPWELL_CODEC", f"{place.flows}:codec")
    assert main(["runs", "list", *here]) == 0
    assert capsys.readouterr().out.count("suspended") == 2
    for wrong in ("codec", f"{place.flows}:nothing", f"{place.flows}:pay", "no.such.module:codec"):
        assert main(["runs", "list", "--codec", wrong, *here]) == 2
    monkeypatch.delenv("STEPWELL_CODEC")
    monkeypatch.setenv("STEPWELL_ENCRYPTION_KEY", "a:no base64")
    assert main(["runs", "list", *here]) == 2
    assert "STEPWELL_ENCRYPTION_KEY: key 'a' is not base64" in capsys.readouterr().err


@pytest.mark.req("K42", "C1")
def test_a_plain_database_stays_plain_whatever_key_is_set(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = asyncio.run(place.live_run(None))
    monkeypatch.setenv("STEPWELL_ENCRYPTION_KEY", f"a:{KEY}")
    here = ["--database", place.database]

    assert main(["runs", "signal", run, "more", "--payload", "37", *here]) == 0
    monkeypatch.delenv("STEPWELL_ENCRYPTION_KEY")
    assert main(["runs", "get", run, *here]) == 0
    asyncio.run(_ends(place, run))


async def _ends(place: Place, run: str) -> None:
    async with Engine(place.database, workflows=collect(str(place.flows)).workflows) as engine:
        assert await engine.handle(run).result(40) == 42
