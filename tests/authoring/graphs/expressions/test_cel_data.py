"""Where the conformance data of CEL comes from, and what is said without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.authoring.graphs.expressions import cel_data


def test_variable_names_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPWELL_CEL_SPEC", str(tmp_path))

    assert cel_data.folder() == tmp_path


def test_without_the_variable_no_folder_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPWELL_CEL_SPEC", raising=False)

    assert cel_data.folder() is None
    assert "STEPWELL_CEL_SPEC" in cel_data.ABSENT


def test_folder_without_data_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"STEPWELL_CEL_SPEC names .* no \*\.textproto files"):
        cel_data.cases(tmp_path)
