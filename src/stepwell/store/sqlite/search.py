"""Search: lists of runs by the narrowest index, and numbers of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from stepwell.domain.commit import RunFilter, RunRow
from stepwell.domain.search import (
    USUAL_TRIGGER,
    BucketCount,
    BucketFilter,
    DecidedFilter,
    DecidedRow,
    RunCount,
    WaitFilter,
    WaitRow,
    bounds_of,
    first_waits,
    key_end,
    key_limit,
    shown_buckets,
    shown_counts,
    terms_of,
)
from stepwell.domain.status import Status
from stepwell.store.sqlite.reads import run_row
from stepwell.store.sqlite.session import Session, as_list


def list_runs(session: Session, filter: RunFilter) -> Sequence[RunRow]:
    """Read the places of a page, then its rows, at one moment."""
    session.run("begin_read")
    try:
        places = sorted(set(chain.from_iterable(_places(session, filter))), reverse=True)[: filter.limit]
        rows = session.rows("found_rows", as_list([run_id for _, run_id in places]))
    finally:
        session.run("commit")
    return [run_row(row) for row in rows]


def _places(session: Session, filter: RunFilter) -> Iterator[list[tuple[Any, str]]]:
    """Return the next places in each part of the list: of a group of runs, or of all."""
    terms, bounds = terms_of(filter), bounds_of(filter)
    values: dict[str, Any] = {
        "workspace": filter.workspace,
        "workflow": filter.workflow,
        "version": filter.version,
        "queue": filter.queue,
        "trigger": filter.trigger,
        "parent": filter.parent,
        "key": filter.key,
        "prefix": filter.prefix,
        "key_limit": key_limit(filter),
        "id_prefix": filter.id_prefix,
        "id_limit": key_end(filter.id_prefix),
        "statuses": as_list(list(filter.statuses)),
        "terms": as_list(terms),
        "term": terms[0] if terms else "",
        "since": bounds.since,
        "at": bounds.at,
        "id": bounds.id,
        "limit": filter.limit,
    }
    for query, wanted in (
        ("found_by_key", filter.key),
        ("found_by_prefix", filter.prefix),
        ("found_by_id", filter.id_prefix),
        ("found_by_parent", filter.parent),
        ("found_by_term", terms),
        ("found_by_trigger", filter.trigger not in ("", USUAL_TRIGGER)),
    ):
        if wanted:
            yield session.rows_named(query, values)
            return
    if not (filter.workflow or filter.version or filter.queue or filter.statuses):
        yield session.rows_named("found_newest", values)
        return
    for workflow, version, queue, status, _ in session.rows("run_groups", filter.workspace):
        if not (
            filter.workflow in ("", workflow)
            and filter.version in ("", version)
            and filter.queue in ("", queue)
            and (not filter.statuses or status in filter.statuses)
        ):
            continue
        group = dict(group_workflow=workflow, group_version=version, group_queue=queue, group_status=status)
        yield session.rows_named("found_in_group", values | group)
    if Status.RUNNING in filter.statuses:
        yield session.rows_named("found_owned", values)


def count_runs(session: Session, workspace: str) -> Sequence[RunCount]:
    session.run("begin_read")
    try:
        stored = session.rows("run_groups", workspace)
        owned = session.rows("owned_groups", workspace)
    finally:
        session.run("commit")
    return shown_counts(stored, owned)


def count_buckets(session: Session, filter: BucketFilter) -> Sequence[BucketCount]:
    span = {
        "workspace": filter.workspace,
        "since": filter.since,
        "until": filter.until,
        "width": filter.width,
    }
    stored: list[tuple[int, str, int]] = []
    session.run("begin_read")
    try:
        for workflow, version, queue, status, _ in session.rows("run_groups", filter.workspace):
            if filter.takes(workflow, version, queue, filter.since):
                group = dict(group_workflow=workflow, group_version=version, group_queue=queue)
                rows = session.rows_named("group_buckets", span | group | {"group_status": status})
                stored += [(bucket, status, n) for bucket, n in rows]
        owned = session.rows("owned_runs", filter.workspace)
    finally:
        session.run("commit")
    return shown_buckets(stored, owned, filter)


def list_decided(session: Session, filter: DecidedFilter) -> Sequence[DecidedRow]:
    rows = session.rows("list_decided", filter.workspace, *filter.place, filter.limit)
    return [DecidedRow(*row) for row in rows]


def list_waits(session: Session, filter: WaitFilter) -> Sequence[WaitRow]:
    query, more = ("found_waits_named", (filter.name,)) if filter.name else ("found_waits", ())
    rows: list[WaitRow] = []
    session.run("begin_read")
    try:
        for what in filter.whats:
            values = (filter.workspace, what, *filter.place, filter.limit, *more)
            rows += [WaitRow(*row) for row in session.rows(query, *values)]
    finally:
        session.run("commit")
    return first_waits(rows, filter)
