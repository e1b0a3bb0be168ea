"""Decisions: answers to one open wait, and who answered it first if it is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Raw

from stepwell.client.inbox import read_inbox
from stepwell.client.run_trace import log_state
from stepwell.domain import events as ev
from stepwell.domain.approvals import check_decider, denies
from stepwell.domain.codec import PLAIN, encoded_by_type, limited
from stepwell.domain.commit import Delivery, LogRow, Message
from stepwell.domain.ids import RunId
from stepwell.domain.messages import ApprovalChange, Decision, decide_key, decides
from stepwell.domain.schema import Schema
from stepwell.domain.state import OpenWait, RunState, fold
from stepwell.domain.status import RETRYABLE
from stepwell.domain.text import checked_text, clean
from stepwell.errors import AlreadyDecided, Conflict, InvalidInput, RunEnded, WrongPlace, excerpt

if TYPE_CHECKING:
    from stepwell.client.handle import RunHandle


_OPEN_FORMS: tuple[Any, ...] = (None, True, {})  # accept any answer


async def decide(
    run: RunHandle[Any], answer: Any, *, path: str, by: str, roles: Collection[str], reason: str, id: str
) -> None:
    async def send(state: RunState, id: str) -> None:
        wait = await _open_approval(run, state, path)
        check_decider(wait, by, roles, await _starter(run) if wait.bar_starter else "")
        await _send(run, wait, wait.form, answer, by=by, reason=reason, id=id)

    await _once(run, id, send)


async def _once(run: RunHandle[Any], id: str, send: Callable[[RunState, str], Awaitable[None]]) -> None:
    """Send a decision, unless the run has taken the one with this id.

    Look first: the run may wait for the next decision of its kind, which the repeat does not mean. One
    without an id gets one, because the client itself repeats a call whose answer was lost.
    """
    id = checked_text(id, "id") or run._client.token()
    log = await _log(run)
    if _taken(log, id):
        return
    try:
        await send(fold(log), id)
    except Conflict:
        if not _taken(await _log(run), id):  # it may have been taken since
            raise


async def _log(run: RunHandle[Any]) -> list[ev.Event]:
    return [ev.read(row, run.id) async for row in run.log()]


def _taken(log: Sequence[ev.Event], id: str) -> bool:
    received = (event.fact for event in log if isinstance(event.fact, ev.Received))
    return any(fact.id == id and not fact.rejected for fact in received)


async def open_approval_for(run: RunHandle[Any], path: str, by: str, roles: Collection[str]) -> OpenWait:
    """Return the open approval; refuse somebody who may not decide it."""
    wait = await _open_approval(run, await log_state(run), path)
    check_decider(wait, by, roles, await _starter(run) if wait.bar_starter else "")
    return wait


async def reassign(run: RunHandle[Any], assignees: Sequence[str], *, path: str, by: str, reason: str) -> None:
    if isinstance(assignees, str) or not all(isinstance(name, str) for name in assignees):
        raise InvalidInput(
            f"assignees is {excerpt(assignees)}", hint='give a list of names: ["ana", "role:finance"]'
        )
    names = [checked_text(name, "assignee") for name in assignees]
    notice = ApprovalChange(assignees=names, by=checked_text(by, "by"), reason=clean(reason))
    await _notify(run, "reassign", notice, path)


async def remind(run: RunHandle[Any], *, path: str, by: str, reason: str) -> OpenWait:
    return await _notify(run, "remind", ApprovalChange(by=checked_text(by, "by"), reason=clean(reason)), path)


async def _notify(run: RunHandle[Any], kind: str, notice: ApprovalChange, path: str) -> OpenWait:
    client = run._client
    wait = await _open_approval(run, await log_state(run), path)
    message = Message(
        run_id=run.id,
        key=f"{kind}/{client.token()}",
        kind=kind,
        name=wait.path,
        payload=msgspec.json.encode(notice),
        wait=wait.path,
        by=notice.by,
    )
    run._delivered(await client.deliver(message), f"{kind} of {wait.path}")
    return wait


async def _starter(run: RunHandle[Any]) -> str:
    """Who started the run, or the run at the top of its tree."""
    row = await run.info()
    root = await run._client.store.read_run(RunId(row.root)) if row.root != run.id else None
    return root.started_by if root is not None else row.started_by


async def trigger(run: RunHandle[Any], name: str, payload: Any, *, by: str, reason: str, id: str) -> None:
    """Take a transition that the machine waits for at its place."""

    async def send(state: RunState, id: str) -> None:
        wait = next((wait for wait in state.waits.values() if wait.what == "trigger"), None)
        choice = next((c for c in wait.choices if c.name == name), None) if wait is not None else None
        if wait is None or choice is None:
            raise await _wrong_place(run, state, wait, name)
        await _send(run, wait, choice.form, payload, by=by, choice=name, reason=reason, id=id)

    await _once(run, id, send)


async def _send(
    run: RunHandle[Any],
    wait: OpenWait,
    form: Any,
    answer: Any,
    *,
    by: str,
    choice: str = "",
    reason: str = "",
    id: str,
) -> None:
    client = run._client
    what = f"trigger {excerpt(choice)}" if choice else "the decision"
    # If the wait has a type, the answer may be a value of that type, not only its JSON.
    encode = PLAIN.encode if form in _OPEN_FORMS else encoded_by_type
    data = limited(encode(answer), what, client.payload_bytes_max)
    _check_form(form, data, choice or wait.path)
    decision = Decision(
        token=id,
        id=id,
        answer=Raw(data),
        by=checked_text(by, "by"),
        choice=checked_text(choice, "trigger"),
        reason=clean(reason),
    )
    message = Message(
        run_id=run.id,
        key=decide_key(wait.path, by if wait.required > 1 else ""),
        kind="decide",
        name=wait.path,
        payload=msgspec.json.encode(decision),
        wait=wait.path,
        by=by,
    )
    outcome = await client.deliver(message)
    if outcome is Delivery.DECIDED:
        raise already_decided(f"{what} came too late", await decision_on(run, wait.path))
    run._delivered(outcome, f"a decision on {wait.path}")
    if wait.required > 1:
        await _check_in_time(run, wait, message.key)


async def _check_in_time(run: RunHandle[Any], wait: OpenWait, key: str) -> None:
    """Refuse a decision that came while the wait was open, but behind those that answer it.

    The store takes one decision of each person. The run counts them later, in the order of their arrival.
    """
    approvals = 0
    for given in (await _answered(run, wait.path)).all:
        if given.key == key:
            return
        approvals += not given.denied
        if given.denied or approvals == wait.required:
            raise already_decided("the decision came too late", given)


async def _open_approval(run: RunHandle[Any], state: RunState, path: str) -> OpenWait:
    """Return the approval that is meant; if somebody decided the one at `path`, say who."""
    waits = [w for w in state.waits.values() if w.what == "approval" and path in ("", w.path)]
    if state.status.terminal or not waits:
        given = await decision_on(run, path) if path else None
        if given is None and state.status.terminal:
            raise RunEnded(f"run {run.id} is {state.status}; there is nothing left to decide")
        raise already_decided(f"run {run.id} has no open approval{f' at {path}' if path else ''}", given)
    if len(waits) > 1:
        raise InvalidInput(
            f"run {run.id} has {len(waits)} open questions",
            hint="say which one: path=" + " or ".join(w.path for w in waits),
        )
    return waits[0]


async def _wrong_place(run: RunHandle[Any], state: RunState, wait: OpenWait | None, name: str) -> Conflict:
    place = state.checkpoint.place if state.checkpoint else "start"
    answered = await _answered(run, "")
    if (await run.info()).kind != "machine":
        return WrongPlace(
            f"run {run.id} is not a machine", hint="only machines have triggers; use signal or decide"
        )
    if state.status.terminal:
        return RunEnded(
            f"run {run.id} is {state.status} at {excerpt(place)}; {excerpt(name)} can no longer reach it"
            + (f" ({answered.who})" if answered.who else ""),
            hint="retry the run first: run.retry()" if state.status in RETRYABLE else "",
        )
    if wait is None and name in answered.offers:  # another transition was chosen and is about to run
        return AlreadyDecided(f"trigger {excerpt(name)} came too late: {answered.who}")
    offers = ", ".join(choice.name for choice in wait.choices) if wait is not None else ""
    hint = f"it waits for: {offers}" if offers else "it does not wait for a trigger now; see run.why()"
    return WrongPlace(
        f"trigger {excerpt(name)} does not fit: the run is at {excerpt(place)}"
        + (f"; {answered.who}" if answered.who else ""),
        hint=hint,
    )


class GivenDecision(NamedTuple):
    """An answer that a wait was given."""

    path: str  # of the wait
    by: str
    at: float
    choice: str  # for a trigger: the transition
    denied: bool
    reason: str
    key: str  # of its message

    @property
    def words(self) -> str:
        choice = f" {excerpt(self.choice)}" if self.choice else ""
        return f"{self.by or 'somebody'} decided{choice} at {_utc(self.at, '%Y-%m-%d %H:%M:%S UTC')}"


def already_decided(what: str, given: GivenDecision | None) -> AlreadyDecided:
    """The refusal of a decision that came too late. Its context names who decided, for those who show it."""
    if given is None:
        return AlreadyDecided(what)
    return AlreadyDecided(
        f"{what}: {given.words}",
        decided_by=given.by,
        decided_at=_utc(given.at, "%Y-%m-%dT%H:%M:%SZ"),
        decision="denied" if given.denied else "approved",
    )


async def decision_on(run: RunHandle[Any], path: str) -> GivenDecision | None:
    """Return the last decision on the wait at this path, None if nobody made one."""
    return (await _answered(run, path)).given


async def given_decisions(run: RunHandle[Any]) -> list[GivenDecision]:
    """Return the decisions on the waits of a run, oldest first."""
    return (await _answered(run, "")).all


class _Answered(NamedTuple):
    all: list[GivenDecision]  # oldest first
    offers: tuple[str, ...]  # the choices of the last wait, until a transition has completed

    @property
    def given(self) -> GivenDecision | None:
        return self.all[-1] if self.all else None

    @property
    def who(self) -> str:
        return self.given.words if self.given is not None else ""


async def _answered(run: RunHandle[Any], path: str) -> _Answered:
    """Return who answered the wait at this path, or any: from the log, or from the inbox."""
    given: list[GivenDecision] = []
    moved = True
    offers: tuple[str, ...] = ()
    # Before the log: a message that leaves the inbox is in the log.
    waiting = await read_inbox(run._client.store, run.id)
    consumed: set[tuple[str, int]] = set()
    async for row in run.log():
        if row.kind == "received":
            fact = ev.read_as(ev.Received, row)
            if fact.what != "decide" or (path and not decides(fact.key, path)):
                continue
            consumed.add((fact.key, fact.n))
            if fact.rejected:  # the same person may decide again
                given = [other for other in given if other.key != fact.key]
                continue
            answer = (fact.choice, denies(fact.payload), fact.reason, fact.key)
            given.append(GivenDecision(fact.name, fact.by, row.at, *answer))
            moved = False
        elif row.kind == "wait_opened":
            offers = tuple(choice.name for choice in ev.read_as(ev.WaitOpened, row).choices) or offers
        elif row.kind == "transition_completed":
            moved = True
        elif path and row.path == path and _timed_out(row):
            given.clear()  # nothing was decided; another attempt may ask again, and counts anew
    for message in waiting:
        fits = message.kind == "decide" and (not path or decides(message.key, path))
        if fits and (message.key, message.n) not in consumed:
            decision = msgspec.json.decode(message.payload, type=Decision)
            answer = (decision.choice, denies(decision.answer), decision.reason, message.key)
            given.append(GivenDecision(message.name, decision.by, message.at, *answer))
            moved = False
    return _Answered(given, () if moved else offers)


def _timed_out(row: LogRow) -> bool:
    return row.kind == "wait_ended" and ev.read_as(ev.WaitEnded, row).outcome == "timed_out"


def _utc(at: float, form: str) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime(form)


def _check_form(form: Any, data: bytes, question: str) -> None:
    """Refuse an answer that does not fit the form before the run sees it."""
    if form not in _OPEN_FORMS:
        Schema(form).check(msgspec.json.decode(data), question=question)
