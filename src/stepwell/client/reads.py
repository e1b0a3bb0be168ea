"""Past: what a run's log tells of any moment: its state, its checkpoints, its documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar, overload

from stepwell.domain import events as ev
from stepwell.domain.codec import codec_for
from stepwell.domain.commit import LogRow
from stepwell.domain.documents import Document, Documents
from stepwell.domain.events import Event
from stepwell.domain.fork.prefix import checkpoints
from stepwell.domain.ids import RunId
from stepwell.domain.state import Checkpoint, RunState, fold
from stepwell.errors import DocumentNotFound, InvalidInput, excerpt, shortened

T = TypeVar("T")


class Past:
    """Part of a handle. `at` is a seq of the log: as it was after that event; None: now."""

    id: RunId

    def log(self) -> AsyncIterator[LogRow]:
        raise NotImplementedError

    async def _events(self, at: int | None = None) -> list[Event]:
        known = at is None or (type(at) is int and at >= 1)
        found = [ev.read(row, self.id) async for row in self.log() if known and (at is None or row.seq <= at)]
        if not known or (at is not None and at > len(found)):
            raise InvalidInput(
                f"run {self.id} has no event {excerpt(at)}", hint="give a seq of its log, 1 or more"
            )
        return found

    async def state(self, at: int | None = None) -> RunState:
        """The run as its log tells it, now or after any event of its past."""
        return fold(await self._events(at))

    async def checkpoints(self) -> list[Checkpoint]:
        """After each step or transition: number, place, seq, state and the documents visible there."""
        return checkpoints(await self._events())

    async def documents(self, at: int | None = None) -> list[Document]:
        """The latest version of each document that is visible."""
        return sorted((await self._shelf(at)).latest.values(), key=lambda document: document.name)

    @overload
    async def document(self, name: str, *, at: int | None = None, version: int | None = None) -> Any: ...
    @overload
    async def document(
        self, name: str, type: type[T], *, at: int | None = None, version: int | None = None
    ) -> T: ...
    async def document(
        self, name: str, type: Any = Any, *, at: int | None = None, version: int | None = None
    ) -> Any:
        """The value of a document: the latest visible one, or that version."""
        shelf = await self._shelf(at)
        found = [d for d in shelf.versions if d.name == name and version in (None, d.version)]
        if not found:
            known = ", ".join(d.id for d in shelf.versions[-10:]) or "none"
            asked: object = name  # callers without types give anything
            what = shortened(asked) if isinstance(asked, str) else excerpt(asked)
            what += "" if version is None else f" version {excerpt(version)}"
            raise DocumentNotFound(f"run {self.id} has no document {what}", documents=known)
        try:
            return codec_for(type).decode(found[-1].value)
        except InvalidInput as error:
            raise InvalidInput(
                f"document {found[-1].id} of run {self.id} is no {getattr(type, '__name__', type)}: "
                f"{error.message}",
                hint=f"it was saved as {found[-1].type}; leave the type out to get its JSON",
                **error.context,
            ) from None

    async def _shelf(self, at: int | None) -> Documents:
        shelf = Documents()
        for event in await self._events(at):
            shelf.take(event)
        return shelf
