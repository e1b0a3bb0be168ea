"""`stepwell schedules ...`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stepwell import Context, Engine, workflow
from stepwell.cli import main


@workflow
async def report(ctx: Context, day: str = "none") -> str:
    return day


async def known(database: str) -> None:
    async with Engine(database, workflows=[report]):
        pass


@pytest.mark.req("C1", "T1")
def test_a_schedule_is_created_shown_changed_and_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    asyncio.run(known(here[1]))

    assert main(["schedules", "list", *here]) == 0
    assert "stepwell schedules create" in capsys.readouterr().err
    create = ["schedules", "create", "nightly", "report", "--cron", "30 2 * * 1-5", "--tz", "Europe/Berlin"]
    assert main([*create, "--input", '"{{trigger.date}}"', "--tag", "team=a", "--by", "ann", *here]) == 0
    assert "nightly is created: At 02:30 on Monday through Friday, Europe/Berlin" in capsys.readouterr().err
    assert main(["schedules", "list", *here]) == 0
    heads, row = capsys.readouterr().out.splitlines()
    assert heads.split()[:4] == ["NAME", "WORKFLOW", "WHEN", "NEXT"]
    assert row.split()[:2] == ["nightly", "report"]

    assert main(["schedules", "update", "nightly", "--every", "90m", "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out)["words"] == "Every 90 minutes"
    assert main(["schedules", "show", "nightly", "--json", *here]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["tags"], shown["created_by"], len(shown["next_times"])) == ({"team": "a"}, "ann", 5)

    assert main(["schedules", "pause", "nightly", "--reason", "holidays", *here]) == 0
    assert main(["schedules", "pause", "nightly", *here]) == 0
    assert "was paused before" in capsys.readouterr().err
    assert main(["schedules", "resume", "nightly", "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "nightly", "changed": True}

    assert main(["schedules", "trigger", "nightly", *here]) == 0
    assert len(capsys.readouterr().out.strip()) == 32
    times = ["--since", "2026-01-05", "--until", "2026-01-05T04:00:00+01:00"]
    assert main(["schedules", "backfill", "nightly", *times, "--json", *here]) == 0
    assert json.loads(capsys.readouterr().out) == {"slots": 2, "started": 2}
    assert main(["schedules", "delete", "nightly", *here]) == 0
    assert main(["schedules", "delete", "nightly", *here]) == 3


@pytest.mark.req("C1", "T1")
def test_a_preview_shows_the_clock_on_the_wall(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where no database is

    assert main(["schedules", "preview", "--cron", "0 9 * * mon", "--tz", "Asia/Tokyo", "--count", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.err.strip() == "At 09:00 on Monday, Asia/Tokyo"
    assert [line[11:] for line in printed.out.splitlines()] == ["09:00:00 JST, Monday"] * 2


@pytest.mark.req("C1", "T1")
def test_wrong_schedules_say_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database", str(tmp_path / "a.db")]
    asyncio.run(known(here[1]))

    assert main(["schedules", "create", "s", "report", "--cron", "0 25 * * *", *here]) == 2
    assert "'25' is not an hour (0 to 23)" in capsys.readouterr().err
    assert main(["schedules", "create", "s", "reprt", "--every", "1h", *here]) == 3
    assert "did you mean 'report'?" in capsys.readouterr().err
    assert main(["schedules", "pause", "s", *here]) == 3
    assert main(["schedules", "update", "s", *here]) == 2
    assert "names a setting to change" in capsys.readouterr().err
    assert main(["schedules", "backfill", "s", "--since", "noon", "--until", "2026-01-01", *here]) == 2
    assert "2026-01-31T12:00:00+01:00" in capsys.readouterr().err
