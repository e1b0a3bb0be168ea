"""Caller: one request's principal and the engine as that principal may use it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from starlette.requests import Request

from stepwell.app import Engine
from stepwell.client import RunHandle
from stepwell.domain.commit import RunRow
from stepwell.errors import RunNotFound
from stepwell.server.access import Principal
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
        self._engine = engine
        self.principal = principal

    @property
    def engine(self) -> Engine:
        """Return the engine, whose lists, starts and graphs are those of one workspace: the caller's."""
        if self.principal.workspace != self._engine.workspace:
            raise Refusal(403, "FORBIDDEN", "this server serves another workspace")
        return self._engine

    async def run(self, run_id: str) -> tuple[RunHandle[Any], RunRow]:
        """Return a run of the caller's workspace; the run of another one looks like none."""
        handle = self._engine.handle(run_id)
        row = await handle.info()
        if row.workspace != self.principal.workspace:
            raise RunNotFound(f"there is no run {run_id}")
        return handle, row

    async def handle(self, run_id: str) -> RunHandle[Any]:
        return (await self.run(run_id))[0]

    def decider(self, by: str) -> str:
        """Return who decides: the caller; in local mode anybody the caller names."""
        if by and by != self.principal.name and not self.principal.local:
            raise Refusal(403, "FORBIDDEN", "only you can decide in your name", hint="leave `by` out")
        return by or self.principal.name


def caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller
