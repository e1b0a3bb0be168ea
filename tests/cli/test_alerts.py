"""`stepwell alerts`: set, listed and deleted; a workflow that nobody knows is pointed out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stepwell.cli import main
from tests.cli.test_schedules import known


@pytest.mark.req("C1")
def test_an_alert_of_an_unknown_workflow_is_set_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    asyncio.run(known(here[1]))

    assert main(["alerts", "set", "late", "overdue", "--workflow", "report", "--channel", "ops", *here]) == 0
    assert capsys.readouterr().err.splitlines() == ["late is set"]
    assert main(["alerts", "set", "odd", "overdue", "--workflow", "reprt", "--channel", "ops", *here]) == 0
    first, note = capsys.readouterr().err.splitlines()
    assert first == "odd is set"
    assert note.startswith("it finds nothing now: no workflow 'reprt' is known")
    assert "'report'" in note
    assert main(["alerts", "list", *here]) == 0
    assert "late" in (listed := capsys.readouterr().out)
    assert "odd" in listed
    assert main(["alerts", "delete", "odd", *here]) == 0
    assert capsys.readouterr().err.strip() == "odd is deleted"
