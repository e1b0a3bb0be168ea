"""Documents of a claimed run: what its steps saved, and what its code may see of it.

A function sees a document when the result of the step that saved it is released, so a replay sees the same. A
machine sees what its last checkpoint had; that may lie far back, so it is read from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.codec import codec_for, encoded_by_type, limited
from stepwell.domain.documents import DETAILS, USAGE, Documents, document_id, is_direct, is_within
from stepwell.domain.events import DocumentSaved, Kept
from stepwell.engine.run.full_log import whole_log
from stepwell.engine.run.journal import Journal
from stepwell.engine.run.port import RunPort, check_open
from stepwell.errors import DocumentNotFound, excerpt


def record(run: RunPort, saved: Iterable[DocumentSaved], path: str, attempt: int) -> None:
    """Draft them right before the fact that they belong to."""
    for document in saved:
        if document.name == DETAILS:
            run.record(ev.DetailsReported(details=document.value), path, attempt)
            continue
        if document.name == USAGE:
            run.record(msgspec.json.decode(document.value, type=ev.UsageReported), path, attempt)
            continue
        run.record(document, path, attempt)
        run.journal.saved.setdefault(path, []).append((attempt, document))


def record_details(run: RunPort, saved: Iterable[DocumentSaved], path: str, attempt: int) -> None:
    """Draft a failed attempt's details and usage. Its documents do not count."""
    shown: Sequence[DocumentSaved] = [one for one in saved if one.name in (DETAILS, USAGE)]
    if run.services.redact is not None:
        shown = redacted(shown, run.services.redact)
    record(run, shown, path, attempt)


def checked(saved: Sequence[DocumentSaved], path: str, limit: int) -> Sequence[DocumentSaved]:
    """PayloadTooLarge when one of them is larger than a value may be."""
    for document in saved:
        limited(bytes(document.value), f"document {document.name} of {path}", limit)
    return saved


def redacted(saved: Sequence[DocumentSaved], redact: Callable[[bytes], bytes]) -> Sequence[DocumentSaved]:
    """Remove the values of secrets. Usage is numbers only, and is counted as it is."""
    return [
        document if document.name == USAGE else replace(document, value=Raw(redact(bytes(document.value))))
        for document in saved
    ]


def show(journal: Journal, path: str) -> None:
    """The code has the step's result from here on, and with it what the step saved."""
    for _, document in journal.saved.pop(path, ()):
        keep(journal, document)


def keep(journal: Journal, document: DocumentSaved) -> None:
    before = journal.documents.get(document.name)
    version = before.version + 1 if before is not None else 1
    journal.documents[document.name] = Kept(
        name=document.name, version=version, type=document.type, value=document.value
    )


def encoded(run: RunPort, name: str, value: Any) -> DocumentSaved:
    data = limited(encoded_by_type(value), f"document {name}", run.services.payload_bytes_max)
    return DocumentSaved(name=name, type=type(value).__qualname__, value=Raw(data))


def save(run: RunPort, path: str, name: str, value: Any) -> None:
    """Record a document of the workflow's own code; it is visible at once, and again in a replay."""
    document, journal = encoded(run, name, value), run.journal
    check_open(run)
    if path not in journal.news:
        journal.news.add(path)
        run.record(document, path)
    keep(journal, document)


def save_in_visit(run: RunPort, path: str, name: str, value: Any) -> None:
    """Record a document of a transition; it counts when this attempt succeeds."""
    document, journal = encoded(run, name, value), run.journal
    check_open(run)
    begun = journal.attempts.begun
    again = journal.saved.get(path, [])[-1:] == [(begun, document)]
    if not again:  # else the attempt was left while it waited, and has begun anew
        record(run, [document], path, begun)


def visible_after(journal: Journal, visit: str, *, failed: bool) -> list[str]:
    """The ids of a machine's documents at the checkpoint that this visit leads to."""
    if not journal.saved:
        return list(journal.document_ids)
    versions = dict(item.rsplit("@", 1) for item in journal.document_ids)
    for path, saved in journal.saved.items() if not failed else ():
        if is_within(path, visit):
            latest = {document.name: attempt for attempt, document in saved}
            for name, attempt in latest.items():
                if not is_direct(path) or attempt == journal.attempts.begun:
                    versions[name] = str(int(versions.get(name, "0")) + 1)
    return [document_id(name, int(version)) for name, version in versions.items()]


def read(journal: Journal, name: str, type: Any) -> Any:
    """The latest version that a function has seen."""
    document = journal.documents.get(name)
    return _decoded(None if document is None else document.value, name, type)


async def read_at_checkpoint(run: RunPort, name: str, type: Any) -> Any:
    """The latest version at a machine's last checkpoint."""
    documents = Documents()
    await whole_log(run, lambda row: documents.take(ev.read(row)))
    document = documents.latest.get(name)
    return _decoded(None if document is None else document.value, name, type)


def _decoded(value: Raw | None, name: str, type: Any) -> Any:
    if value is None:
        raise DocumentNotFound(f"the run has no document {excerpt(name)} here")
    return codec_for(type).decode(value)
