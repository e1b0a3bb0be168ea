"""Assignees hear of their approvals, through a real mail server, and decide by the link."""

from __future__ import annotations

import re
from typing import Any

import pytest

from stepwell import Context, Engine, Notifications, workflow
from stepwell.domain.access import parse
from stepwell.errors import SettingsInvalid
from tests.channels.mail_server import Mail, MailServer, mail_server
from tests.engines import Engines, crash, suspended, until

ADDRESSES = {"ana": "Ana <ana@example.com>", "role:finance": "finance@example.com"}
NOTICES = Notifications(approvals="ops", addresses=ADDRESSES, url="https://flows.example.com/app/")
GRAPH = {
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "ask", "type": "approval", "data": {"message": "Pay it?", "assignees": ["ana"]}},
        {"id": "end", "type": "end"},
    ],
    "edges": [
        {"source": "start", "target": "ask"},
        {"source": "ask", "target": "end", "sourceHandle": "approved"},
    ],
}


@workflow
async def pay(ctx: Context, assignees: list[str]) -> Any:
    return await ctx.approval(bool, title="Pay\r\nBcc: x@x.org", assignees=assignees, timeout="1d")


@workflow
async def twice(ctx: Context) -> None:
    for _ in range(2):
        await ctx.approval(bool, title="Once more?", assignees=["ana"])


def opened(
    engines: Engines, server: MailServer, notifications: Notifications = NOTICES, **options: Any
) -> Engine:
    return engines.new(pay, twice, channels={"ops": server.url()}, notifications=notifications, **options)


def arrived(server: MailServer) -> dict[str, Mail]:
    return {mail.recipients[0]: mail for mail in server.mails}


def link_in(mail: Mail) -> str:
    [link] = re.findall(r"https://\S+", mail.text)
    return str(link)


@pytest.mark.req("N12", "N26", "X6")
async def test_each_assignee_gets_one_mail_with_a_link_of_their_own(engines: Engines) -> None:
    async with mail_server() as server, opened(engines, server) as engine:
        run = await engine.start(pay, ["ana", "role:finance", "bob@example.com", "nobody"])
        await until(lambda: len(server.mails) == 3)
        await engine.start(pay, ["ana"])
        await until(lambda: len(server.mails) == 4)  # and not a fifth of the first run

        mails = arrived(server)
        assert set(mails) == {"ana@example.com", "finance@example.com", "bob@example.com"}
        assert len({mail.id for mail in server.mails}) == 4
        mail = mails["bob@example.com"]
        assert mail.message["Subject"] == "Approval: Pay Bcc: x@x.org"
        assert mail.message["Bcc"] is None
        assert run.id in mail.text
        assert link_in(mail).startswith("https://flows.example.com/app/approve#")
        text = parse(link_in(mail).partition("#")[2])
        assert text is not None
        stored = await engine.keys.read(text.id)
        assert stored is not None
        assert (stored.kind, stored.name, stored.run_id) == ("link", "bob@example.com", run.id)


@pytest.mark.req("N12")
async def test_reminders_and_reassignments_reach_those_who_are_asked(engines: Engines) -> None:
    async with mail_server() as server, opened(engines, server) as engine:
        run = await engine.start(pay, ["ana"])
        await until(lambda: len(server.mails) == 1)
        await run.remind()
        await until(lambda: len(server.mails) == 2)
        await run.remind()
        await until(lambda: len(server.mails) == 3)
        await run.reassign(["bob@example.com"])
        await until(lambda: len(server.mails) == 4)

    subjects = [(mail.recipients[0], mail.message["Subject"].partition(":")[0]) for mail in server.mails]
    ana, bob = "ana@example.com", "bob@example.com"
    assert subjects == [(ana, "Approval"), (ana, "Reminder"), (ana, "Reminder"), (bob, "Approval")]
    assert len({mail.id for mail in server.mails}) == 4


@pytest.mark.req("N12")
async def test_graphs_tell_their_assignees_too(memory_engines: Engines) -> None:
    async with mail_server() as server, opened(memory_engines, server) as engine:
        await engine.start_graph(GRAPH, {})
        await until(lambda: server.mails)

    assert server.mails[0].message["Subject"] == "Approval: Pay it?"


@pytest.mark.req("N12")
async def test_a_question_that_is_asked_again_is_a_new_one(memory_engines: Engines) -> None:
    async with mail_server() as server, opened(memory_engines, server) as engine:
        run = await engine.start(twice)
        await until(lambda: len(server.mails) == 1)
        await run.decide(True, by="ana")
        await until(lambda: len(server.mails) == 2)
        await run.decide(True, by="ana")
        await run.result(60)


@pytest.mark.req("N12", "K4")
async def test_a_sender_that_dies_loses_no_mail_and_sends_none_under_another_id(
    durable_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.notifications.sender.TAKEN_SECONDS", 1.0)
    async with mail_server(MailServer(silent=1)) as server:
        doomed = opened(durable_engines, server)
        await doomed.open()
        await doomed.start(pay, ["ana"])
        await until(lambda: server.attempts)  # it has arrived, and the sender does not know
        await doomed._end_notices()
        await crash(doomed)
        async with opened(durable_engines, server):
            await until(lambda: len(server.attempts) == 2)
            server.spoken.set()

    assert len({mail.id for mail in server.attempts}) == 1


@pytest.mark.req("N12")
async def test_a_mail_server_that_is_down_neither_blocks_nor_fails_the_run(
    memory_engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.domain.notifications._DELAY_MAX", 0.01)
    answers = ["451 later", "421 busy", "250 OK"]
    server = MailServer(answer=lambda mail: answers.pop(0))
    async with mail_server(server), opened(memory_engines, server) as engine:
        run = await engine.start(pay, ["ana"])
        await suspended(run)
        await until(lambda: server.mails)
        links = [link_in(mail) for mail in server.attempts]
        await run.decide(True, by="ana")
        assert await run.result(60) is True

        used = [parse(link.partition("#")[2]) for link in links]
        revoked = [(await engine.keys.read(text.id)).revoked_at for text in used if text]  # type: ignore[union-attr]
    assert len({mail.id for mail in server.attempts}) == 1
    assert [at is not None for at in revoked] == [True, True, False]  # refused mails reached nobody


@pytest.mark.req("N12")
async def test_an_approval_that_is_decided_meanwhile_sends_nothing(memory_engines: Engines) -> None:
    async with mail_server() as server:
        away = memory_engines.new(pay, channels={}, notifications=NOTICES)
        async with away:
            run = await away.start(pay, ["ana"])
            await suspended(run)
            await run.decide(True, by="ana")
            await run.result(60)
        async with opened(memory_engines, server) as engine:
            await engine.start(pay, ["bob@example.com"])
            await until(lambda: server.mails)

    assert list(arrived(server)) == ["bob@example.com"]


@pytest.mark.req("N12")
async def test_nobody_hears_anything_unless_an_operator_says_so(memory_engines: Engines) -> None:
    async with mail_server() as server, opened(memory_engines, server, Notifications()) as engine:
        run = await engine.start(pay, ["ana"])
        await suspended(run)
        assert (await engine.store.take_notifications(["ops"], seconds=1.0)).next_in is None

    assert server.attempts == []


@pytest.mark.parametrize(
    "options",
    [
        {"addresses": {"ana": "nobody"}},
        {"addresses": {"ana": "a@x.org\r\nBcc: b@x.org"}},
        {"url": "flows.example.com"},
        {"url": "javascript://x"},
    ],
)
def test_notices_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsInvalid):
        Notifications(**options)
