"""Alerts: each incident is reported once, again after a while, and once when it is over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepwell import Context, Engine, workflow
from stepwell.client.alerts import AlertInfo
from stepwell.domain.alerts import Alert, AlertCheck, AlertFinding, AlertSettings, check, incidents_of
from stepwell.errors import InvalidInput
from tests.channels.mail_server import MailServer, mail_server
from tests.engines import Engines, parked, until


@workflow
async def broken(ctx: Context) -> None:
    raise ValueError("no")


@workflow
async def waits(ctx: Context) -> str:
    return await ctx.signal("go", str)


def subjects(server: MailServer) -> list[str]:
    return [str(mail.message["Subject"]) for mail in server.mails]


async def the_alert(engine: Engine) -> AlertInfo:
    [info] = await engine.alerts.list()
    return info


# What a check decides


def alert(incidents: bytes = b"[]", turn: int = 1, **settings: Any) -> Alert:
    asked = AlertSettings(**{"what": "failed", "after": 900.0, "repeat": 3600.0, **settings})
    return Alert(id="a", name="a", settings=msgspec.json.encode(asked), incidents=incidents, turn=turn)


def later(before: Alert, checked: AlertCheck) -> Alert:
    encoded = msgspec.json.encode(checked.incidents)
    return msgspec.structs.replace(before, incidents=encoded, turn=before.turn + 1)


def runs(*subjects: str) -> list[AlertFinding]:
    return [AlertFinding(subject, f"run{i}", 1.0) for i, subject in enumerate(subjects)]


def moments(checked: AlertCheck) -> list[tuple[str, str]]:
    return [(report.incident.subject, report.moment) for report in checked.reports]


@pytest.mark.req("T5")
def test_an_incident_is_reported_when_it_begins_again_and_when_it_is_over() -> None:
    one = alert()
    history = []
    for now, findings in (
        (0.0, runs("pay", "ship")),
        (15.0, runs("pay", "pay")),
        (3600.0, runs("pay")),
        (3615.0, []),
        (3630.0, []),
        (3645.0, runs("pay")),
    ):
        checked = check(one, findings, now)
        history.append(moments(checked))
        one = later(one, checked)

    assert history == [
        [("pay", "opened"), ("ship", "opened")],
        [("ship", "resolved")],
        [("pay", "repeated")],
        [("pay", "resolved")],
        [],
        [("pay", "opened")],
    ]


@pytest.mark.req("T5")
def test_a_repeated_check_has_the_same_reports_under_the_same_keys() -> None:
    first, second = (check(alert(), runs("pay"), now) for now in (0.0, 1.0))
    again = check(later(alert(), check(alert(), [], 0.0)), runs("pay"), 2.0)

    assert [report.key for report in first.reports] == [report.key for report in second.reports]
    assert first.reports[0].key != again.reports[0].key


@pytest.mark.req("T5")
def test_fewer_runs_than_it_takes_are_no_incident() -> None:
    assert check(alert(at_least=3), runs("pay", "pay"), 0.0) == AlertCheck((), ())
    assert moments(check(alert(at_least=2), runs("pay", "pay", "ship"), 0.0)) == [("pay", "opened")]


@pytest.mark.req("T5")
def test_a_missing_worker_is_reported_after_its_time() -> None:
    one = alert(what="no_worker", queue="gpu", after=60.0)
    missing = [AlertFinding("gpu", "", 0.0)]

    first = check(one, missing, 0.0)
    second = check(later(one, first), missing, 59.0)
    third = check(later(later(one, first), second), missing, 60.0)
    back = check(later(one, first), [], 30.0)

    assert [moments(each) for each in (first, second, third, back)] == [[], [], [("gpu", "opened")], []]


@pytest.mark.req("T5")
def test_an_alert_follows_a_bounded_number_of_subjects() -> None:
    checked = check(alert(), runs(*(f"flow{i}" for i in range(200))), 0.0)

    assert len(checked.incidents) == len(checked.reports) == 50


# In workers


@pytest.mark.req("T5")
async def test_a_failed_run_is_reported_and_resolved(engines: Engines) -> None:
    async with mail_server() as server:
        channels = {"ops": server.url("&to=ops@example.com")}
        async with engines.new(broken, channels=channels) as engine:
            await engine.alerts.set("failures", "failed", channel="ops", every="1s", after="8s")
            ids = {(await engine.start(broken)).id for _ in range(2)}
            await until(lambda: "Resolved" in " ".join(subjects(server)))

            opened, resolved = subjects(server)[0], subjects(server)[-1]
            assert opened.startswith("Alert: ")
            assert "broken failed" in opened
            assert resolved.startswith("Resolved: ")
            assert len(server.mails) == 2
            assert any(run in server.mails[0].text for run in ids)
            assert server.mails[0].recipients == ["ops@example.com"]
            assert (await the_alert(engine)).incidents == ()


@pytest.mark.req("T5")
async def test_stuck_and_overdue_runs_missing_workers_and_full_queues_are_found(
    memory_engines: Engines,
) -> None:
    async with mail_server() as server:
        channels = {"ops": server.url("&to=ops@example.com")}
        async with memory_engines.new(waits, channels=channels) as engine:
            run = await engine.start(waits)
            await parked(run)
            for _ in range(3):
                await engine.start(waits, queue="gpu")
            often: dict[str, Any] = {"channel": "ops", "every": 1}
            await engine.alerts.set("late", "overdue", workflow="waits", after=0.001, **often)
            await engine.alerts.set("gpu", "no_worker", queue="gpu", after=0, **often)
            await engine.alerts.set("full", "full_queue", queue="gpu", at_least=3, **often)
            await engine.alerts.set("stuck", "stuck", after=0.001, **often)
            await until(lambda: len(server.mails) == 4)

            assert sorted(subjects(server)) == [
                "Alert: 3 runs of waits made no progress for 0.001 s",
                "Alert: 3 runs wait in the queue gpu",
                "Alert: 4 runs of waits took longer than 0.001 s",
                "Alert: no worker serves the queue gpu",
            ]
            async with memory_engines.new(waits, queues=["gpu"]):
                await until(lambda: "Resolved: no worker serves the queue gpu" in subjects(server))
                await run.signal("go", "on")


WORKER = """
import asyncio, sys
from stepwell import Engine
async def main():
    from tests.notifications.test_alerts import broken
    async with Engine(sys.argv[1], workflows=[broken], channels={"ops": sys.argv[2]}):
        print("working", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


async def worker_process(database: str, channel: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WORKER, database, channel),
        cwd=Path(__file__).parents[2],
        stdout=asyncio.subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "STEPWELL_LEASE_SECONDS": "4", "STEPWELL_HEARTBEAT_SECONDS": "1"},
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"working\n"
    return process


async def ended(processes: Sequence[asyncio.subprocess.Process]) -> None:
    for process in processes:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


@pytest.mark.slow
@pytest.mark.req("T5", "K4")
async def test_two_workers_of_which_one_is_killed_lose_and_double_no_alert(
    durable_engines: Engines,
) -> None:
    async with mail_server(MailServer(silent=1)) as server, durable_engines.client() as client:
        channel = server.url("&to=ops@example.com")
        database = str(durable_engines.database)
        processes = [await worker_process(database, channel) for _ in range(2)]
        try:
            await client.alerts.set("failures", "failed", channel="ops", every="1s", repeat="1m")
            await client.start("broken")
            await until(lambda: server.attempts)  # one of them sends it, and waits for the answer
            [sent] = server.attempts
            processes[0].send_signal(signal.SIGKILL)
            await processes[0].wait()
            server.spoken.set()
            await until(lambda: checked_again(client))
            assert len({mail.id for mail in server.attempts}) == 1
            assert sent.id == server.attempts[0].id
        finally:
            await ended(processes)


async def checked_again(client: Engine) -> bool:
    """Whether the worker that is left has checked the alert several times since."""
    [row] = await client.store.list_alerts("default")
    return row.turn > 6 and bool(incidents_of(row))


@pytest.mark.req("T5")
async def test_what_an_alert_may_be_is_checked(memory_engines: Engines) -> None:
    async with memory_engines.client() as client:
        for options, field in (
            ({"what": "fialed"}, "what"),
            ({"what": "no_worker"}, "queue"),
            ({"what": "failed", "queue": "a"}, "queue"),
            ({"what": "full_queue", "queue": "a", "workflow": "b"}, "workflow"),
            ({"what": "failed", "at_least": 0}, "at_least"),
            ({"what": "failed", "repeat": "1s"}, "repeat"),
            ({"what": "failed", "to": ["a@x.org"]}, "channel"),
            ({"what": "failed", "channel": "ops", "to": ["a\n@x.org"]}, "to"),
            ({"what": "failed", "chanel": "ops"}, "chanel"),
            ({"what": "failed", "after": "1s"}, "after"),
        ):
            with pytest.raises(InvalidInput) as caught:
                await client.alerts.set("a", **options)
            assert caught.value.context["field"] == field

        info = await client.alerts.set("a", "stuck", workflow="pay", paused=True, by="ana")
        assert (info.after, info.paused, info.created_by, info.incidents) == (600.0, True, "ana", ())
        assert await client.alerts.list() == [info]
        assert await client.alerts.delete("a")
        assert not await client.alerts.delete("a")
