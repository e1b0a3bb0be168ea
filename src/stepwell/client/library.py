"""GraphLibrary: saved graphs of a workspace. A draft is edited; publishing it makes a version.

Runs keep the graph they began with, so nothing here touches them. Whoever edits says which draft was
seen (`expected`, its hash): of two who save over the same draft one is told that it has changed, by whom,
and where it differs. Of two who create or publish at once one gets the conflict, or the next version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from stepwell.domain.commit import Definition
from stepwell.domain.ids import DRAFT
from stepwell.domain.program import Startable
from stepwell.domain.text import checked_text
from stepwell.errors import Conflict, UnknownWorkflow, excerpt

if TYPE_CHECKING:
    from stepwell.client.client import Client


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """Who saved a draft, and when."""

    by: str = ""
    at: float = 0.0


class LibraryTools(Protocol):
    """What is known of graphs elsewhere: checking them, and telling them apart."""

    def warnings(self, source: Any) -> Sequence[object]: ...

    def workflow(self, source: Any, **options: Any) -> Startable[Any, Any]: ...
    def diff(self, old: Any, new: Any) -> dict[str, Any]: ...
    def content_hash(self, body: Any) -> str: ...
    def version_hash(self, body: Any) -> str: ...


@dataclass(frozen=True, slots=True)
class SavedGraph:
    name: str
    hash: str  # of the draft, with where its nodes lie
    versions: tuple[str, ...]  # published, oldest first
    changed: bool  # the draft differs from the last published version; where nodes lie does not count
    by: str = ""  # who saved the draft, and when
    at: float = 0.0
    warnings: tuple[str, ...] = ()  # told when it is saved: what it says in vain


class GraphLibrary:
    def __init__(
        self, client: Client, tools: LibraryTools, begin_to_work: Callable[[], Awaitable[None]]
    ) -> None:
        self._client = client
        self._tools = tools
        self._begin_to_work = begin_to_work

    async def list(self) -> list[SavedGraph]:
        known = await self._known()
        return [self._saved(name, found) for name, found in known.items()]

    async def get(self, name: str, version: str | int = "draft") -> dict[str, Any]:
        """The graph's JSON: its draft, `published` (the latest) or a version."""
        found, version = await self._found(name), str(version)
        if version == "published":
            version = _versions(found)[-1] if len(found) > 1 else version
        if version not in found:
            raise UnknownWorkflow(
                f"graph {excerpt(name)} has no version {excerpt(version)}", hint=f"it has: {', '.join(found)}"
            )
        body: dict[str, Any] = msgspec.json.decode(found[version].body)
        return body

    async def about(self, name: str) -> SavedGraph:
        return self._saved(name, await self._found(name))

    async def create(self, body: Any, *, name: str = "", by: str = "") -> SavedGraph:
        """A new graph, as a draft. InvalidGraph says all that is wrong with it."""
        draft = await self._draft(self._made(body, name), by)
        name = draft.name.removeprefix(DRAFT)
        if not await self._swap(draft, ""):
            raise Conflict(
                f"there is a graph {excerpt(name)} already{await self._saved_by(name)}",
                hint="update it, or choose another name",
            )
        return await self._told(name, body)

    async def update(self, name: str, body: Any, *, expected: str = "", by: str = "") -> SavedGraph:
        """Replace the draft, nodes and edges at once; Conflict when it is not the one that you saw.

        Without `expected` it is replaced whatever it is.
        """
        await self._found(name)
        draft = await self._draft(self._made(body, name), by)
        if not expected:
            await self._client.store.put_definitions([draft])
        elif not await self._swap(draft, expected):
            raise await self._changed(name, draft)
        return await self._told(name, body)

    async def _told(self, name: str, body: Any) -> SavedGraph:
        return replace(await self.about(name), warnings=tuple(map(str, self._tools.warnings(body))))

    async def _changed(self, name: str, mine: Definition) -> Conflict:
        theirs = (await self._found(name))["draft"]
        nodes = self._tools.diff(msgspec.json.decode(theirs.body), msgspec.json.decode(mine.body))["nodes"]
        differing = ", ".join([*nodes["added"], *nodes["removed"], *nodes["changed"]])
        return Conflict(
            f"the draft of {excerpt(name)} was changed by somebody else{await self._saved_by(name)}",
            hint="load it and try again",
            draft=theirs.hash,
            nodes=f"other than yours: {differing or 'none'}",
        )

    async def _saved_by(self, name: str) -> str:
        saved = await self.about(name)
        if not saved.at:
            return ""
        when = datetime.fromtimestamp(saved.at, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f" ({saved.by or 'without a name'}, {when})"

    async def delete(self, name: str) -> None:
        """Forget the graph and its versions. Runs that have begun go on."""
        await self._found(name)
        await self._client.store.drop_definitions(self._client.workspace, DRAFT + name, name)

    async def publish(self, name: str, *, expected: str = "") -> str:
        """Make a version of the draft; publishing what is published already changes nothing.

        Conflict when the draft is not the one that you saw (`expected`).
        """
        while True:
            found = await self._found(name)
            versions, draft = _versions(found), found["draft"]
            if expected and draft.hash != expected:
                raise await self._changed(name, draft)
            if versions and not self._differ(found[versions[-1]], draft):
                return versions[-1]
            version = str(int(versions[-1]) + 1 if versions else 1)
            made = self._tools.workflow(msgspec.json.decode(draft.body), name=name, version=version)
            if await self._swap(self._mine(made.definition), ""):
                return version
            # Somebody published in between: look again which version is next.

    async def diff(self, name: str, old: str | int, new: str | int = "draft") -> dict[str, Any]:
        """What changed between two versions; `draft` and `published` are versions too."""
        return self._tools.diff(await self.get(name, old), await self.get(name, new))

    async def start(
        self, name: str, input: Any = None, *, version: str | int = "published", **options: Any
    ) -> Any:
        """Start a published version; the run brings its graph along, so any worker can run it."""
        found = await self._found(name)
        versions = _versions(found)
        chosen = versions[-1] if version == "published" and versions else str(version)
        if chosen not in versions:
            raise UnknownWorkflow(
                f"graph {excerpt(name)} has no version {excerpt(version)}", hint="publish it first"
            )
        body = msgspec.json.decode(found[chosen].body)
        made = self._tools.workflow(body, name=name, version=chosen, stored=True)
        await self._begin_to_work()
        start: Callable[..., Awaitable[Any]] = self._client.start  # callers of that bring no graph along
        return await start(made, input, graph=made.definition.body, **options)

    # Parts

    def _made(self, body: Any, name: str) -> Definition:
        options = {"name": name} if name else {}
        return self._tools.workflow(body, **options).definition

    def _mine(self, definition: Definition, **changes: Any) -> Definition:
        return msgspec.structs.replace(definition, workspace=self._client.workspace, **changes)

    async def _draft(self, made: Definition, by: str) -> Definition:
        saving = Saving(by=checked_text(by, "by"), at=await self._client.store.now())
        options = msgspec.json.encode(saving)
        # Not the version's hash: of two who move nodes, the second is to hear of the first.
        hash = self._tools.content_hash(msgspec.json.decode(made.body))
        return self._mine(
            made, name=DRAFT + made.name, version="draft", kind="graph_draft", hash=hash, options=options
        )

    def _saved(self, name: str, found: dict[str, Definition]) -> SavedGraph:
        versions, draft = _versions(found), found["draft"]
        changed = not versions or self._differ(found[versions[-1]], draft)
        saving = msgspec.json.decode(draft.options, type=Saving)
        return SavedGraph(name, draft.hash, versions, changed, saving.by, saving.at)

    def _differ(self, one: Definition, other: Definition) -> bool:
        """By what they say, not by the hashes that they were saved with: those were once of all of it."""
        if one.body == other.body:
            return False
        told = [self._tools.version_hash(msgspec.json.decode(saved.body)) for saved in (one, other)]
        return told[0] != told[1]

    async def _swap(self, definition: Definition, expected: str) -> bool:
        store = self._client.store
        return await self._client.patiently(lambda: store.swap_definition(definition, expected=expected))

    async def _known(self) -> dict[str, dict[str, Definition]]:
        """Saved graphs by name: `draft` and the published versions."""
        listed = await self._client.store.list_definitions(self._client.workspace)
        known = {d.name.removeprefix(DRAFT): {"draft": d} for d in listed if d.kind == "graph_draft"}
        for definition in listed:
            if definition.kind == "graph" and definition.name in known:
                known[definition.name][definition.version] = definition
        return known

    async def _found(self, name: str) -> dict[str, Definition]:
        checked_text(name, "name")
        known = await self._known()
        if name not in known:
            raise UnknownWorkflow(
                f"no graph {excerpt(name)} is saved", hint=f"saved are: {', '.join(known) or 'none'}"
            )
        return known[name]


def _versions(found: dict[str, Definition]) -> tuple[str, ...]:
    return tuple(sorted((v for v in found if v.isdigit()), key=int))
