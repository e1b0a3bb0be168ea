"""Run files: one run as JSON, with everything that a store keeps of it and of the runs below it.

Values appear in the file as they do in the log, so that a person can read it. The file is only data:
nothing in it is executed, and an invalid file is refused before anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from stepwell.domain import events as ev
from stepwell.domain.approvals import decided_in
from stepwell.domain.commit import NEVER, InboxRow, LogRow, NewWait
from stepwell.domain.fork.run_copy import RUN_COLUMNS, RunCopy, TicketCopy
from stepwell.domain.holds import HoldRequest, read_hold
from stepwell.domain.ids import RunId
from stepwell.domain.lanes import read_lane
from stepwell.domain.messages import PAYLOADS
from stepwell.domain.search import words_of_error
from stepwell.domain.status import Status
from stepwell.domain.step_log import LogLine, LogLineRow
from stepwell.domain.text import is_whole
from stepwell.domain.whole_numbers import PRIORITY_MAX
from stepwell.errors import InvalidFile, LogDamaged, excerpt

FORMAT = "stepwell-run"
VERSION = 1


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    kind: str
    path: str = ""
    attempt: int = 0
    at: float
    payload: Raw


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    n: int
    kind: str
    name: str
    payload: Raw
    at: float
    by: str = ""


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    n: int
    path: str
    attempt: int
    key: str
    at: float
    payload: LogLine


class _Ticket(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    queue: str
    needs: str
    priority: int
    started: bool
    ending: bool
    not_before: float
    due_at: float | None  # None: only a message can wake it
    head: int
    base: int
    at: float
    wakes: int
    held: HoldRequest | None = None


_NOTHING = Raw(b"")  # omitted from the file: null would be a result


class _Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    workspace: str
    workflow: str
    version: str
    kind: str
    hash: str
    status: Status
    input: Raw
    output: Raw = _NOTHING
    error: Raw = _NOTHING
    key: str
    digest: str
    queue: str
    lane: str
    priority: int
    parent: str
    parent_path: str
    root: str
    tags: Raw
    trigger: str
    where_at: str
    created_at: float
    started_at: float | None
    ended_at: float | None
    test: bool
    log: list[_Event]
    tickets: list[_Ticket] = []
    inbox: list[_Message] = []
    waits: list[NewWait] = []
    started_by: str = ""
    lines: list[_Line] = []
    done: float | None = None
    total: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


class _Head(msgspec.Struct, frozen=True):
    format: str = ""
    version: int = 0


class _File(msgspec.Struct, frozen=True, kw_only=True):
    format: str = FORMAT
    version: int = VERSION
    runs: list[_Run]


_ENDS = frozenset(ev.KIND[fact] for fact in ev.ENDINGS)
_YEAR_10000 = 253_402_300_800.0
_RAW = ("input", "output", "error", "tags")


def write(copies: Sequence[RunCopy]) -> bytes:
    return msgspec.json.encode(_File(runs=[_run(copy) for copy in copies]))


def _run(copy: RunCopy) -> _Run:
    values: dict[str, Any] = {name: getattr(copy, name) for name in RUN_COLUMNS}
    values |= {name: _NOTHING if values[name] is None else Raw(values[name]) for name in _RAW}
    return _Run(
        **values,
        log=[_Event(**row._asdict() | {"payload": Raw(row.payload)}) for row in copy.log],
        tickets=[
            _Ticket(**t._asdict() | {"due_at": None if t.due_at == NEVER else t.due_at, "held": _hold(t)})
            for t in copy.tickets
        ],
        inbox=[_Message(**row._asdict() | {"payload": Raw(row.payload)}) for row in copy.inbox],
        waits=list(copy.waits),
        lines=[
            _Line(**row._asdict() | {"payload": msgspec.json.decode(row.payload, type=LogLine)})
            for row in copy.lines
        ],
    )


def _hold(ticket: TicketCopy) -> HoldRequest | None:
    return None if ticket.held is None else read_hold(ticket.held)


def read(data: bytes | str) -> list[RunCopy]:
    """Read a file; InvalidFile says what is wrong with it."""
    if not isinstance(data, bytes | bytearray | memoryview | str):
        raise InvalidFile(f"a {type(data).__name__} is not an exported run")
    if isinstance(data, str) and not is_whole(data):
        raise InvalidFile("this is not an exported run: its text cannot be written as UTF-8")
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format != FORMAT:
            raise InvalidFile(
                f"this is not an exported run: its format is {excerpt(head.format)}, not {FORMAT!r}"
            )
        if head.version < 1:
            raise InvalidFile("the file does not say the version of its format")
        if head.version > VERSION:
            raise InvalidFile(
                f"the file has version {head.version}, but this Stepwell reads version {VERSION}",
                hint="upgrade Stepwell here, or export it again with this version",
            )
        runs = msgspec.json.decode(data, type=_File).runs
    except msgspec.MsgspecError as error:
        raise InvalidFile(f"this is not an exported run: {error}") from None
    if not runs:
        raise InvalidFile("the file contains no runs")
    if len({run.id for run in runs}) < len(runs):
        raise InvalidFile("the file contains a run twice")
    return [_copy(run) for run in runs]


def _copy(run: _Run) -> RunCopy:
    values: dict[str, Any] = {name: getattr(run, name) for name in RUN_COLUMNS}
    values |= {name: bytes(values[name]) or None for name in _RAW}
    copy = RunCopy(
        **values | {"id": RunId(run.id)},
        log=[LogRow(e.seq, e.kind, e.path, e.attempt, e.at, bytes(e.payload)) for e in run.log],
        tickets=[
            TicketCopy(
                **msgspec.structs.asdict(t)
                | {
                    "due_at": NEVER if t.due_at is None else t.due_at,
                    "held": None if t.held is None else msgspec.json.encode(t.held),
                }
            )
            for t in run.tickets
        ],
        inbox=[InboxRow(m.key, m.n, m.kind, m.name, bytes(m.payload), m.at, m.by) for m in run.inbox],
        waits=run.waits,
        lines=[
            LogLineRow(n, line.path, line.attempt, line.key, line.at, msgspec.json.encode(line.payload))
            for n, line in enumerate(run.lines, 1)
        ],
        words=words_of_error(values["error"]),
    )
    _check(copy)
    return replace(copy, decided=decided_in(ev.read(row) for row in copy.log))


def _check(copy: RunCopy) -> None:
    """Check what the engine assumes of every run."""
    where = f"run {copy.id or '(without id)'}"
    if not copy.id or [row.seq for row in copy.log] != list(range(1, len(copy.log) + 1)):
        raise InvalidFile(f"{where}: the events of its log are not numbered 1, 2, 3, ...")
    for row in copy.log:
        if not 0 <= row.at < _YEAR_10000:
            raise InvalidFile(f"{where}: event {row.seq} ({row.kind}) has an impossible time")
        try:
            ev.read(row)
        except LogDamaged as error:
            raise InvalidFile(f"{where}: {error.message}") from None
    if not copy.log or copy.log[0].kind != ev.KIND[ev.Accepted]:
        raise InvalidFile(f"{where}: its log does not begin with `accepted`")
    _check_queueing(copy, where)
    own = [ticket for ticket in copy.tickets if ticket.path == ""]
    if copy.status.terminal == bool(own) or (copy.status.terminal and (copy.tickets or copy.inbox)):
        raise InvalidFile(f"{where}: it is {copy.status} but has {len(own)} tickets")
    if len({(line.path, line.attempt, line.key) for line in copy.lines}) < len(copy.lines):
        raise InvalidFile(f"{where}: it has a line of a step's log twice")
    if len({ticket.path for ticket in copy.tickets}) < len(copy.tickets):
        raise InvalidFile(f"{where}: two of its tickets have the same path")
    if own and not 1 <= own[0].base <= len(copy.log):
        raise InvalidFile(f"{where}: its ticket continues from event {own[0].base}, which it does not have")
    if own and own[0].head != len(copy.log):
        raise InvalidFile(f"{where}: its ticket says that the log ends at {own[0].head}, not {len(copy.log)}")
    numbers = sorted(message.n for message in copy.inbox)
    if own and [0, *numbers, own[0].wakes + 1] != sorted({0, *numbers, own[0].wakes + 1}):
        raise InvalidFile(f"{where}: its messages are not numbered up to {own[0].wakes}, as its ticket says")
    _check_row(copy, where)


def _check_row(copy: RunCopy, where: str) -> None:
    """Check that the columns of the run agree with its log."""
    accepted = ev.read_as(ev.Accepted, copy.log[0])
    for what in ("workflow", "version", "kind"):
        if getattr(copy, what) != getattr(accepted, what):
            values = f"{excerpt(getattr(copy, what))}, but {excerpt(getattr(accepted, what))} in its log"
            raise InvalidFile(f"{where}: its {what} is {values}")
    if any(row.kind == ev.KIND[ev.Accepted] for row in copy.log[1:]):
        raise InvalidFile(f"{where}: its log begins twice")
    last = copy.log[-1].kind
    ended = last if last in _ENDS else ""
    if ended != (copy.status if copy.status.terminal else ""):
        raise InvalidFile(f"{where}: it is {copy.status}, but its log ends with {last}")


def _check_queueing(copy: RunCopy, where: str) -> None:
    """Check what every worker reads before it claims: one bad run must not stop them all."""
    texts = [copy.id, copy.key, copy.queue, copy.workflow, copy.version, copy.root, copy.parent]
    texts += [text for t in copy.tickets for text in (t.path, t.queue, t.needs)]
    texts += [text for m in copy.inbox for text in (m.key, m.kind, m.name)]
    texts += [text for line in copy.lines for text in (line.path, line.key)]
    if any("\x00" in text for text in texts):
        raise InvalidFile(f"{where}: one of its names or keys contains a NUL character")
    if any(abs(number) > PRIORITY_MAX for number in (copy.priority, *(t.priority for t in copy.tickets))):
        raise InvalidFile(f"{where}: its priority is out of bounds")
    try:
        if copy.lane:
            read_lane(copy.lane)
        for message in copy.inbox:
            msgspec.json.decode(message.payload, type=PAYLOADS.get(message.kind, Any))
    except msgspec.MsgspecError as error:
        raise InvalidFile(f"{where}: its limits or messages cannot be read: {error}") from None
