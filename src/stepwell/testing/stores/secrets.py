"""Rules of secrets."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.domain.secret import StoredSecret
from stepwell.testing.stores.scene import Scene, checked


def stored(name: str = "stripe", version: int = 1, **changes: Any) -> StoredSecret:
    values: dict[str, Any] = {
        "key": "k1",
        "wrapped": b"wrapped\x00\xff",
        "body": f"body {version}".encode(),
        "hosts": ("api.example.com",),
        "created_at": 1000.5,
        "created_by": "ann",
    }
    return StoredSecret(name=name, version=version, **{**values, **changes})


class SecretRules:
    @pytest.mark.req("X8")
    @checked
    async def test_a_secret_is_read_as_it_was_written(self, scene: Scene) -> None:
        header = stored("other", use="header", header="X-Api-Key", hosts=("*.example.com", "größe"))
        assert await scene.store.put_secret(stored())
        assert await scene.store.put_secret(header)

        assert await scene.store.read_secret("default", "stripe") == stored()
        assert await scene.store.read_secret("default", "other") == header
        assert await scene.store.read_secret("default", "third") is None
        assert await scene.store.read_secret("acme", "stripe") is None

    @checked
    async def test_only_the_next_version_of_a_secret_is_written(self, scene: Scene) -> None:
        assert not await scene.store.put_secret(stored(version=2))
        assert await scene.store.put_secret(stored())
        assert not await scene.store.put_secret(stored(created_by="eve"))
        assert not await scene.store.put_secret(stored(version=3))
        assert await scene.store.put_secret(stored(version=2, hosts=()))

        assert await scene.store.read_secret("default", "stripe") == stored(version=2, hosts=())

    @pytest.mark.req("X5")
    @checked
    async def test_secrets_are_listed_by_workspace_and_name(self, scene: Scene) -> None:
        for name in ("b", "c", "a"):
            await scene.store.put_secret(stored(name))
        await scene.store.put_secret(stored("b", workspace="acme"))

        listed = await scene.store.list_secrets("default")
        page = await scene.store.list_secrets("default", after="a", limit=1)

        assert [secret.name for secret in listed] == ["a", "b", "c"]
        assert [secret.name for secret in page] == ["b"]

    @checked
    async def test_a_dropped_secret_is_gone_and_may_begin_again(self, scene: Scene) -> None:
        await scene.store.put_secret(stored())
        await scene.store.put_secret(stored(workspace="acme"))

        assert await scene.store.drop_secret("default", "stripe")
        assert not await scene.store.drop_secret("default", "stripe")
        assert await scene.store.read_secret("acme", "stripe") == stored(workspace="acme")
        assert await scene.store.put_secret(stored())

    @pytest.mark.req("X8")
    @checked
    async def test_outdated_secrets_get_another_key_once_each(self, scene: Scene) -> None:
        await scene.store.put_secret(stored())
        await scene.store.put_secret(stored("b", workspace="acme"))
        await scene.store.put_secret(stored("c", key="k2"))

        outdated = await scene.store.read_outdated_secrets("k2")
        first = stored(key="k2", wrapped=b"new")
        answers = [await scene.store.rewrap_secret(first) for _ in range(2)]
        late = await scene.store.rewrap_secret(stored("b", 2, workspace="acme", key="k2"))

        assert [(secret.workspace, secret.name) for secret in outdated] == [
            ("acme", "b"),
            ("default", "stripe"),
        ]
        assert (answers, late) == ([True, False], False)
        assert await scene.store.read_secret("default", "stripe") == first
        assert len(await scene.store.read_outdated_secrets("k2", limit=9)) == 1
