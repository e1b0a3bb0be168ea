"""Routes about this server and its database: what they are, and whether the database is sound."""

from __future__ import annotations

import os

from pydantic import BaseModel, Field
from starlette.requests import Request

from stepwell.client import database
from stepwell.domain.commit import DEFAULT_WORKSPACE
from stepwell.server.caller import caller_of


class AboutView(BaseModel):
    """What this server is."""

    name: str = "stepwell"
    version: str
    api: str = Field(examples=["/api/v1"])
    workspace: str = Field(description="workspace of the caller")
    default_workspace: str
    works: bool = Field(description="this process runs workflows, too")
    database: str = Field(description="memory, sqlite or postgres")
    file: str = Field(default="", description="path of a SQLite database; shown to admins")
    slots: int = Field(default=0, description="runs that this process drives at once, if it has a worker")
    keep_ended_seconds: float | None = Field(
        default=None, description="this process removes runs that long after their end; null: never"
    )


async def about(request: Request) -> AboutView:
    """Describe this server."""
    caller = caller_of(request)
    engine = request.app.state.engine
    store = getattr(engine.store, "_store", engine.store)
    may_know = caller.is_home and "admin" in caller.principal.scopes
    return AboutView(
        version=request.app.version,
        api=f"{request.scope.get('root_path', '')}/api/v1",
        workspace=caller.principal.workspace,
        default_workspace=DEFAULT_WORKSPACE,
        works=engine.worker is not None,
        database=type(store).__module__.split(".")[2],
        file=_beneath_here(getattr(store, "path", "")) if may_know else "",
        slots=engine.settings.slots if engine.worker is not None else 0,
        keep_ended_seconds=engine.settings.keep_ended_seconds,
    )


def _beneath_here(path: str) -> str:
    """Return the path as a person would type it where the server was started."""
    short = os.path.relpath(path) if path else ""
    return path if short.startswith("..") else short


class DatabaseView(BaseModel):
    """The database of this server, with the rows of all workspaces."""

    schema_version: int = Field(alias="schema", description="version of its tables")
    newest: int = Field(description="version that this server knows")
    bytes: int
    encoded: bool = Field(description="whether its payloads are encrypted or compressed")
    counts: dict[str, int] = Field(description="number of rows of each kind", examples=[{"runs": 1200}])


class FaultView(BaseModel):
    run: str = Field(description="empty if no single run is damaged")
    text: str


class DatabaseCheck(BaseModel):
    sound: bool
    faults: list[FaultView]


async def get_database(request: Request) -> DatabaseView:
    """Return the version of its tables, its size, and how many rows it has."""
    caller = caller_of(request).at_home("the tables")
    return DatabaseView(**(await database.info(caller.engine.store))._asdict())


async def check_database(request: Request) -> DatabaseCheck:
    """Look for damage: broken pages, gaps in logs, tickets that do not match their runs. Reads every log."""
    caller = caller_of(request).at_home("the tables")
    faults = await database.check(caller.engine.store)
    return DatabaseCheck(
        sound=not faults, faults=[FaultView(run=fault.run or "", text=fault.text) for fault in faults]
    )
