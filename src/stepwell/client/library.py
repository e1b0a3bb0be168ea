"""GraphLibrary: the saved graphs of a workspace. Drafts are edited; publishing a draft makes a version.

Runs keep the graph they began with, so nothing here affects them. An editor passes the hash of the draft
it loaded (`expected`). If two editors save over the same draft, the second gets a Conflict that says who
changed it and which nodes differ. If two create or publish at once, one gets the conflict, or the next
version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from stepwell.client.declared_triggers import DeclaredTriggers
from stepwell.domain.commit import Definition
from stepwell.domain.ids import DRAFT
from stepwell.domain.program import Startable
from stepwell.domain.text import checked_text
from stepwell.domain.triggers.declared import DeclaredTrigger, triggers_of
from stepwell.errors import Conflict, UnknownWorkflow, excerpt

if TYPE_CHECKING:
    from stepwell.client.client import Client


class DraftInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Who saved a draft, and when. Stored as the options of its definition."""

    by: str = ""
    at: float = 0.0


class LibraryTools(Protocol):
    """Checks, hashes and compares graphs. Implemented in authoring, which the client does not import."""

    async def checked(self, source: Any, **options: Any) -> Startable[Any, Any]: ...
    async def warned(self, source: Any) -> Sequence[object]: ...
    async def compared(self, old: Any, new: Any) -> dict[str, Any]: ...
    def content_hash(self, body: Any) -> str: ...
    def version_hash(self, body: Any) -> str: ...


@dataclass(frozen=True, slots=True)
class SavedGraph:
    name: str
    hash: str  # of the draft, including the positions of its nodes
    versions: tuple[str, ...]  # published, oldest first
    changed: bool  # the draft differs from the last published version; positions of nodes do not count
    by: str = ""  # who saved the draft
    at: float = 0.0  # when the draft was saved
    warnings: tuple[str, ...] = ()  # set on save: settings that have no effect


class GraphLibrary:
    def __init__(
        self, client: Client, tools: LibraryTools, begin_to_work: Callable[[], Awaitable[None]]
    ) -> None:
        self._client = client
        self._tools = tools
        self._begin_to_work = begin_to_work

    async def list(self) -> list[SavedGraph]:
        graphs = await self._graphs()
        return [self._saved(name, versions) for name, versions in graphs.items()]

    async def drafts(self) -> Sequence[tuple[SavedGraph, dict[str, Any]]]:
        """List the saved graphs with the JSON of their drafts."""
        graphs = await self._graphs()
        return [
            (self._saved(name, versions), msgspec.json.decode(versions["draft"].body))
            for name, versions in graphs.items()
        ]

    async def get(self, name: str, version: str | int = "draft") -> dict[str, Any]:
        """Return the JSON of a graph: its draft, `published` (the latest) or a version."""
        definitions, version = await self._definitions(name), str(version)
        if version == "published":
            version = _published(definitions)[-1] if len(definitions) > 1 else version
        if version not in definitions:
            raise UnknownWorkflow(
                f"graph {excerpt(name)} has no version {excerpt(version)}",
                hint=f"it has: {', '.join(definitions)}",
            )
        body: dict[str, Any] = msgspec.json.decode(definitions[version].body)
        return body

    async def about(self, name: str) -> SavedGraph:
        return self._saved(name, await self._definitions(name))

    async def create(self, body: Any, *, name: str = "", by: str = "") -> SavedGraph:
        """Save a new graph as a draft. InvalidGraph lists everything that is wrong with it."""
        draft = await self._draft(await self._definition(body, name), by)
        name = draft.name.removeprefix(DRAFT)
        if not await self._swap(draft, ""):
            raise Conflict(
                f"graph {excerpt(name)} already exists{await self._saved_by(name)}",
                hint="update it, or choose another name",
            )
        return await self._with_warnings(name, body)

    async def update(self, name: str, body: Any, *, expected: str = "", by: str = "") -> SavedGraph:
        """Replace the draft, nodes and edges at once; Conflict if its hash is not `expected`.

        Without `expected` the draft is replaced unconditionally.
        """
        await self._definitions(name)
        draft = await self._draft(await self._definition(body, name), by)
        if not expected:
            await self._client.store.put_definitions([draft])
        elif not await self._swap(draft, expected):
            raise await self._changed(name, draft)
        return await self._with_warnings(name, body)

    async def _with_warnings(self, name: str, body: Any) -> SavedGraph:
        return replace(await self.about(name), warnings=tuple(map(str, await self._tools.warned(body))))

    async def _changed(self, name: str, mine: Definition) -> Conflict:
        theirs = (await self._definitions(name))["draft"]
        bodies = (msgspec.json.decode(draft.body) for draft in (theirs, mine))
        nodes = (await self._tools.compared(*bodies))["nodes"]
        differing = ", ".join([*nodes["added"], *nodes["removed"], *nodes["changed"]])
        return Conflict(
            f"the draft of {excerpt(name)} was changed by somebody else{await self._saved_by(name)}",
            hint="load the draft and try again",
            draft=theirs.hash,
            nodes=f"other than yours: {differing or 'none'}",
        )

    async def _saved_by(self, name: str) -> str:
        saved = await self.about(name)
        if not saved.at:
            return ""
        when = datetime.fromtimestamp(saved.at, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f" ({saved.by or 'anonymous'}, {when})"

    async def delete(self, name: str) -> None:
        """Delete the graph with its versions and triggers. Runs that have started continue."""
        await self._definitions(name)
        await DeclaredTriggers(self._client).remove(name)
        await self._client.store.drop_definitions(self._client.workspace, DRAFT + name, name)

    async def publish(self, name: str, *, expected: str = "", by: str = "") -> str:
        """Make the draft a version and return its number. An unchanged draft makes no new version.

        From then on, the triggers of the graph are those of this version. If publishing is interrupted,
        publish again: it completes the rest. Conflict: the hash of the draft is not `expected`.
        """
        while True:
            definitions = await self._definitions(name)
            versions, draft = _published(definitions), definitions["draft"]
            if expected and draft.hash != expected:
                raise await self._changed(name, draft)
            if versions and not self._differ(definitions[versions[-1]], draft):
                await self._retitle(definitions[versions[-1]], draft)
                body = msgspec.json.decode(definitions[versions[-1]].body)
                same = await self._tools.checked(body, name=name, version=versions[-1], stored=True)
                await self._declare(name, triggers_of(same), by)
                return versions[-1]
            version = str(int(versions[-1]) + 1 if versions else 1)
            body = msgspec.json.decode(draft.body)
            workflow = await self._tools.checked(body, name=name, version=version)
            who = checked_text(by, "by")
            if await self._swap(self._in_workspace(workflow.definition, created_by=who), ""):
                await self._declare(name, triggers_of(workflow), who)
                return version
            # Somebody published meanwhile: read again which version is next.

    async def _declare(self, name: str, declared: Sequence[DeclaredTrigger], by: str) -> None:
        await DeclaredTriggers(self._client).declare(name, declared, by=by)
        if declared:
            await self._begin_to_work()  # they start runs that no other worker would take

    async def _retitle(self, published: Definition, draft: Definition) -> None:
        """Give a version the title of a draft that is otherwise the same: it is not part of the version."""
        title, description = draft.title, draft.description
        changed = msgspec.structs.replace(published, title=title, description=description)
        if changed != published:
            await self._client.store.put_definitions([changed])

    async def diff(self, name: str, old: str | int, new: str | int = "draft") -> dict[str, Any]:
        """Return what changed between two versions; `draft` and `published` count as versions."""
        return await self._tools.compared(await self.get(name, old), await self.get(name, new))

    async def start(
        self, name: str, input: Any = None, *, version: str | int = "published", **options: Any
    ) -> Any:
        """Start a published version. The graph is stored with the run, so any worker can run it."""
        definitions = await self._definitions(name)
        versions = _published(definitions)
        chosen = versions[-1] if version == "published" and versions else str(version)
        if chosen not in versions:
            raise UnknownWorkflow(
                f"graph {excerpt(name)} has no version {excerpt(version)}", hint="publish it first"
            )
        body = msgspec.json.decode(definitions[chosen].body)
        workflow = await self._tools.checked(body, name=name, version=chosen, stored=True)
        await self._begin_to_work()
        start: Callable[..., Awaitable[Any]] = self._client.start  # `graph` is not a public option
        return await start(workflow, input, graph=workflow.definition.body, **options)

    # Parts

    async def _definition(self, body: Any, name: str) -> Definition:
        options = {"name": name} if name else {}
        return (await self._tools.checked(body, **options)).definition

    def _in_workspace(self, definition: Definition, **changes: Any) -> Definition:
        return msgspec.structs.replace(definition, workspace=self._client.workspace, **changes)

    async def _draft(self, definition: Definition, by: str) -> Definition:
        info = DraftInfo(by=checked_text(by, "by"), at=await self._client.store.now())
        options = msgspec.json.encode(info)
        # Not the hash of a version: if two editors move nodes, the second must get a conflict.
        hash = self._tools.content_hash(msgspec.json.decode(definition.body))
        name = DRAFT + definition.name
        return self._in_workspace(
            definition,
            name=name,
            version="draft",
            kind="graph_draft",
            hash=hash,
            options=options,
            created_by=info.by,
        )

    def _saved(self, name: str, definitions: dict[str, Definition]) -> SavedGraph:
        versions, draft = _published(definitions), definitions["draft"]
        changed = not versions or self._differ(definitions[versions[-1]], draft)
        info = msgspec.json.decode(draft.options, type=DraftInfo)
        return SavedGraph(name, draft.hash, versions, changed, info.by, info.at)

    def _differ(self, one: Definition, other: Definition) -> bool:
        """Compare contents, not stored hashes: older ones included the positions of nodes."""
        if one.body == other.body:
            return False
        hashes = [self._tools.version_hash(msgspec.json.decode(saved.body)) for saved in (one, other)]
        return hashes[0] != hashes[1]

    async def _swap(self, definition: Definition, expected: str) -> bool:
        store = self._client.store
        return await self._client.call_idempotent(
            lambda: store.swap_definition(definition, expected=expected)
        )

    async def _graphs(self, *names: str) -> dict[str, dict[str, Definition]]:
        """Return the saved graphs by name, or those of these names: `draft` and the published versions."""
        wanted = [part for name in names for part in (DRAFT + name, name)]
        listed = await self._client.store.list_definitions(self._client.workspace, *wanted)
        graphs = {d.name.removeprefix(DRAFT): {"draft": d} for d in listed if d.kind == "graph_draft"}
        for definition in listed:
            if definition.kind == "graph" and definition.name in graphs:
                graphs[definition.name][definition.version] = definition
        return graphs

    async def _definitions(self, name: str) -> dict[str, Definition]:
        checked_text(name, "name")
        graphs = await self._graphs(name)
        if name not in graphs:
            known = ", ".join(await self._graphs())
            raise UnknownWorkflow(
                f"no graph {excerpt(name)} is saved", hint=f"saved graphs: {known or 'none'}"
            )
        return graphs[name]


def _published(definitions: dict[str, Definition]) -> tuple[str, ...]:
    """Return the published versions, oldest first."""
    return tuple(sorted((v for v in definitions if v.isdigit()), key=int))
