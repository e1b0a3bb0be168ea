"""`stepwell keys create | list | revoke`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stepwell import Engine
from stepwell.cli import main
from stepwell.domain.access import parse
from stepwell.store.payloads import Encryption


async def created(database: str) -> None:
    codec = Encryption({"a": b"a" * 32}, current="a")
    async with Engine(database, worker=False, codec=codec):
        pass


@pytest.mark.req("C1", "A5")
def test_keys_are_created_listed_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On an encrypted database too: keys need no codec."""
    here = ["--database", str(tmp_path / "a.db")]
    asyncio.run(created(here[1]))

    assert main(["keys", "list", *here]) == 0
    assert "stepwell keys create" in capsys.readouterr().err
    create = ["keys", "create", "ann", "--scope", "read", "--scope", "approve", "--role", "finance"]
    assert main([*create, "--person", "--expires", "90d", "--by", "root", *here]) == 0
    printed = capsys.readouterr()
    text = parse(printed.out.strip())
    assert text is not None
    assert "shown once" in printed.err

    assert main(["keys", "list", *here]) == 0
    heads, row = capsys.readouterr().out.splitlines()
    assert heads.split() == ["KEY", "NAME", "SCOPES", "ROLES", "CREATED", "USED", "STATE"]
    assert row.split()[:4] == [text.id, "ann", "read,approve", "finance"]
    assert row.endswith("valid")

    assert main(["keys", "create", "bob", "--json", "--workspace", "acme", *here]) == 0
    bob = json.loads(capsys.readouterr().out)
    assert (bob["workspace"], bob["scopes"], bob["expires_at"]) == ("acme", ["read"], None)
    assert parse(bob["secret"]) is not None

    assert main(["keys", "revoke", text.id[:20], "--json", *here]) == 0  # the beginning of its id
    assert json.loads(capsys.readouterr().out) == {"id": text.id, "revoked": True}
    assert main(["keys", "list", "--json", *here]) == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert only["revoked_at"]
    assert text.secret not in str(only)


def test_wrong_requests_say_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database", str(tmp_path / "a.db")]

    assert main(["keys", "list", *here]) == 2
    asyncio.run(created(here[1]))
    assert main(["keys", "create", "ann", "--scope", "reed", *here]) == 2
    assert "did you mean 'read'?" in capsys.readouterr().err
    for unknown in ("nothing", "abc", "0" * 32):
        assert main(["keys", "revoke", unknown, *here]) == 3
        assert "KEY_NOT_FOUND" in capsys.readouterr().err


def test_the_beginning_of_several_ids_names_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    asyncio.run(created(here[1]))
    for name in ("ann", "bob"):
        assert main(["keys", "create", name, *here]) == 0
    ann, bob = [parse(line) for line in capsys.readouterr().out.splitlines()]
    assert ann is not None
    assert bob is not None
    both = ann.id[: next(at for at in range(32) if ann.id[at] != bob.id[at])]

    assert main(["keys", "revoke", both, *here]) == 2
    assert "give more of the id" in capsys.readouterr().err
