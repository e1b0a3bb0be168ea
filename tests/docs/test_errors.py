"""The page of error codes names every code, and every error says what to do next."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from stepwell import errors

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
SOURCES = "".join(path.read_text() for path in Path(errors.__file__).parents[1].rglob("*.py"))
CLASSES = [
    found
    for found in vars(errors).values()
    if inspect.isclass(found) and issubclass(found, errors.StepwellError)
]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_code_has_its_line(error: type[errors.StepwellError]) -> None:
    assert f"`{error.code}`" in PAGE
    assert error.__doc__


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_its_line_repeats_the_message_and_the_hint(error: type[errors.StepwellError]) -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| `{error.code}` |"))

    assert f"| {inspect.getdoc(error)} |" in line
    assert vars(error).get("hint", "") in line


def test_codes_that_the_engine_records_have_their_line() -> None:
    recorded = set(re.findall(r"""code="([A-Z_]+)\"""", SOURCES))

    assert recorded
    assert sorted(code for code in recorded if f"`{code}`" not in PAGE) == []


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_its_full_name_does_not_tell_its_file(error: type[errors.StepwellError]) -> None:
    assert f"{error.__module__}.{error.__qualname__}" == f"stepwell.errors.{error.__name__}"


def test_the_text_of_an_error_says_what_where_and_what_next() -> None:
    text = str(errors.KeyConflict("key 'a' belongs to run 1", key="a", run="1"))

    assert text.splitlines()[0] == "key 'a' belongs to run 1 [KEY_CONFLICT]"
    assert "hint" in text
    assert "run      1" in text
