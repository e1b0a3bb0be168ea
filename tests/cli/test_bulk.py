"""Verbs for several runs: by id or by filter, with a confirmation and progress."""

from __future__ import annotations

import asyncio
import json
from itertools import takewhile
from pathlib import Path

import pytest

from stepwell import Context, Engine, RunFailed, workflow
from stepwell.cli import main
from tests.cli.program import Terminal, run
from tests.engines import suspended

pytestmark = [pytest.mark.req("C1", "C2")]


@workflow
async def asking(ctx: Context, n: int) -> int:
    return n + await ctx.signal("more", int)


@workflow
async def failing(ctx: Context, n: int) -> None:
    raise ValueError(f"no {n}")


@pytest.fixture
def database(tmp_path: Path) -> str:
    async def prepare() -> None:
        async with Engine(tmp_path / "stepwell.db", workflows=[asking, failing]) as engine:
            for handle in await engine.start_many(failing, range(20)):
                with pytest.raises(RunFailed):
                    await handle.result(30)
            await suspended(await engine.start(asking, 1))

    asyncio.run(prepare())
    return str(tmp_path / "stepwell.db")


def statuses(database: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["runs", "list", "--json", "--database", database]) == 0
    return [row["status"] for row in json.loads(capsys.readouterr().out)]


def shared_beginning(one: str, other: str) -> str:
    return "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True)))


def test_a_filter_needs_a_confirmation(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["runs", "delete", "--workflow", "failing", "--database", database]

    assert main(words) == 2
    assert "add --yes" in capsys.readouterr().err
    assert len(statuses(database, capsys)) == 21
    assert main([*words, "--yes"]) == 0
    printed = capsys.readouterr()
    assert "delete: 10 of 20" in printed.err
    assert "deleted: 20, refused: 0" in printed.err
    assert statuses(database, capsys) == ["suspended"]
    assert main([*words, "--yes"]) == 0
    assert "no matching runs" in capsys.readouterr().err


def test_runs_are_listed_by_tag_key_and_words_of_their_error(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--json", "--database", database]

    def listed(*words: str) -> int:
        assert main(["runs", "list", *words, *here]) == 0
        return len(json.loads(capsys.readouterr().out))

    assert main(["runs", "start", "asking", "--input", "1", "--tag", "a=b", "--key", "k", *here]) == 0
    capsys.readouterr()
    assert listed("--tag", "a=b") == 1
    assert listed("--tag", "a=c") == 0
    assert listed("--key", "k") == 1
    assert listed("--error", "no 7") == 1
    assert listed("--since", "1h", "--status", "failed", "--limit", "100") == 20
    assert listed("--trigger", "api", "--limit", "100") == 22
    assert listed("--parent", "@last") == 0
    assert main(["runs", "delete", "--error", "no 7", "--yes", *here]) == 0
    capsys.readouterr()
    assert listed("--limit", "100") == 21


def test_one_refusal_does_not_stop_the_others(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["runs", "delete", "--since", "1h", "--yes", "--json", "--database", database]

    assert main(words) == 4

    results = json.loads(capsys.readouterr().out)
    assert [result["code"] for result in results if not result["done"]] == ["NOT_REMOVABLE"]
    assert sum(result["done"] for result in results) == 20


def test_runs_are_held_released_and_cancelled(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database", database]

    assert main(["runs", "hold", "--workflow", "asking", "--yes", "--reason", "audit", *here]) == 0
    assert "is held" in capsys.readouterr().err
    assert main(["runs", "list", "--workflow", "asking", *here]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("held")
    assert main(["runs", "release", "@last", *here]) == 0
    assert main(["runs", "cancel", "--workflow", "asking", "--yes", *here]) == 0
    assert "is being cancelled" in capsys.readouterr().err
    assert main(["runs", "force", "@last", "--yes", *here]) == 0
    assert main(["runs", "list", "--workflow", "asking", *here]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("cancelled")
    assert main(["watch", "@last", *here]) == 7
    assert main(["runs", "force", "@last", "--yes", *here]) == 0
    assert "had already ended" in capsys.readouterr().err


def test_ids_may_be_given_by_their_beginning(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database", database]
    assert main(["runs", "list", "--json", "--limit", "3", *here]) == 0
    ids = [row["id"] for row in json.loads(capsys.readouterr().out)]

    unique = ids[0][: len(shared_beginning(ids[0], ids[1])) + 1]
    assert main(["runs", "show", unique, "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == ids[0]
    assert main(["runs", "show", shared_beginning(ids[1], ids[2]), *here]) == 2
    assert "several runs begin with" in capsys.readouterr().err
    assert main(["runs", "show", ids[0][:4], *here]) == 2
    assert "several runs begin with" in capsys.readouterr().err
    assert main(["runs", "show", "0000000000", *here]) == 3
    assert main(["runs", "retry", ids[1], ids[2], *here]) == 0
    assert "retried: 2, refused: 0" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "left"), [("y\n", 1), ("n\n", 21), ("\n", 21)])
def test_a_person_is_asked(database: str, answer: str, left: int) -> None:
    folder = Path(database).parent
    terminal = Terminal("runs", "delete", "--status", "failed", folder=folder, width=100)
    terminal.read(until="[y/N]")
    assert "Delete 20 runs of stepwell.db?" in terminal.text
    terminal.write(answer)

    assert terminal.end() == 0

    assert ("20/20" in terminal.text) == (left == 1)
    assert len(json.loads(run("runs", "list", "--json", folder=folder).stdout)) == left
