"""Waits: timers, signals, events, approvals and children of one activation, and its messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.commit import NEVER, InboxRow, NewWait, PublishedEvent
from stepwell.domain.cursors import Cursor
from stepwell.domain.ids import RunId
from stepwell.domain.messages import HELD, Decision, EndNotice, cancel_request, decide_key, event_key
from stepwell.engine.run.broadcasts import Broadcasts
from stepwell.engine.run.calls import BackoffCall, Call, ChildCall, ResultCall, TimerCall, WaitCall
from stepwell.engine.run.inbox import Signals
from stepwell.engine.run.journal import ReceivedMessage, called_back
from stepwell.engine.run.replay import check_form
from stepwell.errors import StepwellError

if TYPE_CHECKING:
    from stepwell.engine.run.activation import Activation


class Waits:
    def __init__(self, activation: Activation) -> None:
        self._activation = activation
        journal = activation.journal
        self.keys = journal.keys  # of messages that were taken: a repeat has no effect
        self.cancel_reason = journal.cancel_reason
        self._open: dict[str, WaitCall] = {}
        self._broadcasts: Broadcasts | None = None  # most runs hear none
        self._timers = set(journal.timers)  # set, neither fired nor withdrawn
        self._signals = Signals()
        self._children: dict[str, ev.ChildStarted] = dict(journal.children)
        for message in journal.messages.values():
            if message.what == "signal":
                self._signals.add(message)

    @property
    def broadcasts(self) -> Broadcasts:
        if self._broadcasts is None:
            self._broadcasts = Broadcasts(self._activation, self)
        return self._broadcasts

    # Opening

    def open(self, call: Call) -> None:
        if isinstance(call, BackoffCall):
            if call.path not in self._activation.writer.draft.dues:  # else it is counted from the commit
                self._activation.timers.dues[call.path] = call.due_at
        elif isinstance(call, TimerCall):
            self._open_timer(call)
        elif isinstance(call, WaitCall):
            self._open_wait(call)
        elif isinstance(call, ResultCall):
            pass  # the child's end comes as a message

    def recall(self, call: WaitCall) -> None:
        """The log has it open: a message that came with the claim may answer it before it is looked at."""
        if call.path in self._activation.journal.waits:
            self._open[call.path] = call

    def _open_timer(self, call: TimerCall) -> None:
        activation = self._activation
        timer = activation.journal.timers.get(call.path)
        if timer is None:
            activation.record(ev.TimerSet(seconds=call.seconds, retry=call.retry), call.path)
            self._timers.add(call.path)
            activation.writer.draft.dues[call.path] = call.seconds
        else:
            activation.timers.dues[call.path] = timer.due_at

    def _open_wait(self, call: WaitCall) -> None:
        activation = self._activation
        self._open[call.path] = call
        opened = activation.journal.waits.get(call.path)
        if opened is not None and opened.fact.timeout is not None:
            activation.timers.dues[call.path] = opened.at + opened.fact.timeout
        if self._answer_from_queue(call) or self._answer_from_log(call):
            return
        if opened is None:
            self._register(call)
        elif call.what == "event":
            self.broadcasts.look(call.name, call.key)

    def _register(self, call: WaitCall) -> None:
        activation = self._activation
        since = self.broadcasts.since(call.name, call.key) if call.what == "event" else activation.last_at
        fact = ev.WaitOpened(
            what=call.what,  # type: ignore[arg-type]  # the verbs of the context
            name=call.name,
            key=call.key,
            timeout=call.timeout,
            form=Raw(msgspec.json.encode(call.codec.schema())),
            title=call.title,
            assignees=list(call.assignees),
            since=since,
            choices=call.choices,
        )
        activation.record(fact, call.path)
        draft = activation.writer.draft
        if call.timeout is not None:
            draft.dues[call.path] = call.timeout
        if call.what in ("approval", "trigger"):
            self.keys.pop(decide_key(call.path), None)  # it was about another question at this path
            draft.rest.waits_opened.append(NewWait(path=call.path, kind="decision", name=call.name))
        elif call.what == "event":
            wait = NewWait(path=call.path, kind="event", name=call.name, key=call.key, since=since)
            draft.rest.waits_opened.append(wait)
            # An event between here and the park must not be lost: the wait is on disk first, then
            # we look, and only then may the run park.
            activation.busy += 1
            draft.then_do.append(lambda at: self._registered(call))

    def _registered(self, call: WaitCall) -> None:
        self._activation.busy -= 1
        self.broadcasts.look(call.name, call.key)

    def start_again(self) -> None:
        """Children that a failure had cancelled, in a run that a person sent on."""
        lost, self._activation.journal.lost = self._activation.journal.lost, {}
        for path, new in lost.items():
            if new is not None:
                self.start_child(ChildCall(path, self._activation.turns.create_future(), new, detached=False))

    def start_child(self, call: ChildCall) -> None:
        activation = self._activation
        new = call.new
        assert new is not None, f"{call.path} is in the log already"
        fact = ev.ChildStarted(
            run=new.id,
            workflow=new.workflow,
            version=new.version,
            detached=call.detached,
            trigger=call.trigger,
            digest=new.digest if activation.ctx.marks else "",
        )
        draft = activation.writer.draft
        if not draft.rest.starts:
            draft.then_do.append(lambda at: activation.services.notifier.work())
        draft.rest.starts.append(new)
        if not call.detached:
            self._children[call.path] = fact
        activation.record(fact, call.path)

    # Time

    def due(self, call: Call) -> None:
        """A timer has fired, or a wait has timed out."""
        if isinstance(call, BackoffCall):
            del self._activation.calls[call.path]
            call.future.set_result(None)
        elif isinstance(call, TimerCall):
            self._timers.discard(call.path)
            self._activation.record(ev.TimerFired(), call.path)
        elif isinstance(call, WaitCall) and not (call.what == "event" and self.broadcasts.defers(call)):
            self.time_out(call)

    def time_out(self, call: WaitCall) -> None:
        self._end(call, ev.WaitEnded(outcome="timed_out"))

    def _end(self, call: WaitCall, fact: ev.WaitEnded) -> None:
        self._open.pop(call.path, None)
        self._activation.timers.dues.pop(call.path, None)
        self._activation.writer.draft.dues.pop(call.path, None)
        self._activation.record(fact, call.path)
        if call.what != "signal":
            self._activation.writer.draft.rest.waits_closed.append(call.path)

    # Messages

    def take(self, rows: Sequence[InboxRow]) -> None:
        """Move messages from the inbox into the log, in their order."""
        visits = self._activation.visits
        for row in rows:
            if row.kind == HELD or (visits is not None and visits.keeps(row)):
                continue
            draft = self._activation.writer.draft
            draft.rest.consumed.append(row.key)
            draft.needed = draft.needed or row.kind != "event"  # what it told of is in the next commit
            if row.key not in self.keys:
                self._take_one(row)

    def _take_one(self, row: InboxRow) -> None:
        if row.kind == "signal":
            self._take_signal(row)
        elif row.kind == "decide":
            self._take_decision(row)
        elif row.kind == "event":
            self.broadcasts.told_of(self._open.get(row.name))
        elif row.kind == "child":
            self._take_child(row)
        elif row.kind == "step":
            self._activation.steps.remote_ended(row.name, row.payload)
        elif row.kind == "cancel" and not self._activation.cancelling:
            self.cancel_reason = msgspec.json.decode(row.payload, type=str)
            self.keys[row.key] = None
            self._activation.record(ev.CancelRequested(reason=self.cancel_reason))

    def _received(
        self,
        row: InboxRow,
        payload: Raw,
        *,
        rejected: str = "",
        choice: str = "",
        by: str = "",
        at: float = 0.0,
    ) -> ReceivedMessage:
        self.keys[row.key] = None
        fact = ev.Received(
            key=row.key,
            n=row.n,
            what=row.kind,
            name=row.name,
            payload=payload,
            rejected=rejected,
            choice=choice,
            by=by,
            at=at,
        )
        self._activation.record(fact)
        return ReceivedMessage(row.key, row.kind, choice or row.name, payload)

    def _take_signal(self, row: InboxRow) -> None:
        self._queue(self._received(row, Raw(row.payload)))

    def _queue(self, message: ReceivedMessage) -> None:
        """It waits for its wait; one that is open takes it at once."""
        self._signals.add(message)
        for call in list(self._open.values()):
            if message.name in call.names and self._answer_from_queue(call):
                break

    def _answer_from_queue(self, call: WaitCall) -> bool:
        while (message := self._signals.take(call.names)) is not None:
            if self._fits(call, message):
                self._answer(call, message)
                return True
        return False

    def _answer_from_log(self, call: WaitCall) -> bool:
        """A decision that came when the run failed: it answers its question when that is asked again."""
        message = self._activation.journal.messages.pop(decide_key(call.path), None)
        if message is None:
            return False
        if self._fits(call, message):
            self._answer(call, message)
            return True
        self.keys.pop(message.key, None)  # a fitting decision may follow
        return False

    def _answer(self, call: WaitCall, message: ReceivedMessage) -> None:
        self._activation.journal.taken[message.key] = message
        self._end(call, ev.WaitEnded(outcome="answered", received=message.key))

    def _fits(self, call: WaitCall, message: ReceivedMessage) -> bool:
        """An answer that is not of the wait's type is set aside in the log; the wait goes on."""
        try:
            call.decode(message.name, message.payload)
        except StepwellError as error:
            check_form(self._activation, call, message)
            fact = ev.Received(
                key=message.key, n=0, what=message.what, name=message.name, rejected=error.message
            )
            self._activation.record(fact)
            return False
        return True

    def _take_decision(self, row: InboxRow) -> None:
        decision = msgspec.json.decode(row.payload, type=Decision)
        call = self._open.get(row.name)
        if call is None:
            late = "that question is not open any more"
            self._received(row, decision.answer, rejected=late, choice=decision.choice, by=decision.by)
            return
        message = self._received(row, decision.answer, choice=decision.choice, by=decision.by)
        if self._fits(call, message):
            self._answer(call, message)
        else:
            self.keys.pop(row.key, None)  # a fitting decision may follow
            self._ask_anew(call)

    def _ask_anew(self, call: WaitCall) -> None:
        """Whoever answered was told of the choices that older code had: those of now are open."""
        opened, choices = self._activation.journal.waits.get(call.path), call.choices
        if opened is not None and opened.fact.choices != choices:
            self._activation.record(replace(opened.fact, choices=choices), call.path)

    def open_events(self, name: str = "") -> list[WaitCall]:
        """The waits for broadcast events (of that name), in the order in which they were opened."""
        waits = self._activation.journal.waits
        found = [c for c in self._open.values() if c.what == "event" and name in ("", c.name)]
        found.sort(key=lambda call: waits[call.path].at if call.path in waits else NEVER)
        return found

    def take_event(self, call: WaitCall, event: PublishedEvent) -> None:
        self._activation.writer.draft.rest.consumed.append(event_key(event.id))
        row = InboxRow(event_key(event.id), 0, "event", call.path, event.payload, event.at)
        message = self._received(row, Raw(row.payload), at=event.at)
        if self._fits(call, message):
            self._answer(call, message)

    def _take_child(self, row: InboxRow) -> None:
        ending = msgspec.json.decode(row.payload, type=EndNotice)
        child = self._children.get(row.name)
        if child is None or ending.run not in ("", child.run):
            return  # settled before: a retry of the child is no news; or a child of before our own retry
        del self._children[row.name]
        fact = ev.ChildEnded(status=ending.status, result=ending.result, error=ending.error)
        self._activation.record(fact, row.name)
        called = called_back(row.name, child, fact)
        if called is not None:
            self._queue(called)

    def keep(self, rows: Iterable[InboxRow]) -> deque[InboxRow]:
        """The run fails, and may be sent on later: what it has not looked at yet goes into the log as it is.

        What is left is asked for again then.
        """
        left: deque[InboxRow] = deque()
        for row in rows:
            decides = row.kind == "decide" and row.name in self._activation.journal.waits
            if row.kind not in ("signal", "child") and not decides:
                left.append(row)
                continue
            self._activation.writer.draft.rest.consumed.append(row.key)
            if row.kind == "child":
                self._take_child(row)
            elif row.key in self.keys:
                pass
            elif decides:
                decision = msgspec.json.decode(row.payload, type=Decision)
                self._received(row, decision.answer, choice=decision.choice, by=decision.by)
            else:
                self._signals.add(self._received(row, Raw(row.payload)))
        return left

    # Leaving

    def leave(self) -> None:
        """The code that asked is over and begins anew: nothing is for these waits any more."""
        opened: dict[str, str] = {p: wait.fact.what for p, wait in self._activation.journal.waits.items()}
        opened.update((path, call.what) for path, call in self._open.items())
        found = [path for path, what in opened.items() if what != "signal"]
        self._activation.writer.draft.rest.waits_closed.extend(found)
        self._open.clear()

    def withdraw(self, call: Call) -> None:
        activation = self._activation
        known = self._open.pop(call.path, None) is not None or call.path in activation.journal.waits
        if isinstance(call, WaitCall) and known:
            activation.journal.waits.pop(call.path, None)
            activation.record(ev.WaitEnded(outcome="withdrawn"), call.path)
            if call.what != "signal":
                activation.writer.draft.rest.waits_closed.append(call.path)
        elif isinstance(call, TimerCall) and call.path in self._timers:
            self._timers.discard(call.path)
            activation.record(ev.WaitEnded(outcome="withdrawn"), call.path)
        elif isinstance(call, ResultCall):
            child = self._children.get(call.path.rstrip("!"))
            if child is not None and not child.detached:
                request = cancel_request(
                    RunId(child.run), f"run {activation.run_id} does not wait for it any more"
                )
                draft = activation.writer.draft
                if not draft.rest.deliveries:
                    draft.then_do.append(lambda at: activation.services.notifier.work())
                draft.rest.deliveries.append(request)
                draft.needed = True

    @property
    def untouched(self) -> bool:
        """No message came, and no child is out."""
        return not (self.keys or self._signals.came or self._children or self._activation.journal.cursors)

    def unmatched(self) -> Iterator[ReceivedMessage]:
        """Signals in the log that no wait has taken."""
        return iter(self._signals)

    def untaken_keys(self) -> Iterable[str]:
        return [message.key for message in self.unmatched()]

    def cursors(self) -> list[Cursor]:
        """How far broadcast events were taken."""
        return self.broadcasts.carried() if self._activation.journal.cursors else []

    def callbacks(self) -> dict[str, str]:
        """Which transitions the children that live on trigger with their results."""
        return {path: child.trigger for path, child in self._children.items() if child.trigger}

    def children_left(self) -> dict[str, str]:
        """Children that live on although the code that started them has ended."""
        return {path: child.run for path, child in self._children.items() if not child.detached}

    def open_children(self) -> Iterable[RunId]:
        return [RunId(c.run) for c in self._children.values() if not c.detached]
