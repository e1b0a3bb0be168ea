"""Live events as server-sent events.

A stream reads the log as fast as its reader takes the events. At most two pieces of 64 KiB are held for a
slow reader, so memory stays flat. A reader that takes nothing for 30 s is cut off, and resumes by its last
id. For one run the id is the seq of the event. A stream of several topics has an opaque cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Annotated, NamedTuple

import msgspec
from fastapi import Header, Query
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stepwell.app import Engine
from stepwell.domain.commit import RunRow
from stepwell.domain.ids import RunId
from stepwell.errors import StepwellError, excerpt
from stepwell.server import cursor as cursors
from stepwell.server import views
from stepwell.server.caller import Caller, RunPath, caller_of
from stepwell.server.feed import run_feed
from stepwell.server.live import Streams, expelled
from stepwell.server.refusal import Refusal
from stepwell.server.runs import in_parts
from stepwell.store.followers import LIST

KEEP_ALIVE = 15.0  # seconds
_BURST = 0.1  # seconds: changes of the list are reported at most ten times a second
_STALLED = 30.0  # a reader that takes nothing for this long is cut off
_PIECE = 64 * 1024
_TOPICS_MAX = 50
_LIST = "runs"
_LISTED = 100  # runs whose changes the list topic reports
_RETRY = 1000  # milliseconds until a browser connects again

LastId = Annotated[str | None, Header(alias="Last-Event-ID", description="id of the last event received")]


class Piece(NamedTuple):
    """Something to send: events of a topic up to `seq`."""

    topic: str
    seq: int
    event: str
    data: list[bytes]  # one a message; `seq` is that of the last


class EventStream(Response):
    """Sends what its topics produce until all have ended, the reader is gone or the server stops."""

    media_type = "text/event-stream"

    def __init__(
        self, request: Request, topics: Sequence[AsyncIterator[Piece]], streams: Streams, ids: StreamIds
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._request, self._topics, self._streams, self._ids = request, topics, streams, ids
        self._pieces: asyncio.Queue[Piece | None] = asyncio.Queue(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.counted(caller_of(self._request).principal.workspace):
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(_gone(receive))
                tasks = [group.create_task(self._produce(topic)) for topic in self._topics]
                writer = group.create_task(self._write_all(send))
                expulsion = group.create_task(expelled(self._request.app.state.access, self._request))
                await asyncio.wait({reader, writer, expulsion}, return_when=asyncio.FIRST_COMPLETED)
                only_expelled = expulsion.done() and not reader.done() and not writer.done()
                for task in (reader, writer, expulsion, *tasks):
                    task.cancel()
            if only_expelled:
                await self._expel(send)

    async def _expel(self, send: Send) -> None:
        """End a stream whose key is no longer valid."""
        data = msgspec.json.encode({"code": "UNAUTHENTICATED"})
        try:
            await _sent(send, b"event: error\ndata: " + data + b"\n\n")
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (TimeoutError, OSError):
            pass

    async def _produce(self, topic: AsyncIterator[Piece]) -> None:
        try:
            async for piece in topic:
                await self._pieces.put(piece)
        except StepwellError as error:  # the reader resumes, and learns the reason if it lasts
            data = msgspec.json.encode({"code": error.code})
            await self._pieces.put(Piece("", 0, "error", [data]))
        await self._pieces.put(None)

    async def _write_all(self, send: Send) -> None:
        try:
            await self._write(send)
        except (TimeoutError, OSError):  # it takes nothing, or it is gone
            pass

    async def _write(self, send: Send) -> None:
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _sent(send, b"retry: %d\n\n" % _RETRY)
        open_topics = len(self._topics)
        while open_topics:
            try:
                async with asyncio.timeout(KEEP_ALIVE):
                    piece = await self._pieces.get()
            except TimeoutError:
                await _sent(send, b": keep-alive\n\n")
                continue
            if piece is None:
                open_topics -= 1
            else:
                await _sent(send, self._ids.text(piece))
        if self._streams.draining:
            await _sent(send, b"event: resume\ndata: " + self._ids.hint() + b"\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _sent(send: Send, text: bytes) -> None:
    async with asyncio.timeout(_STALLED):
        await send({"type": "http.response.body", "body": text, "more_body": True})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class StreamIds:
    """The ids of a stream: the seq for one run, a cursor for several topics."""

    def __init__(self, seqs: dict[str, int], purpose: tuple[str, ...] | None) -> None:
        self._seqs = seqs
        self._purpose = purpose  # None: one run

    def text(self, piece: Piece) -> bytes:
        """Return the piece as it is sent. An id stands for everything sent so far."""
        lines: list[bytes] = []
        first = piece.seq - len(piece.data) + 1
        for at, data in enumerate(piece.data):
            if piece.seq:
                self._seqs[piece.topic] = first + at
                lines.append(b"id: " + self._id().encode() + b"\n")
            if piece.event:
                lines.append(b"event: " + piece.event.encode() + b"\n")
            lines.append(b"data: " + data + b"\n\n")
        return b"".join(lines)

    def _id(self) -> str:
        if self._purpose is None:
            return str(next(iter(self._seqs.values())))
        return cursors.write(self._seqs, *self._purpose)

    def hint(self) -> bytes:
        return msgspec.json.encode({"last_event_id": self._id(), "reason": "the server is stopping"})


# Topics


async def run_events(
    engine: Engine, run_id: str, after: int, root: str, streams: Streams, *, batch: bool = False
) -> AsyncIterator[Piece]:
    """Produce the events of a run after a seq, then its end. `batch`: several events in one message."""
    topic = f"run:{run_id}"
    async with aclosing(run_feed(engine, run_id, after, streams)) as feed:
        async for news in feed:
            events = [msgspec.json.encode(views.event_fields(row, run_id, root)) for row in news.rows]
            for piece in _pieces(events):
                after += len(piece)
                data = [b"[" + b",".join(piece) + b"]"] if batch else piece
                yield Piece(topic, after, "batch" if batch else "", data)
            if news.ended:
                end = msgspec.json.encode({"run": run_id, "seq": after, "status": news.status})
                yield Piece(topic, 0, "end", [end])


def _pieces(events: Sequence[bytes]) -> list[list[bytes]]:
    """Group events so that a piece is not larger than it must be."""
    pieces: list[list[bytes]] = []
    size = _PIECE
    for event in events:
        if size + len(event) > _PIECE:
            pieces.append([])
            size = 0
        pieces[-1].append(event)
        size += len(event)
    return pieces


class ListFeed:
    """The newest runs of a workspace, read once for all streams that report changes of the list."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reading = asyncio.Lock()
        self._rows: dict[str, bytes] = {}
        self._marks: dict[str, RunRow] = {}
        self._read_at = float("-inf")

    async def rows(self, root: str, since: float) -> dict[str, bytes]:
        """Return the newest runs by id, as JSON, as they were at that time or later.

        The first change is read at once. Changes that follow closely are read together.
        """
        loop = asyncio.get_running_loop()
        async with self._reading:
            if self._read_at < since:
                await asyncio.sleep(max(0.0, self._read_at + _BURST - loop.time()))
                now = loop.time()
                await self._read(root)
                self._read_at = now
            return self._rows

    async def _read(self, root: str) -> None:
        """Read the newest runs, and encode those that have changed."""
        rows: dict[str, bytes] = {}
        marks: dict[str, RunRow] = {}
        async for part in in_parts(self._engine, _LISTED):
            for row in part:
                marks[row.id] = mark = _without_payloads(row)
                same = row.id in self._rows and self._marks.get(row.id) == mark
                rows[row.id] = (
                    self._rows[row.id] if same else views.summary(row, root).model_dump_json().encode()
                )
        self._rows, self._marks = rows, marks

    async def changes(self, engine: Engine, root: str, streams: Streams) -> AsyncIterator[Piece]:
        """Produce `reset` (fetch the list now), then the runs that are new or changed."""
        notifier, loop = engine.notifier, asyncio.get_running_loop()
        watch = streams.watching(notifier.watch(LIST))
        stop = notifier.on_work(lambda _: watch.notify())
        try:
            with notifier.following(LIST):
                seen = watch.news
                shown = await self.rows(root, loop.time())
                yield Piece(_LIST, 0, "reset", [b'{"topic":"runs"}'])
                while not streams.draining:
                    await watch.wait(notifier.look_in(), seen)
                    seen = watch.news
                    rows = await self.rows(root, loop.time())
                    if fresh := [data for run_id, data in rows.items() if shown.get(run_id) != data]:
                        yield Piece(_LIST, 0, "runs", [b"[" + b",".join(fresh) + b"]"])
                    shown = rows
        finally:
            stop()


def _without_payloads(row: RunRow) -> RunRow:
    """Return what tells a run's states apart: a payload changes only with the status or a time."""
    return replace(row, input=b"", output=None, error=None)


# Routes


async def stream_run(
    request: Request,
    run_id: RunPath,
    last_event_id: LastId = None,
    after: Annotated[str, Query(max_length=20, description="the same as the header Last-Event-ID")] = "",
) -> Response:
    """Follow a run: every event after the last one received, without gap or repeat, until its end."""
    caller, streams = caller_of(request), _streams(request)
    _, row = await caller.run(run_id)
    seq = cursors.read_seq(last_event_id or after)
    if last_event_id and row.status.terminal:
        rows = await caller.engine.store.read_log(RunId(run_id), after=seq, limit=1)
        if not rows:
            return Response(status_code=204)  # a browser stops connecting
    streams.check_room(caller.principal.workspace)
    topic = f"run:{run_id}"
    events = run_events(caller.engine, run_id, seq, _root(request), streams)
    return EventStream(request, [events], streams, StreamIds({topic: seq}, None))


async def stream(
    request: Request,
    topics: Annotated[str, Query(max_length=4000, description="runs, run:ID; separated by commas")],
    last_event_id: LastId = None,
    after: Annotated[str, Query(max_length=8000, description="the same as the header Last-Event-ID")] = "",
) -> Response:
    """Follow several topics with one stream."""
    caller, streams = caller_of(request), _streams(request)
    names = sorted(set(topics.split(",")))
    if len(names) > _TOPICS_MAX:
        raise Refusal(400, "PARAM_INVALID", f"more than {_TOPICS_MAX} topics", field="topics")
    purpose = ("stream", caller.principal.workspace)
    position = last_event_id or after
    seqs = dict(cursors.read_seqs(position, *purpose)) if position else {}
    producers = [await _producer(request, caller, name, seqs.get(name, 0)) for name in names]
    streams.check_room(caller.principal.workspace)
    kept = {name: seqs.get(name, 0) for name in names if name != _LIST}
    return EventStream(request, producers, streams, StreamIds(kept, purpose))


async def _producer(request: Request, caller: Caller, name: str, seq: int) -> AsyncIterator[Piece]:
    root, streams = _root(request), _streams(request)
    if name == _LIST:
        feeds: dict[str, ListFeed] = request.app.state.list_feeds
        feed = feeds.setdefault(caller.principal.workspace, ListFeed(caller.engine))
        return feed.changes(caller.engine, root, streams)
    kind, _, run_id = name.partition(":")
    if kind != "run" or len(run_id) != 32:
        raise Refusal(
            400, "PARAM_INVALID", f"{excerpt(name)} is not a topic", hint="use runs or run:ID", field="topics"
        )
    await caller.run(run_id)
    return run_events(caller.engine, run_id, seq, root, streams, batch=True)


def _streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))
