"""Rules of credentials and of the audit list."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.domain.access import AuditEntry, Credential
from stepwell.store.base import CREDENTIALS_KEPT_SECONDS
from stepwell.testing.stores.scene import Scene, checked


def credential(id: str = "k1", **changes: Any) -> Credential:
    values: dict[str, Any] = {
        "kind": "key",
        "name": "ann",
        "digest": f"digest of {id}",
        "principal": "person",
        "scopes": ("read", "approve"),
        "roles": ("finance", "größe"),
        "created_at": 1000.0,
        "created_by": "bob",
    }
    return Credential(id=id, **{**values, **changes})


def entry(id: str, **changes: Any) -> AuditEntry:
    values: dict[str, Any] = {"at": 5.0, "workspace": "default", "by": "ann", "action": "cancel_run"}
    values |= {"path": "/api/v1/runs/1/cancel", "status": 200, "credential": "k1", "address": "127.0.0.1"}
    return AuditEntry(id=id, **{**values, **changes})


class AccessRules:
    @pytest.mark.req("A5")
    @checked
    async def test_a_credential_is_read_as_it_was_written(self, scene: Scene) -> None:
        plain = credential()
        link = credential(
            "k2", kind="link", run_id="r1", path="0/ask#1", seq=7, expires_at=2000.5, scopes=(), roles=()
        )
        await scene.store.put_credential(plain)
        await scene.store.put_credential(link)

        assert await scene.store.read_credential("k1") == plain
        assert await scene.store.read_credential("k2") == link
        assert await scene.store.read_credential("k3") is None

    @checked
    async def test_a_credential_that_is_there_is_not_replaced(self, scene: Scene) -> None:
        await scene.store.put_credential(credential())
        await scene.store.put_credential(credential(scopes=("admin",), digest="other"))

        assert await scene.store.read_credential("k1") == credential()

    @pytest.mark.req("X5")
    @checked
    async def test_credentials_are_listed_by_workspace_and_kind_newest_first(self, scene: Scene) -> None:
        for id in ("k1", "k3", "k2"):
            await scene.store.put_credential(credential(id))
        await scene.store.put_credential(credential("k4", workspace="other"))
        await scene.store.put_credential(credential("k5", kind="session", key="k1", expires_at=9000.0))

        listed = await scene.store.list_credentials("default", "key")
        rest = await scene.store.list_credentials("default", "key", before="k3", limit=1)
        sessions = await scene.store.list_credentials("default", "session")

        assert [row.id for row in listed] == ["k3", "k2", "k1"]
        assert [row.id for row in rest] == ["k2"]
        assert [row.id for row in sessions] == ["k5"]

    @pytest.mark.req("A5")
    @checked
    async def test_a_credential_is_revoked_once(self, scene: Scene) -> None:
        await scene.store.put_credential(credential())

        revoked = await scene.store.revoke_credential("k1", at=5.0, by="bob")
        again = await scene.store.revoke_credential("k1", at=6.0, by="eve")
        nothing = await scene.store.revoke_credential("k2", at=6.0, by="eve")

        assert (revoked, again, nothing) == (True, False, False)
        assert await scene.store.read_credential("k1") == replace(
            credential(), revoked_at=5.0, revoked_by="bob"
        )

    @checked
    async def test_the_last_use_never_goes_back(self, scene: Scene) -> None:
        await scene.store.put_credential(credential())
        await scene.store.put_credential(credential("k2"))

        await scene.store.mark_used(["k1", "unknown"], at=9.0)
        await scene.store.mark_used({"k1"}, at=8.0)
        await scene.store.mark_used([], at=10.0)

        assert await scene.store.read_credential("k1") == replace(credential(), used_at=9.0)
        assert await scene.store.read_credential("k2") == credential("k2")

    @checked
    async def test_sessions_and_links_are_deleted_long_after_they_expired(self, scene: Scene) -> None:
        now = 2 * CREDENTIALS_KEPT_SECONDS
        await scene.store.put_credential(credential("old", kind="session", expires_at=1.0))
        await scene.store.put_credential(credential("key", expires_at=1.0))
        await scene.store.put_credential(credential("young", kind="link", expires_at=now - 1.0))
        await scene.store.put_credential(credential("new", created_at=now))

        kept = [id for id in ("old", "key", "young", "new") if await scene.store.read_credential(id)]
        assert kept == ["key", "young", "new"]

    @pytest.mark.req("X5")
    @checked
    async def test_the_audit_list_is_one_of_a_workspace_newest_first(self, scene: Scene) -> None:
        await scene.store.add_audit([entry("a1"), entry("a3", by="größe"), entry("b1", workspace="other")])
        await scene.store.add_audit([entry("a2", status=403), entry("a1", by="eve")])
        await scene.store.add_audit([])

        listed = await scene.store.list_audit("default")
        page = await scene.store.list_audit("default", before="a3", limit=1)

        assert listed == [entry("a3", by="größe"), entry("a2", status=403), entry("a1")]
        assert page == [entry("a2", status=403)]
        assert await scene.store.list_audit("other") == [entry("b1", workspace="other")]
