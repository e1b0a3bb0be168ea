"""`stepwell records ...`: collections and records, their export and import."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.cli import main

pytestmark = pytest.mark.req("C1", "N24")


@pytest.fixture
def here(tmp_path: Path) -> list[str]:
    return ["--database", str(tmp_path / "a.db")]


def define(here: list[str]) -> None:
    schema = json.dumps({"type": "object", "required": ["email"]})
    assert (
        main(["records", "define", "people", "--schema", schema, "--key", "email", "--find", "city", *here])
        == 0
    )


def test_records_are_written_found_and_changed_in_their_version(
    here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    define(here)
    assert (
        main(
            [
                "records",
                "create",
                "people",
                "--data",
                '{"email": "ann@x", "city": "Rome"}',
                "--id",
                "ann",
                *here,
            ]
        )
        == 0
    )
    assert main(["records", "create", "people", "--set", "email=bob@x", "--set", "age=7", *here]) == 0
    assert main(["records", "update", "people", "ann", "--set", "city=Bonn", "--version", "1", *here]) == 0
    capsys.readouterr()

    assert main(["records", "find", "people", "--where", "city=Bonn", "--json", *here]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert main(["records", "get", "people", "--key", "bob@x", *here]) == 0
    bob = json.loads(capsys.readouterr().out)
    assert main(["records", "update", "people", "ann", "--set", "city=Oslo", "--version", "1", *here]) != 0
    refused = capsys.readouterr().err

    assert (found["id"], found["version"], found["data"]["city"]) == ("ann", 2, "Bonn")
    assert bob["data"] == {"email": "bob@x", "age": 7}
    assert "RECORD_CHANGED" in refused
    assert "version 2, not 1" in refused


def test_an_exported_collection_is_restored_elsewhere(
    here: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    define(here)
    for number in range(3):
        main(["records", "create", "people", "--set", f"email={number}@x", "--set", "city=Rome", *here])
    file, there = str(tmp_path / "people.jsonl"), ["--database", str(tmp_path / "b.db")]
    assert main(["records", "export", "people", "--to", file, *here]) == 0
    capsys.readouterr()

    assert main(["records", "import", file, "--json", *there]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(["records", "import", file, "--json", *there]) == 0
    again = json.loads(capsys.readouterr().out)
    assert main(["records", "find", "people", "--json", *here]) == 0
    before = json.loads(capsys.readouterr().out)
    assert main(["records", "find", "people", "--where", "city=Rome", "--json", *there]) == 0
    after = json.loads(capsys.readouterr().out)

    assert (first["written"], again["written"]) == (3, 0)
    assert after == before
    assert main(["records", "create", "people", "--set", "email=1@x", *there]) != 0, "the key came along"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["create", "people"], "there are no fields to write"),
        (["create", "people", "--data", "[1]"], "there are no fields to write"),
        (["create", "people", "--data", "{"], "--data is not JSON"),
        (["create", "people", "--set", "city"], "not NAME=VALUE"),
        (["create", "people", "--set", "city=Rome"], "RECORD_INVALID"),
        (["create", "peple", "--set", "email=a"], "COLLECTION_NOT_FOUND"),
        (["find", "people", "--where", "name=x"], "its indexed fields are: email, city"),
        (["get", "people", "nobody"], "RECORD_NOT_FOUND"),
        (["get", "people"], "give either the id of the record or its key"),
        (["define", "two words"], "cannot be called"),
        (["define", "people", "--schema", '{"type": 7}'], "the schema cannot be used"),
        (["drop", "people", "--with-records"], "Nobody is here to answer"),
        (["import", "no-such-file"], "cannot be read"),
    ],
)
def test_a_mistake_says_what_to_do(
    here: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    define(here)
    capsys.readouterr()

    assert main(["records", *arguments, *here]) != 0
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        "[]",
        '{"format": "stepwell-run"}',
        '{"format": "stepwell-records", "name": "people"}',
        '{"format": "stepwell-records", "name": "p", "schema": true, "key": "", "find": []}\n{"id": 1}',
        '{"format": "stepwell-records", "name": "p", "schema": true, "key": "", "find": []}\nno JSON',
    ],
)
def test_a_file_that_is_no_export_is_refused(
    here: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(text)
    define(here)
    capsys.readouterr()

    assert main(["records", "import", str(file), *here]) != 0
    assert "is not an exported collection" in capsys.readouterr().err
