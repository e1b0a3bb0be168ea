"""Waits: timers, signals, events, approvals and children of one activation, and its messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.approvals import denies
from stepwell.domain.commit import NEVER, DecidedApproval, InboxRow, NewWait, PublishedEvent
from stepwell.domain.cursors import Cursor
from stepwell.domain.event_types import is_part_of_node
from stepwell.domain.holds import HOLD, read_hold
from stepwell.domain.ids import RunId
from stepwell.domain.messages import (
    DELAY,
    HELD,
    VARIABLE,
    ApprovalChange,
    Decision,
    DelayRequest,
    EndNotice,
    VariableRequest,
    cancel_request,
    decide_key,
    decides,
    event_key,
    read_cancel,
)
from stepwell.engine.run.assignees import notify_assignees
from stepwell.engine.run.broadcasts import Broadcasts
from stepwell.engine.run.calls import ChildCall, TimerCall, WaitCall
from stepwell.engine.run.inbox import Signals
from stepwell.engine.run.journal import ReceivedMessage, called_back
from stepwell.engine.run.port import RunParts
from stepwell.engine.run.replay import check_form
from stepwell.errors import StepwellError

_KEYS_KEPT = 10_000


class Waits:
    def __init__(self, run: RunParts, rows: deque[InboxRow]) -> None:
        self._run = run
        self.rows = rows  # messages that were not taken yet
        journal = run.journal
        self._workspace = journal.accepted.workspace
        self.keys = journal.keys  # of messages that were taken: a repeat has no effect
        self._open: dict[str, WaitCall] = {}
        self._asked: dict[str, int] = {}  # seqs of approvals that were opened since the claim
        self._broadcasts: Broadcasts | None = None  # most runs hear none
        self._timers = set(journal.timers)  # set, neither fired nor withdrawn
        self._signals = Signals()
        self.held = False  # held, as far as its messages say
        self._children: dict[str, ev.ChildStarted] = dict(journal.children)
        self._approvals: dict[
            str, dict[str, ReceivedMessage]
        ] = {}  # decisions on open waits, by path and key
        for message in journal.messages.values():
            if message.what == "signal":
                self._signals.add(message)
            elif message.what == "decide" and message.key != decide_key(message.name):
                self._approvals.setdefault(message.name, {})[message.key] = message

    @property
    def broadcasts(self) -> Broadcasts:
        if self._broadcasts is None:
            self._broadcasts = Broadcasts(self._run, self)
        return self._broadcasts

    # Timers

    def set_timer(self, call: TimerCall) -> None:
        run = self._run
        timer = run.journal.timers.get(call.path)
        if timer is None:
            run.record(ev.TimerSet(seconds=call.seconds, retry=call.retry), call.path)
            self._timers.add(call.path)
            run.writer.due(call.path, call.seconds)
        else:
            run.timers.dues[call.path] = timer.due_at

    def fire_timer(self, call: TimerCall) -> None:
        self._timers.discard(call.path)
        self._run.record(ev.TimerFired(), call.path)

    def withdraw_timer(self, call: TimerCall) -> None:
        if call.path in self._timers:
            self._timers.discard(call.path)
            self._run.record(ev.WaitEnded(outcome="withdrawn"), call.path)

    # Waits for messages

    def recall(self, call: WaitCall) -> None:
        """The log has it open: a message that came with the claim may answer it before it is looked at."""
        if call.path in self._run.journal.waits:
            self._open[call.path] = call

    def open(self, call: WaitCall) -> None:
        run = self._run
        self._open[call.path] = call
        opened = run.journal.waits.get(call.path)
        if opened is not None and opened.fact.timeout is not None:
            run.timers.dues[call.path] = opened.at + opened.fact.timeout
        if self._answer_from_queue(call) or self._answer_from_log(call):
            return
        if opened is None:
            self._register(call)
        elif call.what == "event":
            self.broadcasts.look(call.name, call.key)

    def _register(self, call: WaitCall) -> None:
        run, writer = self._run, self._run.writer
        since = self.broadcasts.since(call.name, call.key) if call.what == "event" else writer.last_at
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
            required=call.required,
            bar_starter=call.bar_starter,
        )
        run.record(fact, call.path)
        if call.what == "approval":
            self._asked[call.path] = writer.barrier
        if call.timeout is not None:
            writer.due(call.path, call.timeout)
        if call.what in ("approval", "trigger"):
            self._forget_decisions(call)
            self._show(call, "decision")
            if call.assignees:
                notify_assignees(run, call.path)
        elif call.what == "event":
            self._show(call, "event", since)
            # An event between here and the park must not be lost: the wait is on disk first, then
            # we look, and only then may the run park.
            run.hold()
            writer.after_commit(lambda at: self._registered(call))
        elif not is_part_of_node(call.path):  # a mailbox helps a wait for an event, which is shown
            self._show(call, "signal")

    def _show(self, call: WaitCall, kind: str, since: float = 0.0) -> None:
        """Let others find the wait: people who decide, senders, and lists of open waits."""
        wait = NewWait(path=call.path, kind=kind, name=call.name, key=call.key, since=since)
        wait = replace(wait, what=call.what, timeout=call.timeout, workspace=self._workspace)
        self._run.writer.open_wait(wait)

    def _forget_decisions(self, call: WaitCall) -> None:
        """Forget decisions on an earlier question at this path. Approvals that count are kept elsewhere."""
        self.keys.pop(decide_key(call.path), None)
        if call.required > 1:
            for key in [key for key in self.keys if decides(key, call.path)]:
                del self.keys[key]

    def _registered(self, call: WaitCall) -> None:
        self._run.release_hold()
        self.broadcasts.look(call.name, call.key)

    def due(self, call: WaitCall) -> None:
        """It was not answered in time."""
        if not (call.what == "event" and self.broadcasts.defers(call)):
            self.time_out(call)

    def time_out(self, call: WaitCall) -> None:
        self._end(call, ev.WaitEnded(outcome="timed_out"))

    def _end(self, call: WaitCall, fact: ev.WaitEnded, received: int = 0) -> None:
        self._open.pop(call.path, None)
        self._approvals.pop(call.path, None)
        self._run.timers.dues.pop(call.path, None)
        self._run.writer.forget_due(call.path)
        self._run.record(fact, call.path)
        self._run.writer.close_waits((call.path,))
        if call.what == "approval":
            self._keep_decided(call, received)

    def _keep_decided(self, call: WaitCall, received: int) -> None:
        """Add the approval to the list of decided approvals."""
        opened, asked = self._asked.pop(call.path, 0), self._run.journal.opened.get(call.path)
        if not opened and asked is not None:
            opened = asked.seq
        decided = DecidedApproval(
            path=call.path,
            name=call.name,
            opened=opened,
            received=received,
            ended=self._run.writer.barrier,
            workspace=self._workspace,
        )
        self._run.writer.keep_decided(decided)

    def withdraw(self, call: WaitCall) -> None:
        run = self._run
        is_open = self._open.pop(call.path, None) is not None
        if run.journal.waits.pop(call.path, None) is not None or is_open:
            run.record(ev.WaitEnded(outcome="withdrawn"), call.path)
            run.writer.close_waits((call.path,))

    # Children

    def start_again(self) -> None:
        """Start the children that a failure had cancelled, in a run that a person retried."""
        lost, self._run.journal.lost = self._run.journal.lost, {}
        for path, new in lost.items():
            if new is not None:
                self.start_child(ChildCall(path, self._run.loop.create_future(), new=new, detached=False))

    def start_child(self, call: ChildCall) -> None:
        run = self._run
        new = call.new
        assert new is not None, f"{call.path} is in the log already"
        fact = ev.ChildStarted(
            run=new.id,
            workflow=new.workflow,
            version=new.version,
            detached=call.detached,
            trigger=call.trigger,
            digest=new.digest if run.calls.strict else "",
        )
        run.writer.start(new, run.services.notifier.notify_work)
        if not call.detached:
            self._children[call.path] = fact
        run.record(fact, call.path)

    def withdraw_child(self, path: str) -> None:
        """The code no longer waits for this child's end: the child is cancelled."""
        run, child = self._run, self._children.get(path)
        if child is not None and not child.detached:
            reason = f"run {run.run_id} no longer waits for it"
            run.writer.request(cancel_request(RunId(child.run), reason), run.services.notifier.notify_work)

    # Messages

    def order(self) -> None:
        """Put variables that people set while the run was waiting before the message that resumes it."""
        if any(row.kind == VARIABLE for row in self.rows):
            self.rows = deque(sorted(self.rows, key=lambda row: row.kind != VARIABLE))

    def take(self, row: InboxRow) -> None:
        """Move a message from the inbox into the log."""
        if row.kind != HELD:
            # An event is in the commit that takes it; its message alone is not a reason to write.
            self._run.writer.consume(row.key, needed=row.kind != "event")
            if row.key not in self.keys:
                self._take_one(row)

    def _take_one(self, row: InboxRow) -> None:
        if row.kind == "signal":
            self._queue(self._received(row, Raw(row.payload)))
        elif row.kind == "decide":
            self._take_decision(row)
        elif row.kind in ("reassign", "remind"):
            self._take_approval_change(row)
        elif row.kind == "event":
            self.broadcasts.notify(self._open.get(row.name))
        elif row.kind == "child":
            self._take_child(row)
        elif row.kind == "step":
            if (call := self._run.calls.pending.get(row.name)) is not None:
                call.remote_ended(self._run, row.payload)
        elif row.kind == "cancel" and not self._run.cancelling:
            asked = read_cancel(row.payload)
            self._run.journal.cancel_reason = asked.reason
            self.keys[row.key] = None
            self._run.record(ev.CancelRequested(reason=asked.reason, by=asked.by))
        elif row.kind == HOLD:
            self._take_hold(row)
        elif row.kind == DELAY:
            self._change_delay(row)
        elif row.kind == VARIABLE:
            self._set_variable(row)

    def _change_delay(self, row: InboxRow) -> None:
        run, path = self._run, row.name
        if path not in self._timers:
            self._received(row, ev.NULL, rejected="that timer is no longer set")
            return
        asked = msgspec.json.decode(row.payload, type=DelayRequest)
        now = run.now()
        seconds = max(0.0, row.at + asked.seconds - now)
        run.record(ev.DelayChanged(seconds=seconds, by=asked.by, reason=asked.reason), path)
        run.writer.forget_due(path)
        timer = run.journal.timers.get(path)
        if timer is not None:  # the call may come after this message
            run.journal.timers[path] = timer._replace(due_at=now + seconds)
        if path in run.calls.pending:
            run.timers.dues[path] = now + seconds

    def _set_variable(self, row: InboxRow) -> None:
        if self._run.calls.on_variable is None:
            self._received(row, ev.NULL, rejected="this run has no variables")
            return
        self.keys[row.key] = None
        asked = msgspec.json.decode(row.payload, type=VariableRequest)
        fact = ev.VariableSet(
            name=asked.name, value=asked.value, key=row.key, by=asked.by, reason=asked.reason
        )
        self._run.record(fact)

    def _take_hold(self, row: InboxRow) -> None:
        asked = read_hold(row.payload)
        self._run.record(asked.fact)
        # Only the latest change counts.
        self.held = asked.held and not any(row.kind == HOLD for row in self.rows)

    def _received(
        self,
        row: InboxRow,
        payload: Raw,
        *,
        rejected: str = "",
        choice: str = "",
        reason: str = "",
        id: str = "",
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
            by=row.by,
            at=at,
            reason=reason,
            id=id,
        )
        self._run.record(fact)
        return ReceivedMessage(row.key, row.kind, choice or row.name, payload, self._run.writer.barrier)

    def _queue(self, message: ReceivedMessage) -> None:
        """Queue a signal until a wait takes it; an open wait takes it at once."""
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
        for approval in list(self._approvals.get(call.path, {}).values()):
            if self._fits(call, approval) and self._count(call, approval):
                return True
        message = self._run.journal.messages.pop(decide_key(call.path), None)
        if message is None:
            return False
        if self._fits(call, message):
            self._answer(call, message)
            return True
        self.keys.pop(message.key, None)  # a fitting decision may follow
        return False

    def _answer(self, call: WaitCall, message: ReceivedMessage) -> None:
        self._run.journal.taken[message.key] = message
        self._end(call, ev.WaitEnded(outcome="answered", received=message.key), message.seq)

    def _fits(self, call: WaitCall, message: ReceivedMessage) -> bool:
        """An answer that is not of the wait's type is set aside in the log; the wait continues."""
        try:
            call.decode(message.name, message.payload)
        except StepwellError as error:
            check_form(self._run.journal, call, message)
            fact = ev.Received(
                key=message.key, n=0, what=message.what, name=message.name, rejected=error.message
            )
            self._run.record(fact)
            return False
        return True

    def _take_decision(self, row: InboxRow) -> None:
        decision = msgspec.json.decode(row.payload, type=Decision)
        call = self._open.get(row.name)
        late = "that question is no longer open" if call is None else ""
        message = self._decided(row, decision, rejected=late)
        if call is None:
            return
        if self._fits(call, message):
            self._count(call, message)
        else:
            self.keys.pop(row.key, None)  # a fitting decision may follow
            self._ask_anew(call)

    def _count(self, call: WaitCall, message: ReceivedMessage) -> bool:
        """Answer the wait, unless more people have to approve. One who denies is enough."""
        if call.required > 1 and not denies(message.payload):
            approvals = self._approvals.setdefault(call.path, {})
            approvals[message.key] = message
            if len(approvals) < call.required:
                return False
        self._answer(call, message)
        return True

    def _take_approval_change(self, row: InboxRow) -> None:
        self.keys[row.key] = None
        if row.name in self._open:
            change = msgspec.json.decode(row.payload, type=ApprovalChange)
            if row.kind == "remind":
                self._run.record(ev.WaitReminded(by=change.by, reason=change.reason), row.name)
            else:
                self._run.record(
                    ev.WaitReassigned(assignees=change.assignees, by=change.by, reason=change.reason),
                    row.name,
                )
            notify_assignees(self._run, row.name)

    def _decided(self, row: InboxRow, decision: Decision, *, rejected: str = "") -> ReceivedMessage:
        row = row._replace(by=row.by or decision.by)  # older messages say it in their payload only
        return self._received(
            row,
            decision.answer,
            rejected=rejected,
            choice=decision.choice,
            reason=decision.reason,
            id=decision.id,
        )

    def _ask_anew(self, call: WaitCall) -> None:
        """The answer was to the choices of older code: offer the choices that the code has now."""
        opened, choices = self._run.journal.waits.get(call.path), call.choices
        if opened is not None and opened.fact.choices != choices:
            self._run.record(replace(opened.fact, choices=choices), call.path)
            self._show(call, "decision")

    def open_events(self, name: str = "") -> list[WaitCall]:
        """The waits for broadcast events (of that name), in the order in which they were opened."""
        waits = self._run.journal.waits
        calls = [c for c in self._open.values() if c.what == "event" and name in ("", c.name)]
        calls.sort(key=lambda call: waits[call.path].at if call.path in waits else NEVER)
        return calls

    def take_event(self, call: WaitCall, event: PublishedEvent) -> None:
        self._run.writer.consume(event_key(event.id))
        row = InboxRow(event_key(event.id), 0, "event", call.path, event.payload, event.at, event.by)
        message = self._received(row, Raw(row.payload), at=event.at)
        if self._fits(call, message):
            self._answer(call, message)

    def _take_child(self, row: InboxRow) -> None:
        ending = msgspec.json.decode(row.payload, type=EndNotice)
        child = self._children.get(row.name)
        if child is None or ending.run not in ("", child.run):
            return  # settled before, and a retry of the child changes nothing; or it is from before our retry
        del self._children[row.name]
        fact = ev.ChildEnded(status=ending.status, result=ending.result, error=ending.error)
        self._run.record(fact, row.name)
        called = called_back(row.name, child, fact)
        if called is not None:
            self._queue(called)

    def keep(self) -> None:
        """The run fails and may be retried: messages that it has not taken go into the log as they are.

        The rest is asked for again after the retry.
        """
        left: deque[InboxRow] = deque()
        for row in self.rows:
            answers = row.kind == "decide" and row.name in self._run.journal.waits
            if row.kind not in ("signal", "child", VARIABLE) and not answers:
                left.append(row)
                continue
            self._run.writer.consume(row.key)
            if row.kind == "child":
                self._take_child(row)
            elif row.key in self.keys:
                pass
            elif row.kind == VARIABLE:
                self._set_variable(row)
            elif answers:
                self._decided(row, msgspec.json.decode(row.payload, type=Decision))
            else:
                self._signals.add(self._received(row, Raw(row.payload)))
        self.rows = left

    # Leaving

    def leave(self) -> None:
        """The code that asked has ended and begins anew: nothing answers these waits from now on."""
        self._run.writer.close_waits(dict.fromkeys([*self._run.journal.waits, *self._open]))
        self._open.clear()

    def unmatched(self) -> Iterator[ReceivedMessage]:
        """Signals in the log that no wait has taken."""
        return iter(self._signals)

    def untaken_keys(self) -> Iterable[str]:
        return [message.key for message in self.unmatched()]

    def cursors(self) -> list[Cursor]:
        """How far broadcast events were taken."""
        return self.broadcasts.carried() if self._run.journal.cursors else []

    def leftovers(self) -> dict[str, Any]:
        """What a machine must not forget at a checkpoint; most runs have nothing."""
        left: dict[str, Any] = {}
        if not (self.keys or self._signals.came or self._children or self._run.journal.cursors):
            return left
        if self.keys:
            # Keys of signals and events: a repeat must be recognised after this checkpoint as well.
            lasting = sorted(key for key in self.keys if key.startswith(("signal/", "evt/")))
            left["keys"] = lasting[-_KEYS_KEPT:]
        if carried := [ev.Carried(name=m.name, payload=m.payload, key=m.key) for m in self.unmatched()]:
            left["carried"] = carried
        if cursors := self.cursors():
            left["cursors"] = cursors
        if children := self.children_left():
            left["children"] = children
            left["triggers"] = {path: c.trigger for path, c in self._children.items() if c.trigger}
        return left

    def children_left(self) -> dict[str, str]:
        """Children that live on although the code that started them has ended."""
        return {path: child.run for path, child in self._children.items() if not child.detached}

    def open_children(self) -> Iterable[RunId]:
        return [RunId(c.run) for c in self._children.values() if not c.detached]
