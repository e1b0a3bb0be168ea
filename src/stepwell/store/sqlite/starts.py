"""Starts: run, first event and ticket of new runs, once per key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from stepwell.domain.admission import clear_blocked_owners, requested_lanes
from stepwell.domain.commit import Identity, NewRun, Started
from stepwell.domain.fork.run_copy import RunCopy
from stepwell.domain.ids import RunId
from stepwell.domain.search import tag_terms
from stepwell.store.sqlite.limits import slots_now
from stepwell.store.sqlite.session import Session, as_list


def start(session: Session, calls: Sequence[Sequence[NewRun]]) -> list[list[Started]]:
    """Write the runs of several calls together; return the answers to each."""
    runs: Sequence[NewRun] = list(chain.from_iterable(calls))
    if lanes := requested_lanes(runs):
        runs = _owned_within_limits(session, runs, lanes)
    existing = existing_runs(session, runs)
    disabled = set(session.rows("disabled_workflows"))
    takers = _takers(session, runs)
    created: list[NewRun] = []
    answers: list[Started] = []
    for run in runs:
        match = existing.get(run.identity)
        if match is None and disabled and (run.workspace, run.workflow) in disabled:
            answers.append(Started(run.id, created=False, disabled=True))
        elif match is None:
            existing[run.identity] = (run.id, run.digest)
            created.append(run)
            claim = run.taken(session.now) if run.wanted and run.owner in takers else None
            answers.append(Started(run.id, created=True, claim=claim))
        else:
            answers.append(Started(match[0], created=False, conflict=match[1] != run.digest))
    if created:
        _insert(session, created, takers)
    ordered = iter(answers)
    return [[next(ordered) for _ in call] for call in calls]


def existing_runs(session: Session, runs: Sequence[NewRun]) -> dict[Identity, tuple[RunId, str]]:
    """Existing runs with the identity of one of these: id, and digest of the input."""
    keys = [run.identity for run in runs if run.key]
    ids = [run.id for run in runs if not run.key]
    rows = session.rows("known_keys", as_list(keys)) if keys else []
    rows += session.rows("known_ids", as_list(ids)) if ids else []
    return {(first, second): (RunId(run_id), digest) for first, second, run_id, digest in rows}


def _owned_within_limits(session: Session, runs: Sequence[NewRun], lanes: set[str]) -> Sequence[NewRun]:
    """Return the runs; their starter owns those of these lanes that have a free slot."""
    waiting = session.row("any_due_in_lanes", session.now) is not None
    return clear_blocked_owners(runs, slots_now(session, lanes), waiting=waiting)


def _takers(session: Session, runs: Sequence[NewRun]) -> set[str]:
    """The workers that may own what they start."""
    wanting = {run.owner for run in runs if run.wanted}
    return {row[0] for row in session.rows("may_own", as_list(list(wanting)))} if wanting else set()


def take_numbers(session: Session, runs: Sequence[NewRun | RunCopy]) -> list[int]:
    """Number these runs within their workflows, in their order, with one statement for each workflow."""
    scopes = [(run.workspace, run.workflow) for run in runs]
    following: dict[tuple[str, str], Iterator[int]] = {}
    for scope, count in Counter(scopes).items():
        row = session.row("take_numbers", *scope, count)
        assert row is not None, "RETURNING gives the row that was written"
        numbers = range(row[0] - count + 1, row[0] + 1)
        if count == len(scopes):
            return list(numbers)
        following[scope] = iter(numbers)
    return [next(following[scope]) for scope in scopes]


def _insert(session: Session, runs: Sequence[NewRun], takers: set[str]) -> None:
    now = session.now
    numbers = take_numbers(session, runs)
    session.many(
        "insert_run",
        (
            (
                *(run.id, run.workspace, run.workflow, run.version, run.kind, run.hash, "pending"),
                *(run.input, run.key, run.digest, run.queue, run.lane, run.priority, run.parent),
                *(run.parent_path, run.root, run.tags, run.trigger, now, int(run.test)),
                *(number, run.started_by),
            )
            for run, number in zip(runs, numbers, strict=True)
        ),
    )
    terms = [
        (run.id, term, run.workspace, now)
        for run in runs
        if run.tags != b"{}"
        for term in tag_terms(run.tags)
    ]
    if terms:
        session.many("insert_term", terms)
    session.many("insert_event", ((run.id, 1, "accepted", "", 0, now, run.accepted) for run in runs))
    session.many("insert_ticket", [_ticket(run, run.wanted and run.owner in takers, now) for run in runs])


def _ticket(run: NewRun, taken: bool, now: float) -> tuple[object, ...]:
    due_at = now + run.delay
    return (
        *(run.id, run.queue, run.needs, run.workspace, run.lane, run.priority, int(taken)),
        *(due_at, due_at, 1, 1, now),
        *((run.owner, run.lease) if taken else (None, None)),
    )
