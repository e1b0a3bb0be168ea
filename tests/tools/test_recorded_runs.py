"""The recorded runs that Studio's fold is tested with: the engine must say the same of them every time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tools import recorded_runs


@pytest.fixture(scope="module")
def runs() -> dict[str, dict[str, Any]]:
    return asyncio.run(recorded_runs.record())


def at_end(run: dict[str, Any]) -> dict[str, Any]:
    moment: dict[str, Any] = run["moments"][-1]
    return moment


@pytest.mark.req("S2")
def test_each_moment_follows_one_event_and_only_the_last_is_an_end(runs: dict[str, dict[str, Any]]) -> None:
    for name, run in runs.items():
        seqs = [event["seq"] for event in run["events"]]
        assert seqs == list(range(1, len(seqs) + 1)), name
        assert [moment["seq"] for moment in run["moments"]] == seqs, name
        assert [bool(moment["ended"]) for moment in run["moments"]] == [False] * (len(seqs) - 1) + [True], (
            name
        )


def test_recorded_runs_end_as_their_workflows_say(runs: dict[str, dict[str, Any]]) -> None:
    ended = {name: at_end(run)["ended"] for name, run in runs.items()}
    expected = dict.fromkeys(("function", "machine", "graph", "loop"), "completed") | {"failed": "failed"}
    assert ended == expected
    assert at_end(runs["machine"])["place"] == "paid"
    assert "failed" in at_end(runs["failed"])["steps"].values()
    assert {moment["place"] for moment in runs["machine"]["moments"]} >= {"review", "paid"}


def test_recorded_runs_wait_in_the_middle_and_not_at_the_end(runs: dict[str, dict[str, Any]]) -> None:
    for name in ("function", "machine", "graph"):
        assert any(moment["waits"] for moment in runs[name]["moments"]), name
        assert at_end(runs[name])["waits"] == [], name


def test_what_attempts_used_is_the_sum_of_their_events(runs: dict[str, dict[str, Any]]) -> None:
    reported = [event["data"] for event in runs["loop"]["events"] if event["kind"] == "usage_reported"]
    assert len(reported) == 4  # three mails, one of them twice
    assert sum(each["input_tokens"] for each in reported) == runs["loop"]["used"]["input"]
    assert sum(each["cost"] for each in reported) == pytest.approx(runs["loop"]["used"]["cost"])
