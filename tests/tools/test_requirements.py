"""The tool that says which requirement is held by which test."""

from __future__ import annotations

from pathlib import Path

from tools.milestone import IDS
from tools.requirements import report, scan, without_test

SAMPLE = """
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.req("K1")]

@pytest.mark.req("K2", "K3")
def test_one(): ...

@pytest.mark.req("K4")
class TestGroup:
    async def test_two(self): ...

@pytest.mark.parametrize("case", [pytest.param(1, marks=pytest.mark.req("K5"))])
def test_three(case): ...

@pytest.mark.req("K6")
def not_collected(): ...
"""


def sample(folder: Path) -> Path:
    tests = folder / "tests"
    tests.mkdir()
    (tests / "test_sample.py").write_text(SAMPLE, encoding="utf-8")
    return tests


def test_marks_of_file_class_function_and_parameter_count(tmp_path: Path) -> None:
    found = scan(sample(tmp_path))

    assert found["K1"] == [
        "tests/test_sample.py::test_one",
        "tests/test_sample.py::TestGroup::test_two",
        "tests/test_sample.py::test_three",
    ]
    assert found["K2"] == found["K3"] == ["tests/test_sample.py::test_one"]
    assert found["K4"] == ["tests/test_sample.py::TestGroup::test_two"]
    assert found["K5"] == ["tests/test_sample.py::test_three"]
    assert "K6" not in found


def test_ids_without_a_test_are_named_last() -> None:
    found = {"K1": ["tests/a.py::test_a"], "Z9": ["tests/a.py::test_a"]}

    lines = list(report(found, ["K1", "K2"]))

    assert without_test(found, ["K1", "K2"]) == ["K2"]
    assert lines[-1] == "without a test: K2"
    assert "beyond this milestone: Z9" in lines


def test_milestone_names_each_id_once() -> None:
    assert len(IDS) == len(set(IDS))
    assert {"K1", "K19", "K28", "K31", "K34", "F12", "M9", "G21", "N23", "R4", "W11"} <= set(IDS)
    assert not {"K30", "R5"} & set(IDS)
