"""API keys: made, listed and revoked with the client of a workspace."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell import SyncClient
from stepwell.domain.access import digest_of, parse
from stepwell.errors import InvalidDefinition, InvalidInput, KeyNotFound
from tests.engines import Engines


@pytest.mark.req("A5")
async def test_a_key_is_shown_once_and_only_its_digest_is_stored(engines: Engines) -> None:
    async with engines.client() as engine:
        now = await engine.store.now()
        new = await engine.keys.create(
            "ann", scopes=["admin", "read", "read"], roles=["finance"], person=True, expires="1h", by="root"
        )
        parsed = parse(new.text)
        (key,) = await engine.keys.list()

        assert parsed is not None
        assert (parsed.kind, parsed.id) == ("key", key.id)
        assert len(parsed.secret) == 43
        assert key == new.credential
        assert key.digest == digest_of(parsed.secret)
        assert parsed.secret not in repr(key)
        assert (key.name, key.principal, key.scopes, key.roles) == (
            "ann",
            "person",
            ("read", "admin"),
            ("finance",),
        )
        assert key.created_by == "root"
        assert key.expires_at is not None
        assert 3590 < key.expires_at - now < 3610
        assert not key.is_live(now + 4000)


@pytest.mark.req("A5", "X5")
async def test_keys_belong_to_a_workspace(engines: Engines) -> None:
    async with engines.client() as engine:
        acme = engine.within("acme")
        theirs = (await acme.keys.create("bob")).credential
        ours = (await engine.keys.create("ann")).credential

        assert [key.id for key in await engine.keys.list()] == [ours.id]
        assert [key.id for key in await acme.keys.list()] == [theirs.id]
        with pytest.raises(KeyNotFound):
            await engine.keys.revoke(theirs.id)
        assert await acme.keys.revoke(theirs.id, by="root")
        assert not await acme.keys.revoke(theirs.id)
        (revoked,) = await acme.keys.list()
        assert revoked.revoked_by == "root"


async def test_keys_are_listed_in_pages(engines: Engines) -> None:
    async with engines.client() as engine:
        made = [(await engine.keys.create(f"k{number}")).credential.id for number in range(5)]
        first = await engine.keys.list(limit=3)
        rest = await engine.keys.list(before=first[-1].id)

        assert [key.id for key in [*first, *rest]] == made[::-1]


WRONG: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"name": ""}, InvalidInput),
    ({"name": "  "}, InvalidInput),
    ({"name": "a\nb"}, InvalidInput),
    ({"name": 7}, InvalidInput),
    ({"name": "x" * 501}, InvalidInput),
    ({"scopes": "read"}, InvalidInput),
    ({"scopes": []}, InvalidInput),
    ({"scopes": ["any"]}, InvalidInput),
    ({"scopes": ["read", "root"]}, InvalidInput),
    ({"scopes": [None]}, InvalidInput),
    ({"roles": "finance"}, InvalidInput),
    ({"roles": ["a\x00b"]}, InvalidInput),
    ({"roles": [str(number) for number in range(51)]}, InvalidInput),
    ({"expires": 0}, InvalidDefinition),
    ({"expires": -5}, InvalidDefinition),
    ({"expires": "soon"}, InvalidDefinition),
    ({"by": "a\nb"}, InvalidInput),
]


async def test_wrong_keys_are_refused_and_nothing_is_written(memory_engines: Engines) -> None:
    async with memory_engines.client() as engine:
        for options, error in WRONG:
            with pytest.raises(error):
                await engine.keys.create(**{"name": "ann", **options})
        with pytest.raises(KeyNotFound):
            await engine.keys.revoke("nothing")

        assert await engine.keys.list() == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sw",
        "sw_key",
        "sw_key_",
        "sw_key__",
        "sw_key_a_",
        "sw_cookie_a_b",
        "xx_key_a_b",
        "sw_key_a/b_c",
        "é" * 9,
        "sw_key_a_" + "b" * 500,
    ],
)
def test_text_that_is_not_a_credential_is_not_read_as_one(text: str) -> None:
    assert parse(text) is None


def test_a_secret_may_contain_the_separator() -> None:
    parsed = parse("sw_key_a1_b_c-d_")

    assert parsed is not None
    assert parsed.secret == "b_c-d_"
    assert str(parsed) == "sw_key_a1_b_c-d_"


@pytest.mark.req("F15")
def test_sync_code_has_the_keys_too(tmp_path: Any) -> None:
    with SyncClient(tmp_path / "a.db") as client:
        new = client.keys.create("ann", scopes=["run"])

        assert [key.id for key in client.keys.list()] == [new.credential.id]
        assert client.keys.revoke(new.credential.id)


async def test_a_client_within_another_workspace_leaves_the_first_as_it_is(memory_engines: Engines) -> None:
    async with memory_engines.client() as engine:
        view = engine.within("acme")

        assert (engine.workspace, view.workspace) == ("default", "acme")
        assert engine.within("default") is engine
        assert view.store is engine.store
        assert view.graphs is engine.graphs
        with pytest.raises(InvalidInput):
            engine.within("a\nb")
