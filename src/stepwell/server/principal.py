"""Principal: who calls, as routes see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stepwell.domain.access import SCOPES, AccessScope, Credential, PrincipalKind
from stepwell.domain.commit import DEFAULT_WORKSPACE

Scope = Literal[AccessScope, "any"]  # any: everybody who is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A person or service. Identity and workspace come from here, never from a body, path or header."""

    name: str
    workspace: str
    scopes: frozenset[str]
    roles: tuple[str, ...] = ()
    kind: PrincipalKind = "person"
    credential: Credential | None = None  # the key, session or link
    local: bool = False  # on a developer's machine: may name anybody as the one who decides

    def may(self, scope: Scope) -> bool:
        return scope == "any" or scope in self.scopes or "admin" in self.scopes

    @property
    def expires_at(self) -> float | None:
        return self.credential.expires_at if self.credential is not None else None


LOCAL = Principal(name="local", workspace=DEFAULT_WORKSPACE, scopes=frozenset(SCOPES), local=True)
