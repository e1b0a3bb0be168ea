"""Documents: named values that steps save for readers of the run; each save is a new version.

A document becomes visible with its checkpoint: in a function, the step that saved it; in a machine, the
transition. Documents of a failed attempt are never visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import encoded_by_type
from stepwell.domain.events import DocumentSaved, Event
from stepwell.domain.usage import Usage

DETAILS = "#details"  # a step's details travel as a document, under a name that no document can have
USAGE = "#usage"  # so does its usage
DETAILS_BYTES_MAX = 4096
DIRECT = "save:"  # in the path of a document that the workflow's own code saved, not one of its steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    name: str
    version: int
    type: str
    value: Raw
    path: str
    seq: int
    at: float

    @property
    def id(self) -> str:
        return document_id(self.name, self.version)

    def __repr__(self) -> str:
        return f"<document {self.id}, seq {self.seq}: {bytes(self.value).decode()}>"


def shown_details(values: dict[str, Any]) -> DocumentSaved:
    """Return a step's details, or only their names if they are too large."""
    data = encoded_by_type(values)
    if len(data) > DETAILS_BYTES_MAX:
        names = [name[:100] for name in list(values)[:20]]
        data = encoded_by_type({"truncated": True, "bytes": len(data), "names": names})
    return DocumentSaved(name=DETAILS, type="", value=Raw(data))


def shown_usage(usage: Usage) -> DocumentSaved:
    return DocumentSaved(name=USAGE, type="", value=Raw(msgspec.json.encode(usage)))


def document_id(name: str, version: int) -> str:
    return f"{name}@{version}"


def is_direct(path: str) -> bool:
    return path.rpartition("/")[2].startswith(DIRECT)


def is_within(path: str, visit: str) -> bool:
    """Whether the path belongs to that visit of a machine: to its body or a branch of it (`visit~1/...`)."""
    return path.startswith(visit) and path[len(visit) : len(visit) + 1] in ("/", "~")


class Documents:
    """The visible documents, event by event; `versions` has every version so far."""

    def __init__(self) -> None:
        self.versions: list[Document] = []
        self._machine = False
        self._counts: dict[str, int] = {}
        self._pending: dict[tuple[str, str], tuple[Event, ev.DocumentSaved]] = {}

    @property
    def latest(self) -> dict[str, Document]:
        return {document.name: document for document in self.versions}

    def take(self, event: Event) -> None:
        match event.fact:
            case ev.Accepted(kind=kind):
                self._machine = kind == "machine"
            case ev.DocumentSaved() as saved:
                self._pending.pop((event.path, saved.name), None)
                self._pending[event.path, saved.name] = (event, saved)
                if is_direct(event.path) and not self._machine:
                    self._show(event.path)
            case ev.StepCompleted() if not self._machine:
                self._show(event.path)
            case ev.TransitionCompleted(error=error):
                self._settle_visit(event, kept=error is None)
            case _:
                pass

    def _show(self, path: str) -> None:
        for key in [key for key in self._pending if key[0] == path]:
            self._keep(*self._pending.pop(key))

    def _settle_visit(self, completed: Event, *, kept: bool) -> None:
        """Of the documents that the code itself saved, only those of the successful attempt count."""
        for event, saved in self._pending.values():
            inside = is_within(event.path, completed.path)
            if kept and inside and (not is_direct(event.path) or event.attempt == completed.attempt):
                self._keep(event, saved)
        self._pending.clear()

    def _keep(self, event: Event, saved: ev.DocumentSaved) -> None:
        version = self._counts[saved.name] = self._counts.get(saved.name, 0) + 1
        self.versions.append(
            Document(
                name=saved.name,
                version=version,
                type=saved.type,
                value=saved.value,
                path=event.path,
                seq=event.seq,
                at=event.at,
            )
        )
