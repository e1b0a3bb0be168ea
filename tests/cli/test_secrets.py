"""`stepwell secrets set | list | delete | rotate`."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

from stepwell import Engine
from stepwell.cli import main

KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
OTHER = "YWJjZGVmZ2hpamFiY2RlZmdoaWphYmNkZWZnaGlqYWI="


async def created(database: str) -> None:
    async with Engine(database, worker=False):
        pass


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


@pytest.mark.req("C1", "X8")
def test_secrets_are_set_listed_rotated_and_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    monkeypatch.setenv("STEPWELL_SECRETS_KEY", f"a:{KEY}")
    asyncio.run(created(here[1]))
    type_in(monkeypatch, "sk_live_canary\n")

    assert (
        main(["secrets", "set", "stripe", "--host", "api.example.com", "--by", "ann", "--json", *here]) == 0
    )
    assert json.loads(capsys.readouterr().out)["name"] == "stripe"
    assert main(["secrets", "list", *here]) == 0
    assert main(["secrets", "list", "--json", *here]) == 0
    printed = capsys.readouterr()
    (listed,) = json.loads(printed.out[printed.out.index("[") :])
    assert (listed["name"], listed["version"], listed["hosts"]) == ("stripe", 1, ["api.example.com"])
    assert (listed["created_by"], listed["key"], listed["use"]) == ("ann", "a", "bearer")
    assert "sk_live_canary" not in printed.out + printed.err

    monkeypatch.setenv("STEPWELL_SECRETS_KEY", f"b:{OTHER},a:{KEY}")
    assert main(["secrets", "rotate", "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out) == {"rotated": 1}
    assert main(["secrets", "delete", "stripe", "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "stripe", "deleted": True}
    assert main(["secrets", "delete", "stripe", *here]) == 3
    assert "does not exist" in capsys.readouterr().err


def test_a_missing_key_and_a_short_value_say_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    asyncio.run(created(here[1]))
    type_in(monkeypatch, "sk_live_canary")
    assert main(["secrets", "set", "stripe", *here]) == 2
    assert "openssl rand -base64 32" in capsys.readouterr().err

    monkeypatch.setenv("STEPWELL_SECRETS_KEY", f"a:{KEY}")
    type_in(monkeypatch, "short")
    assert main(["secrets", "set", "stripe", *here]) == 2
    printed = capsys.readouterr().err
    assert "at least 8 characters" in printed
    assert "short'" not in printed
