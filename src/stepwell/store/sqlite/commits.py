"""Commits: each member of a batch is checked against its own fence, and written wholly or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from stepwell.domain.commit import (
    Commit,
    Committed,
    Finish,
    LogRow,
    Message,
    NewRun,
    Outcome,
    Park,
    counting,
    cross_run,
)
from stepwell.domain.fence import check_fence, due_after, was_already_written
from stepwell.domain.fork.run_copy import refused_child
from stepwell.domain.search import word_terms
from stepwell.domain.usage import figures_of
from stepwell.store.sqlite.archive import decided_values, wait_values, write_copy
from stepwell.store.sqlite.errors import BAD_VALUE
from stepwell.store.sqlite.messages import InboxWriter, deliver
from stepwell.store.sqlite.notifications import add_notifications
from stepwell.store.sqlite.session import Session, as_list
from stepwell.store.sqlite.starts import start


class Fence(msgspec.Struct, frozen=True, gc=False):
    """The columns of a ticket that the fence check reads, and those that a commit changes."""

    run_id: str
    lease: str | None
    head: int
    wakes: int
    at: float
    base: int
    losses: int
    lost_lease: str
    workspace: str


def commit(session: Session, calls: Sequence[Sequence[Commit]]) -> list[list[Committed]]:
    """Write the members of several calls together; return the answers to each."""
    members = list(chain.from_iterable(calls))
    if _meet(members):
        answers = [write(session, [member])[0] for member in members]
    else:
        answers = write(session, members)
    ordered = iter(answers)
    return [[next(ordered) for _ in call] for call in calls]


def commit_apart(session: Session, calls: Sequence[Sequence[Commit]]) -> list[list[Committed]]:
    """Do the same after a value that the database cannot hold: only its member is refused."""
    return [[_write_apart(session, member) for member in call] for call in calls]


def _write_apart(session: Session, member: Commit) -> Committed:
    session.run("savepoint")
    try:
        [committed] = write(session, [member])
    except BAD_VALUE:
        session.run("rollback_member")
        committed = Committed(Outcome.REFUSED, 0, session.now)
    session.run("release")
    return committed


def _meet(members: Sequence[Commit]) -> bool:
    """True if one member touches the ticket of another: then they are written one after the other."""
    ids = {member.run_id for member in members}
    if len(ids) < len(members):
        return True
    return any(message.run_id in ids for member in members for message in member.deliveries)


def write(session: Session, members: Sequence[Commit]) -> list[Committed]:
    """Write members that do not meet: one statement reads all fences, then each table is written at once."""
    wanted = as_list([member.run_id for member in members])
    fences = {row[0]: Fence(*row) for row in session.rows("fences", wanted)}
    answers: list[Committed] = []
    accepted: list[tuple[Commit, Fence, float]] = []
    now, ok = session.now, Outcome.OK
    for member in members:
        fence = fences.get(member.run_id)
        if fence is None:
            answers.append(not_written(session, member, Outcome.LOST, 0))
            continue
        outcome = check_fence(member, lease=fence.lease, head=fence.head, wakes=fence.wakes)
        if outcome is not ok:
            answers.append(not_written(session, member, outcome, fence.wakes))
            continue
        at = now if now > fence.at else fence.at
        accepted.append((member, fence, at))
        answers.append(Committed(ok, fence.wakes, at))
    if not accepted:
        return answers
    _append(session, accepted)
    woken: dict[str, int] = {}
    notices: list[Message] = []
    more = [entry for entry in accepted if not entry[0].events_only]
    if more:
        _note(session, more)
        woken, notices = _reach_out(session, more)
    _end(session, accepted)
    if notices:  # after the park that they end
        for notice, delivery in zip(notices, deliver(session, [notices])[0], strict=True):
            if delivery == "delivered":
                woken[notice.run_id] = woken.get(notice.run_id, 0) + 1
    if woken:  # a run may write to itself
        for place, member in enumerate(members):
            if member.run_id in woken and answers[place].outcome is Outcome.OK:
                answers[place] = replace(answers[place], wakes=answers[place].wakes + woken[member.run_id])
    return answers


def not_written(session: Session, member: Commit, outcome: Outcome, wakes: int) -> Committed:
    """Look into the log: is the commit lost, or was it written before and only its answer lost (Rule 6)?"""
    if outcome is Outcome.LOST and member.events:
        last = member.head + len(member.events)
        log = [LogRow(*row) for row in session.rows("own_events", member.run_id, member.head, last)]
        if was_already_written(member, log):
            return Committed(Outcome.OK, wakes, log[-1].at)
    return Committed(outcome, wakes, session.now)


def _append(session: Session, accepted: Iterable[tuple[Commit, Fence, float]]) -> None:
    session.many(
        "insert_event",
        [
            (member.run_id, seq, event.kind, event.path, event.attempt, at, event.payload)
            for member, _, at in accepted
            for seq, event in enumerate(member.events, member.head + 1)
        ],
    )


def _note(session: Session, accepted: Sequence[tuple[Commit, Fence, float]]) -> None:
    """Delete consumed messages; open and close waits; count what steps used."""
    members = [member for member, _, _ in accepted]
    consumed = [(member.run_id, key) for member in members for key in member.consumed]
    opened = [
        wait_values(member.run_id, wait.opened(member, at))
        for member, _, at in accepted
        for wait in member.waits_opened
    ]
    closed = [(member.run_id, path) for member in members for path in member.waits_closed]
    if consumed:
        session.many("consume", consumed)
    if opened:
        session.many("put_wait", opened)
    if closed:
        session.many("delete_wait", closed)
    figures = [figures_of(member.run_id, member.used, member.marks) for member in counting(members)]
    if figures:
        session.many("count_figures", figures)


def _reach_out(
    session: Session, accepted: Sequence[tuple[Commit, Fence, float]]
) -> tuple[dict[str, int], list[Message]]:
    """Write decided approvals, remote tickets, new runs and messages.

    Return how often each member woke itself, and the notices of children that were refused.
    """
    if not cross_run([member for member, _, _ in accepted]):
        return {}, []
    reaching = [(member, fence) for member, fence, _ in accepted if member.cross_run]
    decided = [
        decided_values(member.run_id, replace(one, at=at))
        for member, _, at in accepted
        for one in member.decided
    ]
    if decided:
        session.many("put_decided", decided)
    now = session.now
    closed = [(member.run_id, path) for member, _ in reaching for path in member.tickets_closed]
    if closed:
        session.many("delete_ticket", closed)
    opened = [
        (member.run_id, new.path, new.queue, new.needs, fence.workspace, new.priority, now, new.seq)
        for member, fence in reaching
        for new in member.tickets_opened
    ]
    if opened:
        session.many("put_remote_ticket", opened)
    people = [row for member, _ in reaching for row in member.notifications]
    if people:
        add_notifications(session, people)
    runs = [run for member, _ in reaching for run in member.starts]
    notices = _start_children(session, runs) if runs else []
    messages = [message for member, _ in reaching for message in member.deliveries]
    if not messages:
        return {}, notices
    writer = InboxWriter(session, messages)
    woken: dict[str, int] = {}
    for member, _ in reaching:
        for message in member.deliveries:
            if writer.add(message) == "delivered" and message.run_id == member.run_id:
                woken[member.run_id] = woken.get(member.run_id, 0) + 1
    writer.write()
    return woken, notices


def _start_children(session: Session, runs: Sequence[NewRun]) -> list[Message]:
    """Start children; those of a disabled workflow fail at once. Return the notices for their parents."""
    [started] = start(session, [runs])
    refused = [
        refused_child(run, session.now) for run, one in zip(runs, started, strict=True) if one.disabled
    ]
    for copy, _ in refused:
        if session.row("read_run", copy.id) is None:
            write_copy(session, copy)
    return [notice for _, notice in refused if notice is not None]


def _end(session: Session, accepted: Iterable[tuple[Commit, Fence, float]]) -> None:
    """Write tickets and runs: an owner continues, parks or finishes."""
    grown, continued, parked, parked_runs, finished, words = [], [], [], [], [], []
    for member, fence, at in accepted:
        then = member.then
        if member.events_only and not fence.losses and not fence.lost_lease:  # the usual case: one step
            base = fence.base if member.base is None else member.base
            grown.append((member.run_id, fence.head + len(member.events), at, base))
            continue
        if isinstance(then, Finish):
            finished.append(
                (
                    *(member.run_id, then.status.value, then.output, then.error),
                    *(then.where_at, then.started_at or None, at),
                )
            )
            words += [(member.run_id, term) for term in word_terms(then.words)]
            continue
        losses = 0 if member.settled else fence.losses
        lost_lease = "" if member.events else fence.lost_lease
        row = (
            member.run_id,
            fence.head + len(member.events),
            at if member.events else fence.at,
            fence.base if member.base is None else member.base,
        )
        if then is None and losses == fence.losses and lost_lease == fence.lost_lease:
            grown.append(row)
            continue
        after = (*row, losses, lost_lease)
        if isinstance(then, Park):
            # By the wall clock: after a jump forward and back the events' time stands still for a while.
            parked.append((*after, due_after(then, session.now)))
            parked_runs.append((member.run_id, then.status.value, then.where_at, then.started_at or None))
        else:
            continued.append(after)
    if grown:
        session.many("write_grown", grown)
    if continued:
        session.many("write_continued", continued)
    if parked:
        session.many("write_parked", parked)
        session.many("park_run", parked_runs)
    if finished:
        session.many("finish_run", finished)
        ids = [(row[0],) for row in finished]
        for name in ("delete_tickets", "delete_waits", "delete_inbox"):
            session.many(name, ids)
    if words:
        session.many("insert_word", words)
