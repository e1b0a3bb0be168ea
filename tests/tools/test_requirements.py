"""The tool that says which requirement is held by which test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.requirements import PAGE, ROOT, held, read_statuses, report, scan, without_test

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
    assert "tested in part or ahead of its status: Z9" in lines


def test_the_page_says_which_ids_are_held() -> None:
    statuses = read_statuses(PAGE.read_text(encoding="utf-8"))

    promised = held(statuses)

    assert {"K1", "K19", "K28", "K31", "K34", "F12", "M9", "G21", "N23", "X3", "R4", "W11"} <= set(promised)
    assert (statuses["R5"], statuses["A8"]) == ("part", "planned")
    assert without_test(scan(ROOT / "tests"), promised) == []


@pytest.mark.parametrize(
    ("page", "words"),
    [("| K1 | done | x |", "K1 is 'done'"), ("| K1 | held | x |\n| K1 | part | y |", "K1 stands twice")],
)
def test_a_page_that_says_nonsense_is_refused(page: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_statuses(page)
