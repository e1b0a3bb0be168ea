"""Secrets of the memory store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.domain.secret import StoredSecret
from stepwell.store.memory.tables import Tables
from stepwell.store.memory.verb import transaction


class MemorySecrets(Tables):
    @transaction("secrets")
    async def put_secret(self, secret: StoredSecret) -> bool:
        place = (secret.workspace, secret.name)
        present = self._secrets.get(place)
        if (present.version if present else 0) != secret.version - 1:
            return False
        self._secrets[place] = secret
        return True

    async def read_secret(self, workspace: str, name: str) -> StoredSecret | None:
        return self._secrets.get((workspace, name))

    async def list_secrets(
        self, workspace: str, *, after: str = "", limit: int = 100
    ) -> Sequence[StoredSecret]:
        places = sorted(place for place in self._secrets if place[0] == workspace and place[1] > after)
        return [self._secrets[place] for place in places[:limit]]

    @transaction("secrets")
    async def drop_secret(self, workspace: str, name: str) -> bool:
        return self._secrets.pop((workspace, name), None) is not None

    async def read_outdated_secrets(self, key: str, *, limit: int = 100) -> Sequence[StoredSecret]:
        places = sorted(place for place, secret in self._secrets.items() if secret.key != key)
        return [self._secrets[place] for place in places[:limit]]

    @transaction("secrets")
    async def rewrap_secret(self, secret: StoredSecret) -> bool:
        place = (secret.workspace, secret.name)
        present = self._secrets.get(place)
        if present is None or present.version != secret.version or present.key == secret.key:
            return False
        self._secrets[place] = replace(present, key=secret.key, wrapped=secret.wrapped)
        return True
