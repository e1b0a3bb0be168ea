"""Documents of a claimed run: what its steps saved, and what its code may see of it.

Of a function a document is visible when its step's result is released, so a replay sees the same. A
machine sees what its last checkpoint had; that may lie far back, so it is read from the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from stepwell.domain import events as ev
from stepwell.domain.codec import codec_for, encoded_by_type, limited
from stepwell.domain.documents import Documents, document_id, is_direct, is_within
from stepwell.domain.events import DocumentSaved, Kept
from stepwell.engine.run.full_log import whole_log
from stepwell.errors import DocumentNotFound, excerpt

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation
    from stepwell.engine.run.journal import Journal


def record(activation: Activation, saved: Iterable[DocumentSaved], path: str, attempt: int) -> None:
    """Draft them right before the fact that they belong to."""
    for document in saved:
        activation.record(document, path, attempt)
        note(activation.journal, document, path, attempt)


def checked(saved: Sequence[DocumentSaved], path: str, limit: int) -> Sequence[DocumentSaved]:
    """PayloadTooLarge when one of them is larger than a value may be."""
    for document in saved:
        limited(bytes(document.value), f"document {document.name} of {path}", limit)
    return saved


def note(journal: Journal, document: DocumentSaved, path: str, attempt: int) -> None:
    journal.saved.setdefault(path, []).append((attempt, document))


def show(journal: Journal, path: str) -> None:
    """The step's result is known from here on, and with it what it saved."""
    for _, document in journal.saved.pop(path, ()) if journal.accepted.kind != "machine" else ():
        keep(journal, document)


def keep(journal: Journal, document: DocumentSaved) -> None:
    before = journal.documents.get(document.name)
    version = before.version + 1 if before is not None else 1
    journal.documents[document.name] = Kept(
        name=document.name, version=version, type=document.type, value=document.value
    )


def save(activation: Activation, path: str, name: str, value: Any) -> None:
    """What workflow code keeps itself. Of a machine it counts when this attempt succeeds."""
    data = limited(encoded_by_type(value), f"document {name}", activation.services.payload_bytes_max)
    document = DocumentSaved(name=name, type=type(value).__qualname__, value=Raw(data))
    journal = activation.journal
    activation.check_open()
    if activation.visits is not None:
        again = journal.saved.get(path, [])[-1:] == [(journal.attempts.begun, document)]
        if not again:  # else the body was left while it waited, and has begun anew
            record(activation, [document], path, journal.attempts.begun)
        return
    if path not in journal.told:
        journal.told.add(path)
        activation.record(document, path)
    keep(journal, document)


def visible_after(journal: Journal, visit: str, *, failed: bool) -> list[str]:
    """The ids of a machine's documents at the checkpoint that this visit leads to."""
    if not journal.saved:
        return journal.shelf
    found = dict(item.rsplit("@", 1) for item in journal.shelf)
    for path, saved in journal.saved.items() if not failed else ():
        if is_within(path, visit):
            latest = {document.name: attempt for attempt, document in saved}
            for name, attempt in latest.items():
                if not is_direct(path) or attempt == journal.attempts.begun:
                    found[name] = str(int(found.get(name, "0")) + 1)
    return [document_id(name, int(version)) for name, version in found.items()]


async def read(activation: Activation, name: str, type: Any) -> Any:
    journal = activation.journal
    if activation.visits is None:
        kept = journal.documents.get(name)
        found = None if kept is None else kept.value
    else:
        documents = Documents()
        await whole_log(activation, lambda row: documents.take(ev.read(row)))
        document = documents.latest.get(name)
        found = None if document is None else document.value
    if found is None:
        raise DocumentNotFound(f"the run has no document {excerpt(name)} here")
    return codec_for(type).decode(found)
