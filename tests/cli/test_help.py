"""Help: every command says what it does, shows an example, and takes --json."""

from __future__ import annotations

import re
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from stepwell import Context, Engine, workflow
from stepwell.cli import main
from stepwell.cli.app import PLACES, root, walk
from tests.cli.program import Terminal, run

COMMANDS = dict(walk())


@pytest.mark.req("C1", "C2")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*name.split(), "--help"]) == 0

    page = capsys.readouterr().out
    assert page.splitlines()[0].endswith((".", ":", ",")) or len(page.splitlines()[0]) > 20
    assert "\nExamples\n" in page
    assert "--json" in page
    assert f"stepwell {name}" in page.split("\nExamples\n")[1]
    assert "Traceback" not in page


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_use_options_that_exist(name: str) -> None:
    command = COMMANDS[name]
    known = {option for parameter in command.params for option in parameter.opts}

    for example in command.examples:
        words = shlex.split(example.split("|")[0].split(">")[0].split("<")[0])
        assert words[: len(name.split()) + 1] == ["stepwell", *name.split()]
        assert {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= known, example


def test_summaries_are_those_of_the_commands() -> None:
    for name, place in PLACES.items():
        summary = place.commands.help if place.group else place.commands.entries[name].summary
        assert place.summary.rstrip(".") == summary.rstrip(".") or place.summary.rstrip(".") in summary, name


def test_a_program_without_words_shows_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    page = capsys.readouterr().out
    assert all(f"\n  {name} " in page for name in PLACES)
    assert main(["-h"]) == 0
    assert capsys.readouterr().out == page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnus"], "'runs'"),
        (["runs", "lst"], "'list'"),
        (["runs", "list", "--statu", "failed"], "--status"),
        (["runs", "list", "--limit", "many"], "many"),
        (["runs", "list", "--limit", "-1"], "-1"),
        (["runs", "show"], "RUN"),
        (["runs", "signal", "x"], "NAME"),
        (["runs", "fork", "x"], "--at"),
    ],
)
def test_mistaken_words_are_answered_with_the_right_ones(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert said.lower() in printed.err.lower()
    assert re.search(r"hint +see `stepwell.* --help`", printed.err)
    assert printed.out == ""


def test_shared_options_may_stand_before_the_command() -> None:
    program = root()

    assert program.hoisted(["--json", "runs", "-d", "a.db", "list", "-n", "3"]) == [
        *("runs", "list", "--json", "-d", "a.db", "-n", "3")
    ]
    assert program.hoisted(["run", "f.py:x", "--database=b"]) == ["run", "f.py:x", "--database=b"]
    assert program.hoisted(["check", "--json", "--", "--database"]) == ["check", "--json", "--", "--database"]


@workflow
async def doubling(ctx: Context, n: int) -> int:
    return 2 * n


def seconds(command: list[str], folder: Path) -> float:
    """Seconds until the first output in a terminal."""
    terminal = Terminal(folder=folder, command=command, width=100)
    terminal.end()
    assert terminal.first is not None
    return terminal.first


@pytest.mark.req("C2")
@pytest.mark.slow
@pytest.mark.alone
async def test_the_first_output_comes_within_three_times_the_import_of_typer_and_rich(tmp_path: Path) -> None:
    async with Engine(tmp_path / "stepwell.db", workflows=[doubling]) as engine:
        await engine.run(doubling, 21)
    typer = [sys.executable, "-c", "import typer, rich; print('x')"]
    program = [sys.executable, "-m", "stepwell"]
    times: dict[str, list[float]] = {"import": [], "help": [], "list": []}

    for _ in range(9):  # in turn, so that a busy moment is shared
        times["import"].append(seconds(typer, tmp_path))
        times["help"].append(seconds([*program, "--help"], tmp_path))
        times["list"].append(seconds([*program, "runs", "list"], tmp_path))

    middle = {name: statistics.median(values) for name, values in times.items()}
    assert middle["help"] <= 3 * middle["import"], middle
    assert middle["list"] <= 3 * middle["import"], middle


@pytest.mark.req("C2")
def test_help_loads_neither_the_engine_nor_the_server() -> None:
    script = (
        "import sys; from stepwell.cli import main; main(['runs', '--help']); print(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {"fastapi", "pydantic", "apsw", "rich.console", "stepwell.client", "stepwell.app"} & loaded


def test_the_version_is_printed(tmp_path: Path) -> None:
    done = run("--version", folder=tmp_path)

    assert done.stdout.startswith("stepwell ")
