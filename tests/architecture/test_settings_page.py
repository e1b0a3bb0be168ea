"""docs/settings.md lists every setting with its default, and every variable of the environment."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from stepwell.errors import SettingsInvalid
from stepwell.settings import Settings
from tests.architecture.sources import PACKAGE, ROOT

ROW = re.compile(r"^\| `(\w+)` \| `(STEPWELL_\w+)` \| ([^|]+) \|", re.MULTILINE)
VARIABLE = re.compile(r"STEPWELL_[A-Z][A-Z_]+")
NOT_VARIABLES = {"STEPWELL_ERROR", "STEPWELL_COMPLETE"}  # the code of an error; set by shells only


def page() -> str:
    return (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def shown(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def test_every_setting_is_listed_with_its_variable_and_default() -> None:
    listed = {name: (variable, default.strip()) for name, variable, default in ROW.findall(page())}

    expected = {
        field.name: (f"STEPWELL_{field.name.upper()}", shown(field.default)) for field in fields(Settings)
    }

    assert listed == expected


def test_every_variable_of_the_environment_is_listed() -> None:
    used = {
        name for path in PACKAGE.rglob("*.py") for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    }

    assert used - NOT_VARIABLES - set(VARIABLE.findall(page())) == set()


@pytest.mark.parametrize("text", ["none", "None"])
def test_a_setting_that_may_be_none_is_switched_off_by_that_word(text: str) -> None:
    settings = Settings.from_env({"STEPWELL_STEP_TIMEOUT_SECONDS": text, "STEPWELL_SLOTS": "7"})

    assert settings.step_timeout_seconds is None
    assert settings.slots == 7
    with pytest.raises(SettingsInvalid, match="STEPWELL_SLOTS"):
        Settings.from_env({"STEPWELL_SLOTS": text})
