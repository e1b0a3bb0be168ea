"""Approval links: one wait, one assignee, once, for a while."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from stepwell import Context, workflow
from stepwell.errors import AlreadyDecided, InvalidInput, NotAssigned, RunEnded
from tests.engines import Engines, until
from tests.server.served import Served, asking, assigned, bearer, code, served


@workflow
async def asking_twice(ctx: Context, question: str) -> list[bool]:
    return [await ctx.approval(bool, title=f"{question} {number}") for number in (1, 2)]


FLOWS = (asking, assigned, asking_twice)


def holder(client: Served, text: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=client.url, headers={"Authorization": f"Bearer {text}"}, timeout=60)


async def link_for(client: Served, run: str, assignee: str = "bob", **more: Any) -> dict[str, Any]:
    answer = await client.post(f"/api/v1/runs/{run}/links", json={"assignee": assignee, **more})
    assert answer.status_code == 201, answer.text
    link: dict[str, Any] = answer.json()
    return link


@pytest.mark.req("X6")
async def test_a_link_shows_and_decides_one_approval_as_its_assignee(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client:
        run = await client.started("assigned", "ship?")
        await client.waiting(run)
        link = await link_for(client, run)

        assert link["url"] == f"/approve#{link['secret']}"
        async with holder(client, link["secret"]) as bob:
            shown = (await bob.get("/api/v1/approval")).json()
            assert (shown["title"], shown["assignee"], shown["run"]) == ("ship?", "bob", run)
            assert shown["form"] == {"type": "string"}
            assert code(await bob.post("/api/v1/approval", json={"answer": 7})) == "INVALID_INPUT"
            decided = await bob.post("/api/v1/approval", json={"answer": "yes", "reason": "it is paid"})
            assert decided.json() == {"decided": True, "by": "bob"}
            again = await bob.post("/api/v1/approval", json={"answer": "no"})
            assert (again.status_code, code(again)) == (410, "LINK_USED")
            used = await bob.get("/api/v1/approval")
            assert code(used) == "LINK_USED"
            assert used.json()["context"]["decided_by"] == "bob"
        assert (await client.ended(run))["output"] == "ship? yes"
        events = (await client.get(f"/api/v1/runs/{run}/events")).json()["events"]
        [received] = [event["data"] for event in events if event["kind"] == "received"]
        assert (received["by"], received["reason"]) == ("bob", "it is paid")
        [given] = (await client.get(f"/api/v1/runs/{run}/decisions")).json()["decisions"]
        assert (given["path"], given["by"], given["decision"]) == (shown["path"], "bob", "approved")
        assert given["reason"] == "it is paid"


@pytest.mark.req("X6")
async def test_a_link_opens_nothing_else(memory_engines: Engines) -> None:
    """PT-07: as a key, at another run, with another secret."""
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client:
        run = await client.started("assigned", "ship?")
        await client.waiting(run)
        link = await link_for(client, run)
        secret = link["secret"]
        flipped = secret[:-1] + ("A" if secret[-1] != "A" else "B")
        other = secret.replace(link["id"], "0" * 32)
        key = (await bearer(engine, "ann"))["Authorization"].partition(" ")[2]

        async with holder(client, secret) as bob:
            for path in ("runs", f"runs/{run}", "me", "keys", f"runs/{run}/stream"):
                assert code(await bob.get(f"/api/v1/{path}")) == "UNAUTHENTICATED"
            forged = await bob.post(f"/api/v1/runs/{run}/decide", json={"answer": "yes"})
            assert code(forged) == "UNAUTHENTICATED"
        for text in (flipped, other, key, "sw_link_", secret.replace("sw_link", "sw_key")):
            async with holder(client, text) as stranger:
                assert code(await stranger.get("/api/v1/approval")) == "UNAUTHENTICATED"
                answer = await stranger.post("/api/v1/approval", json={"answer": "yes"})
                assert code(answer) == "UNAUTHENTICATED"
        async with httpx.AsyncClient(base_url=client.url) as page:  # a form of another site
            answer = await page.post("/api/v1/approval", json={"answer": "yes"})
            assert answer.status_code in (401, 403)
        assert (await client.waiting(run))[0]["name"] == "approval"


@pytest.mark.req("X6")
async def test_a_link_is_for_one_wait_even_if_another_follows(engines: Engines) -> None:
    engine = engines.new(*FLOWS)
    async with served(engine) as client:
        handle = await engine.start(asking_twice, "sure?")
        first = await handle.waiting_for("approval")
        link, spare = await handle.approval_link("bob"), await handle.approval_link("eve")
        await handle.decide(True, path=first.path, by="ann")
        second = await handle.waiting_for("approval")

        assert second.path != first.path
        for unused in (link, spare):
            async with holder(client, unused.text) as bob:
                answer = await bob.post("/api/v1/approval", json={"answer": True})
                assert (answer.status_code, code(answer)) == (409, "ALREADY_DECIDED")
                assert answer.json()["context"]["decided_by"] == "ann"
        await handle.decide(False, by="ann")
        assert await handle.result() == [True, False]
        with pytest.raises((AlreadyDecided, RunEnded)):
            await handle.approval_link("bob")


@pytest.mark.req("X6")
async def test_a_link_expires_after_seven_days_or_when_it_says(memory_engines: Engines) -> None:
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client:
        handle = await engine.start(asking, "sure?")
        await handle.waiting_for("approval")
        lasting = (await handle.approval_link("bob")).credential
        short = await handle.approval_link("bob", expires=0.001)

        assert lasting.expires_at is not None
        assert round(lasting.expires_at - lasting.created_at) == 7 * 86400
        async with holder(client, short.text) as bob:
            answer = await bob.post("/api/v1/approval", json={"answer": "yes"})
            assert (answer.status_code, code(answer)) == (410, "LINK_EXPIRED")
        for wrong in ({"assignee": ""}, {"assignee": "bob", "path": "nowhere"}):
            refused = await client.post(f"/api/v1/runs/{handle.id}/links", json=wrong)
            assert refused.status_code in (409, 422)


@pytest.mark.req("X6")
async def test_only_somebody_who_may_decide_gets_a_link(memory_engines: Engines) -> None:
    engine = memory_engines.new(*FLOWS)
    async with served(engine) as client:
        handle = await engine.start(assigned, "ship?")
        await handle.waiting_for("approval")

        with pytest.raises(NotAssigned):
            await handle.approval_link("eve")
        with pytest.raises(InvalidInput):
            await handle.approval_link("")
        link = await handle.approval_link("fay", roles=["finance"])
        await handle.reassign(["ann"])
        await handle.why()
        async with holder(client, link.text) as fay:
            answer = await fay.post("/api/v1/approval", json={"answer": "yes"})
            assert answer.status_code in (200, 403)  # the run may not have taken the new names yet
        approver = await bearer(engine, "ann", scopes=["read", "approve"])
        refused = await client.post(
            f"/api/v1/runs/{handle.id}/links", json={"assignee": "ann"}, headers=approver
        )
        assert code(refused) == "FORBIDDEN"  # a link decides in another's name


@pytest.mark.req("X6", "A5")
async def test_what_a_link_did_is_in_the_audit_list_without_its_secret(sqlite: Engines) -> None:
    engine = sqlite.new(*FLOWS)
    async with served(engine) as client:
        run = await client.started("asking", "sure?")
        await client.waiting(run)
        link = await link_for(client, run, "bob")
        async with holder(client, link["secret"]) as bob:
            await bob.post("/api/v1/approval", json={"answer": "yes"})
        await client.ended(run)

        async def entry() -> Any:
            answer = await client.get("/api/v1/audit")
            assert link["secret"].rpartition("_")[2] not in answer.text
            return [e for e in answer.json()["entries"] if e["action"] == "decide_approval"]

        [written] = await until(entry)
        assert (written["by"], written["credential"]) == ("bob", link["id"])
