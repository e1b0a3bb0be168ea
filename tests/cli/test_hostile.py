"""Arguments that nobody should give: each is refused in words, and nothing is written."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stepwell import Context, Engine, workflow
from stepwell.cli import main
from tests.cli.program import run
from tests.engines import suspended

DEEP = "[" * 100_000 + "]" * 100_000
HUGE = json.dumps("x" * 3_000_000)
STRANGE = [
    "",
    " ",
    "\x1b[2J",
    "a\nb",
    "a\tb",
    "\u202e",
    "ü" * 5000,
    "-",
    "--",
    "@",
    "@nobody",
    "%s%n",
    "../../etc",
]


@workflow
async def asking(ctx: Context, n: int) -> int:
    return n + await ctx.signal("more", int)


@pytest.fixture
def database(tmp_path: Path) -> str:
    async def prepare() -> None:
        async with Engine(tmp_path / "a.db", workflows=[asking]) as engine:
            await suspended(await engine.start(asking, 1))

    asyncio.run(prepare())
    return str(tmp_path / "a.db")


def refused(words: list[str], capsys: pytest.CaptureFixture[str], codes: tuple[int, ...] = (2, 3, 4)) -> str:
    assert main(words) in codes, words[:3]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    assert "hint" in printed.err, printed.err[:300]
    assert "\x1b" not in printed.err
    assert "\u202e" not in printed.err
    assert len(printed.err) < 3000
    return printed.err


@pytest.mark.req("C2", "X9")
@pytest.mark.parametrize(
    "words",
    [
        ["runs", "start", "asking", "--input", "{"],
        ["runs", "start", "asking", "--input", ""],
        ["runs", "start", "asking", "--input", "NaN"],
        ["runs", "start", "asking", "--input", DEEP],
        ["runs", "start", "asking", "--input", HUGE],
        ["runs", "start", "asking", "--input", '"text"'],
        ["runs", "start", "asking", "--input", '"\\ud800"'],
        ["runs", "start", "asking", "--input", "@missing.json"],
        ["runs", "start", "asking", "--input", "@/"],
        ["runs", "start", "asking", "--input", "@a\x00b"],
        ["runs", "start", "asking", "--field", "novalue"],
        ["runs", "start", "asking", "--input", "1", "--key", "k" * 100_000],
        ["runs", "start", "asking", "--input", "1", "--delay", "soon"],
        ["runs", "start", "asking", "--input", "1", "--priority", "9" * 400],
        ["runs", "start", "aksing", "--input", "1"],
        ["runs", "signal", "@last", "more", "--payload", "{"],
        ["runs", "signal", "@last", "m" * 100_000],
        ["runs", "decide", "@last", "approved"],
        ["runs", "decide", "@last", "yes"],
        ["runs", "trigger", "@last", "go"],
        ["runs", "fork", "@last", "--at", "0"],
        ["runs", "fork", "@last", "--at", "99999999999999999999"],
        ["runs", "state", "@last", "--at", "1000"],
        ["runs", "events", "@last", "--after", "-1"],
        ["runs", "list", "--since", "yesterday"],
        ["runs", "list", "--since", "-1h"],
        ["runs", "list", "--status", "faild"],
        ["runs", "cancel"],
        ["runs", "cancel", "@last", "--status", "failed"],
        ["runs", "delete", "--status", "suspended"],
        ["runs", "delete", "@last"],
        ["runs", "import", "missing.json"],
        ["runs", "import", "/"],
        ["runs", "show", "@failed"],
        ["runs", "show", "@nobody"],
        ["runs", "show", "0"],
        ["runs", "documents", "@last", "nothing"],
        ["runs", "export", "@last", "--output", "/nowhere/x.json"],
        ["workflows", "draw", "asking"],
        ["workflows", "draw", "asking", "--format", "png"],
        ["workflows", "save", "missing.json"],
        ["workflows", "diff", "nothing"],
        ["workflows", "disable", "nothing"],
        ["keys", "create", ""],
        ["keys", "create", "x", "--scope", "root"],
        ["keys", "create", "x", "--expires", "never"],
        ["keys", "revoke", "nothing"],
        ["limits", "set", "workflow", "asking", "-1"],
        ["limits", "set", "nothing", "asking", "1"],
    ],
    ids=lambda words: " ".join(words)[:50].replace("\x00", "0"),
)
def test_wrong_arguments_are_refused_in_words(
    words: list[str], database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    refused([*words, "--database", database], capsys)

    assert main(["runs", "list", "--json", "--database", database]) == 0
    [only] = json.loads(capsys.readouterr().out)
    assert only["status"] == "suspended"


@pytest.mark.req("C2", "X9")
@pytest.mark.parametrize("text", STRANGE, ids=ascii)
def test_strange_names_find_nothing(text: str, database: str, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database", database]

    for verb in ("show", "events", "cancel", "retry", "why", "delete"):
        refused(["runs", verb, *here, "--", text], capsys)
    refused(["runs", "start", *here, "--", text], capsys)
    refused(["workflows", "show", *here, "--", text], capsys)
    refused(["keys", "revoke", *here, "--", text], capsys)


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("missing.db", 2),
        (".", 2),
        ("text.txt", 2),
        ("ftp://host/x", 2),
        ("postgresql:", 2),
        ("postgresql://nobody@127.0.0.1:1/none", 6),
        ("http://127.0.0.1:1", 6),
        ("https://", 2),
        ("a\x00b", 2),
    ],
    ids=ascii,
)
@pytest.mark.req("C2", "X9")
def test_a_database_that_cannot_be_used_is_named(
    place: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("this is not a database, however long it may be " * 100)

    refused(["runs", "list", "--database", place], capsys, (code,))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt"]


@pytest.mark.slow
def test_bytes_that_are_not_text_are_no_bug(tmp_path: Path) -> None:
    done = run("runs", "show", "\udcff\udcfe", "--database", "\udcff.db", folder=tmp_path)

    assert done.returncode == 2
    assert "there is no database" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bug_leaves_a_report(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh\x1b[2J")

    monkeypatch.setattr("stepwell.cli.session.CliSession.must_exist", broken)

    assert main(["runs", "list", "--database", database]) == 70
    said = capsys.readouterr().err
    assert "\x1b" not in said
    report = Path(said.split("this file: ")[1].strip())
    assert "ZeroDivisionError" in report.read_text()
    report.unlink()


@pytest.mark.req("X10")
@pytest.mark.parametrize(
    "text", ["!!python/object/apply:os.system ['touch owned']", "a: &a [x, x]\nnodes: [*a, *a]", "[" * 3000]
)
def test_yaml_that_is_more_than_data_is_refused(
    text: str,
    tmp_path: Path,
    database: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """BI-G30."""
    monkeypatch.chdir(tmp_path)
    Path("graph.yaml").write_text(text)

    for verb in ("validate", "save"):
        refused(["workflows", verb, "graph.yaml", "--database", database], capsys)
    assert not Path("owned").exists()
