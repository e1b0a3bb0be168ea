"""Records over HTTP: versions as ETags, scopes, pages, the audit list, and requests that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines import Engines, until
from tests.server.served import FLOWS, bearer, code, served

API = "/api/v1/records"
PEOPLE = {"schema": {"type": "object", "required": ["email"]}, "key": "email", "find": ["city"]}

pytestmark = pytest.mark.req("N24", "A1")


async def test_a_version_is_an_etag(engines: Engines) -> None:
    async with served(engines.new(*FLOWS)) as client:
        defined = await client.put(f"{API}/people", json=PEOPLE)
        made = await client.post(f"{API}/people/items", json={"data": {"email": "ann@x", "city": "Rome"}})
        path = f"{API}/people/items/{made.json()['id']}"
        patched = await client.patch(path, json={"data": {"city": "Bonn"}}, headers={"If-Match": '"1"'})
        late = await client.patch(path, json={"data": {"city": "Oslo"}}, headers={"If-Match": '"1"'})
        whole = await client.put(path, json={"data": {"email": "ann@y"}}, headers={"If-Match": '"2"'})
        read = await client.get(path)
        kept = await client.delete(path, headers={"If-Match": '"2"'})
        gone = await client.delete(path, headers={"If-Match": '"3"'})

        assert (defined.status_code, defined.headers["etag"]) == (200, '"1"')
        assert (made.status_code, made.headers["etag"]) == (201, '"1"')
        assert (patched.headers["etag"], patched.json()["data"]) == (
            '"2"',
            {"email": "ann@x", "city": "Bonn"},
        )
        assert (late.status_code, code(late)) == (409, "RECORD_CHANGED")
        assert (whole.headers["etag"], whole.json()["data"]) == ('"3"', {"email": "ann@y"})
        assert (read.headers["etag"], read.json()) == ('"3"', whole.json())
        assert code(kept) == "RECORD_CHANGED"
        assert gone.json()["changed"]
        assert code(await client.get(path)) == "RECORD_NOT_FOUND"


async def test_pages_follow_one_another(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        await client.put(f"{API}/people", json=PEOPLE)
        for number in range(5):
            data = {"email": f"{number}@x", "city": "Rome"}
            await client.post(f"{API}/people/items", json={"data": data})
        where: dict[str, Any] = {"where": '{"city":"Rome"}', "limit": 2}
        emails, cursor = [], ""
        for _ in range(3):
            page = (await client.get(f"{API}/people/items", params={**where, "cursor": cursor})).json()
            emails += [record["data"]["email"] for record in page["records"]]
            cursor = page["cursor"] or ""
        first = (await client.get(f"{API}/people/items", params=where)).json()["cursor"]
        foreign = await client.get(f"{API}/people/items", params={"cursor": first})

        assert emails == [f"{number}@x" for number in range(5)]
        assert cursor == ""
        assert code(foreign) == "CURSOR_INVALID", "it belongs to another filter"


@pytest.mark.req("X4")
async def test_scopes_and_the_audit_list(memory_engines: Engines) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        engine = client.app.state.engine
        await client.put(f"{API}/people", json=PEOPLE)
        reader = await bearer(engine, "rita", scopes=["read"])
        runner = await bearer(engine, "rolf", scopes=["read", "run"])
        body: dict[str, Any] = {"data": {"email": "ann@x"}, "id": "ann"}
        read = await client.get(f"{API}/people", headers=reader)
        refused = await client.post(f"{API}/people/items", json=body, headers=reader)
        made = await client.post(f"{API}/people/items", json=body, headers=runner)
        defined = await client.put(f"{API}/more", json=PEOPLE, headers=runner)
        dropped = await client.delete(f"{API}/people?with_records=true", headers=runner)

        async def audited() -> str:
            """Entries are written a moment later."""
            entries = str((await client.get("/api/v1/audit")).json()["entries"])
            return entries if "create_record" in entries and "rolf" in entries else ""

        entries = await until(audited)

        assert read.status_code == 200
        assert (code(refused), made.status_code) == ("FORBIDDEN", 201)
        assert (code(defined), code(dropped)) == ("FORBIDDEN", "FORBIDDEN")
        assert "ann@x" not in entries


@pytest.mark.parametrize(
    ("request_line", "body", "headers", "status"),
    [
        ("GET /nobody", None, {}, 404),
        ("GET /people/items?where=city", None, {}, 422),
        ("GET /people/items?where={%22name%22:1}", None, {}, 422),
        ("GET /people/items?where=[1]", None, {}, 422),
        ("GET /people/by-key?key=[1]", None, {}, 422),
        ("GET /people/by-key?key=%22x%22", None, {}, 404),
        ("GET /people/items/..%2F..%2Fetc", None, {}, 404),
        ("GET /two words", None, {}, 400),
        ("POST /people/items", {"data": []}, {}, 422),
        ("POST /people/items", {"data": {"email": "a"}, "more": 1}, {}, 422),
        ("POST /people/items", {"data": {}}, {}, 422),
        ("POST /people/items", {"data": {"email": "x" * 70_000}}, {}, 422),
        ("POST /people/items", {"data": {"email": "a"}, "id": "a/b"}, {}, 422),
        ("PATCH /people/items/ann", {"data": {}}, {"If-Match": "1"}, 400),
        ("PATCH /people/items/ann", {"data": {}}, {"If-Match": 'W/"1"'}, 400),
        ("PATCH /people/items/nobody", {"data": {}}, {}, 404),
        ("PUT /people", {"schema": {"$ref": "https://a.example/x"}}, {}, 422),
        ("PUT /people", {**PEOPLE, "key": "name"}, {}, 409),
        ("PUT /people", {**PEOPLE, "new": True}, {}, 409),
        ("DELETE /people", None, {}, 409),
        ("POST /people/restore", {"records": [{"id": "x"}]}, {}, 422),
    ],
)
async def test_what_does_not_fit_is_a_problem_and_changes_nothing(
    memory_engines: Engines, request_line: str, body: Any, headers: dict[str, str], status: int
) -> None:
    async with served(memory_engines.new(*FLOWS)) as client:
        await client.put(f"{API}/people", json=PEOPLE)
        await client.post(f"{API}/people/items", json={"data": {"email": "ann@x"}, "id": "ann"})

        method, _, path = request_line.partition(" ")
        answer = await client.request(method, f"{API}{path}", json=body, headers=headers)
        after = (await client.get(f"{API}/people")).json()
        record = (await client.get(f"{API}/people/items/ann")).json()

        assert answer.status_code == status, answer.text
        assert (after["version"], after["records"]) == (1, 1)
        assert (record["version"], record["data"]) == (1, {"email": "ann@x"})
