"""Cases in JSON that follow from the rules and are in no list: in virtual time, with and without replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwell.testing.graphs.cases import Case, read_cases, verdict
from stepwell.testing.graphs.runner import run_case
from tests.authoring.graphs.test_cases import database

CASES = read_cases(Path(__file__).parent / "data" / "further.json")
# What differs between stores is how runs wait, are woken and end: those cases run on all of them.
WAITING = frozenset(
    {
        *("HB12", "HB20", "HB21", "HD15", "HD21", "HE20", "HF03", "HF08", "HF16", "HF17"),
        *("HG03", "HG08", "HG11", "HG26", "HG27", "HG28", "HG31", "HG44", "HH21", "HH24"),
        *("HM05", "HM11", "HM13", "HM23", "HM25"),
        *("HY01", "HY02", "HY03", "HY04", "HY05", "HY06", "HY07", "HY08", "HY09"),
    }
)

__all__ = ["database"]  # the fixture


@pytest.mark.req("K37", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G10", "G11", "G14")
@pytest.mark.req("N8", "N9", "N10", "N11", "N12", "N13", "N14", "N15", "N16", "N17", "N20", "N21", "X3")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("replay", [False, True], ids=["once", "replayed"])
def test_further_case(case: Case, replay: bool) -> None:
    found = run_case(case, replay_always=replay)

    assert verdict(case, found) == [], json.dumps(found)


@pytest.mark.req("G3", "G9", "K16")
@pytest.mark.parametrize("case", [c for c in CASES if c.id in WAITING], ids=lambda case: case.id)
def test_further_case_on_every_store(case: Case, database: str) -> None:
    found = run_case(case, database)

    assert verdict(case, found) == [], json.dumps(found)
