"""Schedules over HTTP: created, previewed, changed, paused, triggered, backfilled and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines import Engines, until
from tests.server.served import FLOWS, bearer, code, served

API = "/api/v1/schedules"
NIGHTLY = {
    "name": "nightly",
    "workflow": "doubling",
    "input": 7,
    "cron": "30 2 * * 1-5",
    "timezone": "Europe/Berlin",
}


@pytest.mark.req("T1", "A1")
async def test_a_schedule_lives_through_its_routes(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        made = await client.post(API, json={**NIGHTLY, "tags": {"team": "a"}})
        body = made.json()
        assert (made.status_code, made.headers["etag"]) == (201, '"1"')
        assert body["words"] == "At 02:30 on Monday through Friday, Europe/Berlin"
        assert (len(body["next_times"]), body["next_at"]) == (5, body["next_times"][0])
        assert (body["input"], body["tags"], body["overlap"], body["missed"]) == (
            7,
            {"team": "a"},
            "queue",
            "one",
        )

        run = (await client.post(f"{API}/nightly/trigger", json={})).json()
        assert (await client.ended(run["id"]))["output"] == 14
        filled = await client.post(
            f"{API}/nightly/backfill", json={"since": "2026-01-05T00:00:00Z", "until": "2026-01-12T00:00:00"}
        )
        assert filled.json() == {"slots": 5, "started": 5}

        assert (await client.post(f"{API}/nightly/pause", json={"reason": "holidays"})).json()["changed"]
        paused = (await client.get(f"{API}/nightly")).json()
        assert (paused["paused"], paused["reason"], paused["next_at"], paused["revision"]) == (
            True,
            "holidays",
            None,
            2,
        )
        assert (await client.post(f"{API}/nightly/resume", json={})).json() == {
            "name": "nightly",
            "changed": True,
        }

        [listed] = (await client.get(API, params={"workflow": "doubling"})).json()["schedules"]
        assert listed["name"] == "nightly"
        assert (await client.get(API, params={"workflow": "asking"})).json()["schedules"] == []
        assert (await client.delete(f"{API}/nightly")).json() == {"name": "nightly", "changed": True}
        assert code(await client.delete(f"{API}/nightly")) == "TRIGGER_NOT_FOUND"

        async def audited() -> list[str] | None:
            entries = (await client.get("/api/v1/audit")).json()["entries"]
            return [entry["action"] for entry in entries][::-1] if len(entries) >= 7 else None

        assert await until(audited) == [
            "create_schedule",
            "trigger_schedule",
            "backfill_schedule",
            "pause_schedule",
            "resume_schedule",
            "delete_schedule",
            "delete_schedule",
        ]


@pytest.mark.req("T1", "A1")
async def test_a_change_of_what_somebody_else_changed_is_refused(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        await client.post(API, json=NIGHTLY)
        mine = await client.put(f"{API}/nightly", json={"missed": "all"}, headers={"If-Match": '"1"'})
        theirs = await client.put(f"{API}/nightly", json={"missed": "skip"}, headers={"If-Match": '"1"'})
        wrong = await client.put(f"{API}/nightly", json={"missed": "skip"}, headers={"If-Match": "1"})

        assert (mine.status_code, mine.json()["missed"], mine.headers["etag"]) == (200, "all", '"2"')
        assert mine.json()["cron"] == NIGHTLY["cron"]  # what was not named stays
        assert (theirs.status_code, code(theirs)) == (409, "CONFLICT")
        assert (wrong.status_code, code(wrong)) == (400, "PARAM_INVALID")


@pytest.mark.req("T1", "A1")
async def test_a_preview_says_words_and_the_next_five_times(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        body = {"cron": "30 2 * * *", "timezone": "America/New_York", "after": "2026-03-07T12:00:00Z"}
        preview = (await client.post(f"{API}/preview", json=body)).json()
        interval = (await client.post(f"{API}/preview", json={"every": "15m", "count": 2})).json()

        assert preview["words"] == "At 02:30 every day, America/New_York"
        assert preview["times"][:2] == ["2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]
        assert len(preview["times"]) == 5
        assert (interval["words"], len(interval["times"])) == ("Every 15 minutes", 2)
        assert (await client.get(API)).json()["schedules"] == []


@pytest.mark.req("T1", "A1")
async def test_wrong_requests_name_the_field(memory_engines: Engines) -> None:
    """BI-G25."""
    async with served(memory_engines.new(*FLOWS)) as client:
        await client.post(API, json=NIGHTLY)
        wrong: list[tuple[int, str, str, dict[str, Any]]] = [
            (422, "CRON", "cron", {"cron": "* * * * * *"}),
            (422, "CRON", "cron", {"cron": "61 * * * *"}),
            (422, "TIMEZONE", "timezone", {"timezone": "Europe/Berln"}),
            (422, "INVALID_INPUT", "every", {"cron": "", "every": 0.5}),
            (422, "INVALID_INPUT", "overlap", {"overlap": "both"}),
            (422, "INVALID_INPUT", "input", {"input": "{{trigger.nothing}}"}),
            (404, "UNKNOWN_WORKFLOW", "", {"workflow": "nothing"}),
            (409, "TRIGGER_EXISTS", "", {"name": "nightly"}),
        ]
        for status, expected, field, changes in wrong:
            answer = await client.post(API, json={**NIGHTLY, "name": "other", **changes})
            problem = answer.json()
            assert (answer.status_code, problem["code"]) == (status, expected), problem
            assert problem["field"] == field or not field, problem
            assert problem["hint"]
        assert len((await client.get(API)).json()["schedules"]) == 1


@pytest.mark.req("T1", "A5", "X5")
async def test_scopes_and_workspaces_are_kept_apart(memory_engines: Engines) -> None:
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client:
        await client.post(API, json=NIGHTLY)
        reader, runner = [await bearer(engine, name, scopes=[name]) for name in ("read", "run")]
        elsewhere = await bearer(engine, "eve", workspace="acme")

        assert code(await client.post(API, json=NIGHTLY, headers=reader)) == "FORBIDDEN"
        assert code(await client.post(f"{API}/nightly/trigger", json={}, headers=reader)) == "FORBIDDEN"
        assert code(await client.post(f"{API}/nightly/pause", json={}, headers=runner)) == "FORBIDDEN"
        assert (await client.post(f"{API}/preview", json={"every": 60}, headers=reader)).status_code == 200
        assert (await client.post(f"{API}/nightly/trigger", json={}, headers=runner)).status_code == 201
        assert code(await client.get(f"{API}/nightly", headers=elsewhere)) == "TRIGGER_NOT_FOUND"
        assert (await client.get(API, headers=elsewhere)).json()["schedules"] == []
