"""Every case of the graph semantics, through the real engine, on every store, in virtual time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepwell.testing.graphs.cases import Case, read_cases, verdict
from stepwell.testing.graphs.runner import run_case
from tests.store.trio import SharedDatabase

CASES = read_cases(Path(__file__).parent / "data" / "cases.json")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return ""
    if request.param == "sqlite":
        return str(tmp_path / "cases.db")
    shared: SharedDatabase = request.getfixturevalue("shared_postgres")
    shared.empty()
    return shared.url


@pytest.mark.req("G1", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G10", "G11")
@pytest.mark.req("N1", "N5", "N8", "N9", "N11", "N12", "N13", "N14", "N15", "N16")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case, database: str) -> None:
    found = run_case(case, database)

    assert verdict(case, found) == [], json.dumps(found)


@pytest.mark.req("G3")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case_replayed_after_every_commit(case: Case) -> None:
    """Forgetting everything and deciding again from the log changes nothing."""
    found = run_case(case, replay_always=True)

    assert verdict(case, found) == [], json.dumps(found)


@pytest.mark.req("G3")
def test_the_command_prints_a_line_for_each_case(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    some = [case for case in CASES if case.id in ("A01", "F01", "V01")]
    path.write_text(
        json.dumps(
            {"cases": [{"id": c.id, "graph": c.graph, "script": c.script, "events": c.events} for c in some]}
        )
    )

    done = subprocess.run(
        [sys.executable, "-m", "stepwell.testing.graphs", str(path)],
        capture_output=True,
        text=True,
        check=True,
    )

    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["id"] for line in lines] == ["A01", "F01", "V01"]
    assert lines[0]["output"] == {"a": 1, "b": 2}
    assert lines[1]["history"] == [["running", 0], ["suspended", 20], ["completed", 500]]
    assert lines[2] == {"id": "V01", "invalid": ["CYCLE"]}


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    told = [sys.executable, "-m", "stepwell.testing.graphs", *arguments]
    return subprocess.run(told, capture_output=True, text=True, check=False)


@pytest.mark.req("G3")
def test_the_command_tells_what_it_cannot_run_and_goes_on(tmp_path: Path) -> None:
    path, empty = tmp_path / "odd.json", tmp_path / "empty.json"
    good = next(case for case in CASES if case.id == "A01")
    odd: list[Any] = [5, {"id": "no graph"}, {"id": "a/b #~", "graph": good.graph, "script": good.script}]
    odd += [{"id": "slow", "graph": good.graph, "script": {"A": [{"dur": "5"}]}}]
    path.write_text(json.dumps(odd))
    empty.write_text("[]")

    done, none, nothing = (
        command(str(path), "--store", "memory"),
        command(str(tmp_path / "none")),
        command(str(empty)),
    )

    broken, invalid, fine, slow = (json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 1
    assert "a case must be an object" in broken["broken"]
    assert invalid == {"id": "no graph", "invalid": ["START_COUNT"]}
    assert (fine["id"], fine["output"]) == ("a/b #~", {"a": 1, "b": 2})
    assert "script.A: dur is '5'" in slow["broken"]
    assert "case 1: cannot run" in done.stderr
    assert none.returncode == 2
    assert "cannot be read" in none.stderr
    assert nothing.returncode == 2
    assert "no list of cases" in nothing.stderr


@pytest.mark.req("G3")
def test_the_command_tells_what_is_not_as_expected(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    good = next(case for case in CASES if case.id == "A01")
    expect = {"status": "failed", "steps": {"A": "skipped", "B": "completed"}, "output": {"a": True, "b": 2}}
    shared = {"graph": good.graph, "script": good.script}
    refused = {"graph": {"nodes": []}, "expect": {"status": "completed"}}
    path.write_text(
        json.dumps([{"id": "W", "expect": expect, **shared}, {"id": "R", **refused}, {"id": "N", **shared}])
    )

    done = command(str(path))

    assert done.returncode == 1
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["W", "R", "N"]
    assert done.stderr.splitlines() == [
        "W: status is 'completed', not 'failed'",
        "W: steps.A is 'completed', not 'skipped'",
        "W: output is {'a': 1, 'b': 2}, not {'a': True, 'b': 2}",
        "R: the graph was refused: START_COUNT",
        "R: status is None, not 'completed'",
        "2 of 3 cases differ from what they expect",
    ]
