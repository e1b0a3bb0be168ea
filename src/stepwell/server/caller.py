"""Caller: one request's principal and the engine as that principal may use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request

from stepwell.app import Engine
from stepwell.client import RunHandle
from stepwell.domain.commit import RunRow
from stepwell.server.principal import Principal
from stepwell.server.refusal import Refusal

RunPath = Annotated[
    str,
    Path(
        pattern=r"^[0-9a-f]{32}$",
        description="id of a run",
        examples=["0192f0c1d2e3740f8a9b0c1d2e3f4a5b"],
    ),
]


class Caller:
    def __init__(self, engine: Engine, principal: Principal) -> None:
        self.engine = engine.within(principal.workspace)  # everything it finds is in the caller's workspace
        self.principal = principal
        self.is_home = self.engine is engine

    @property
    def name(self) -> str:
        return self.principal.name

    async def run(self, run_id: str) -> tuple[RunHandle[Any], RunRow]:
        """Return a run of the caller's workspace; the run of another one looks like none."""
        handle = self.engine.handle(run_id)
        return handle, await handle.info()

    async def handle(self, run_id: str) -> RunHandle[Any]:
        return (await self.run(run_id))[0]

    def who(self, by: str) -> str:
        """Return who acts: the caller, or in local mode the person that the caller names."""
        if by and by != self.principal.name and not self.principal.local:
            raise Refusal(
                403,
                "FORBIDDEN",
                f"this is recorded as done by {self.principal.name}, the name of the key",
                hint="leave `by` out; only the launch token of a local server may name somebody else",
                field="by",
            )
        return by or self.principal.name

    def at_home(
        self, what: str, hint: str = "ask the operator of the server: a key of its own workspace may"
    ) -> Caller:
        """Refuse what concerns all workspaces, except in the server's own workspace."""
        if not self.is_home:
            raise Refusal(403, "FORBIDDEN", f"{what} are shared by all workspaces", hint=hint)
        return self

    def roles(self, roles: Sequence[str]) -> Sequence[str]:
        """Return the roles that count for an approval: the caller's, or in local mode the given ones."""
        if roles and not self.principal.local:
            raise Refusal(
                403, "FORBIDDEN", "roles come from the key", hint="leave `roles` out", field="roles"
            )
        return roles or self.principal.roles


def caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller
