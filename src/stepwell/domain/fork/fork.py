"""Fork: build the log of a new run from a run's log and a point in it. The old log is only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.codec import digest
from stepwell.domain.commit import LogRow
from stepwell.domain.documents import is_direct
from stepwell.domain.events import Event
from stepwell.domain.fork.prefix import PREFIX_RULES, Edits, function_prefix
from stepwell.domain.fork.run_copy import RunCopy, TicketCopy
from stepwell.domain.ids import RunId
from stepwell.domain.new_run import needs_of_run
from stepwell.domain.status import Status
from stepwell.errors import StepNotFound, excerpt

_NAMED_MAX = 5  # paths that an error names


class ForkIdentity(NamedTuple):
    """Id, key and seed of the new run, the time, and who makes it why."""

    run_id: RunId
    key: str
    seed: str
    now: float
    by: str = ""
    reason: str = ""


_OWNERSHIP = (ev.Claimed, ev.LeaseLost)  # the old run's owners; the new run has its own


def fork_run(copy: RunCopy, origin: ev.Origin, edits: Edits, identity: ForkIdentity) -> RunCopy:
    """The run that begins at the point that `origin` names, without repeating what the old run did."""
    events = [ev.read(row) for row in copy.log]
    prefix = PREFIX_RULES.get(copy.kind, function_prefix)(events, origin.seq, edits)
    kept = [event for event in prefix.events if not isinstance(event.fact, _OWNERSHIP)]
    kept = _edited(_without_loose_documents(kept), edits)
    log = [_row(event, seq) for seq, event in enumerate(kept, 1)]
    origin = replace(origin, seq=prefix.seq, copied=len(log), edited=edits.names, salt=identity.seed)
    log[0] = log[0]._replace(payload=msgspec.json.encode(_accepted(kept[0], origin, edits, identity)))
    base = max((row.seq for row in log if row.kind in ev.BASES), default=1)
    continued = any(row.kind == ev.KIND[ev.Continued] for row in log)
    input = copy.input if edits.input is None or continued else edits.input
    return replace(
        copy,
        id=identity.run_id,
        status=Status.PENDING,
        input=input,
        output=None,
        error=None,
        key=identity.key,
        digest=digest(msgspec.json.encode([origin.how, origin.run, prefix.seq, *_all(edits)])),
        parent="",
        parent_path="",
        root=identity.run_id,
        trigger=_trigger(origin),
        started_by=identity.by,
        where_at="",
        created_at=identity.now,
        started_at=None,
        ended_at=None,
        log=log,
        tickets=[_ticket(copy, len(log), base, identity.now, log[-1].at)],
        inbox=(),
        waits=(),
        decided=(),
        lines=(),
        done=None,
        total=None,
        input_tokens=0,  # of its own steps only
        output_tokens=0,
        cost=0.0,
    )


def _trigger(origin: ev.Origin) -> str:
    return "fork" if origin.how == "fork" else "rerun"


def _all(edits: Edits) -> list[str]:
    values = {"input": edits.input, "state": edits.state, **edits.outputs}
    named = [f"{name}={value.decode()}" for name, value in sorted(values.items()) if value is not None]
    return [*named, *sorted(edits.dropped)]


def _accepted(first: Event, origin: ev.Origin, edits: Edits, identity: ForkIdentity) -> ev.Accepted:
    assert isinstance(first.fact, ev.Accepted)
    fact = replace(
        first.fact,
        parent="",
        parent_path="",
        root=identity.run_id,
        depth=0,
        key=identity.key,
        origin=origin,
        trigger=_trigger(origin),
        by=identity.by,
        reason=identity.reason,
    )
    if origin.copied == 1:
        return replace(fact, seed=identity.seed, input=_raw(edits.input) or fact.input)
    return fact


def _ticket(copy: RunCopy, head: int, base: int, now: float, at: float) -> TicketCopy:
    return TicketCopy(
        path="",
        queue=copy.queue,
        needs=needs_of_run(ev.read_as(ev.Accepted, copy.log[0])),
        priority=copy.priority,
        started=False,
        ending=False,
        not_before=now,
        due_at=now,
        head=head,
        base=base,
        at=at,
        wakes=0,
    )


def _without_loose_documents(events: Sequence[Event]) -> list[Event]:
    """Drop the documents of steps that run again: those steps save them again."""
    done = {event.path for event in events if not isinstance(event.fact, ev.DocumentSaved)}
    return [
        e for e in events if not isinstance(e.fact, ev.DocumentSaved) or e.path in done or is_direct(e.path)
    ]


def _edited(events: Sequence[Event], edits: Edits) -> list[Event]:
    """Insert the edited results, and drop the undo data: the new run did none of these steps itself."""
    missing = set(edits.outputs)
    answers = {
        event.fact.received: event.path
        for event in events
        if isinstance(event.fact, ev.WaitEnded) and event.path in edits.outputs
    }
    begun = max(i for i, event in enumerate(events) if isinstance(event.fact, ev.Accepted | ev.Continued))
    result = []
    for i, event in enumerate(events):
        fact = _own(event.fact, edits.input if i == begun else None)
        if isinstance(fact, ev.Received) and fact.key in answers:
            fact = replace(fact, payload=Raw(edits.outputs[answers[fact.key]]))
            missing.discard(answers[fact.key])
        if event.path in edits.outputs:
            if isinstance(fact, ev.WaitEnded) and fact.outcome == "timed_out":
                key = f"edited/{event.path}"
                result.append(_received(event, key, Raw(edits.outputs[event.path])))
                fact = ev.WaitEnded(outcome="answered", received=key)
            fact = _with_output(event._replace(fact=fact), Raw(edits.outputs[event.path]))
            if fact is not event.fact:
                missing.discard(event.path)
        result.append(event._replace(fact=fact))
    if missing:
        raise StepNotFound(
            f"{', '.join(excerpt(path) for path in sorted(missing)[:_NAMED_MAX])} has no result "
            "before the fork point",
            hint="edit results of steps, children and waits that had ended by then; see run.state(at=...)",
        )
    return result


def _own(fact: ev.Fact, input: bytes | None) -> ev.Fact:
    """Set the new run's input, and drop what belongs to the old run: its undo data and its children."""
    if isinstance(fact, ev.StepCompleted) and fact.undo is not None:
        return replace(fact, undo=None)
    if isinstance(fact, ev.Continued) and fact.children:
        fact = replace(fact, children={})
    if input is not None and isinstance(fact, ev.Accepted | ev.Continued):
        fact = replace(fact, input=Raw(input))
    return fact


def _received(event: Event, key: str, value: Raw) -> Event:
    """The answer to a wait that had timed out."""
    fact = ev.Received(key=key, n=0, what="edit", name=event.path, payload=value)
    return event._replace(path="", attempt=0, fact=fact)


def _with_output(event: Event, value: Raw) -> ev.Fact:
    match event.fact:
        case ev.StepCompleted() as fact:
            return replace(fact, result=value)
        case ev.StepFailed(retry_in=None, digest=mark):
            return ev.StepCompleted(result=value, digest=mark)
        case ev.ChildEnded():
            return ev.ChildEnded(status=Status.COMPLETED, result=value)
        case _:
            return event.fact


def _raw(data: bytes | None) -> Raw | None:
    return None if data is None else Raw(data)


def _row(event: Event, seq: int) -> LogRow:
    new = ev.written(event.fact, event.path, event.attempt)
    return LogRow(seq, new.kind, new.path, new.attempt, event.at, new.payload)
