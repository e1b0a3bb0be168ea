"""Rooms: live events over a WebSocket. A client joins runs and gets what happens in them.

An adapter over the feed that server-sent events read. At most two messages are held for a slow reader. A
reader that takes nothing for 30 s is cut off; it joins again after the last seq that it has.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from stepwell.domain.event_types import EventType
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.errors import StepwellError, excerpt
from stepwell.server import views
from stepwell.server.caller import Caller
from stepwell.server.feed import News, run_feed
from stepwell.server.live import Streams, expelled
from stepwell.server.refusal import Refusal, status_of

ROOMS_MAX = 50  # runs per socket
MESSAGE_MAX = 4096  # bytes that a client may send at once
_STALLED = 30.0  # seconds after which a reader that takes nothing is cut off
_CONTEXT_EVENTS = 1000  # events; for a longer run the context is a link, because folding it takes time
_GOING_AWAY, _POLICY, _TOO_BIG, _RESTART = 1001, 1008, 1009, 1012

# The status of a node (a step, a transition, a node of a graph) after events of each type.
NODE_STATUS: dict[str, str] = {
    EventType.NODE_QUEUED: "queued",
    EventType.NODE_STARTED: "running",
    EventType.NODE_WAITING: "waiting",
    EventType.NODE_RETRYING: "retrying",
    EventType.NODE_COMPLETED: "completed",
    EventType.NODE_FAILED: "failed",
    EventType.NODE_TIMED_OUT: "timed_out",
    EventType.NODE_SKIPPED: "skipped",
    EventType.NODE_CANCELLED: "cancelled",
}


class RoomRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message of a client: join a run, from now on or after a seq; or leave it."""

    action: str
    run: str
    after: int | None = None


class Rooms:
    """One socket, and the runs that it has joined."""

    def __init__(self, socket: WebSocket, caller: Caller, streams: Streams) -> None:
        self._socket, self._caller, self._streams = socket, caller, streams
        self._root = str(socket.scope.get("root_path", ""))
        self._outbox: asyncio.Queue[list[bytes]] = asyncio.Queue(1)  # an empty list: the server stops
        self._joined: dict[str, asyncio.Task[None]] = {}
        self._seqs: dict[str, int] = {}

    async def serve(self) -> None:
        """Serve the socket until the client leaves, its key becomes invalid, or the server stops."""
        with self._streams.counted(self._caller.principal.workspace, socket=True):
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._read(group))
                writer = group.create_task(self._write())
                goodbye = group.create_task(self._stop_with_server())
                expulsion = group.create_task(expelled(self._socket.app.state.access, self._socket))
                await asyncio.wait({reader, writer, expulsion}, return_when=asyncio.FIRST_COMPLETED)
                gone = reader.done()
                ending = _POLICY if expulsion.done() else _GOING_AWAY
                for task in (reader, writer, goodbye, expulsion, *self._joined.values()):
                    task.cancel()
            if gone:
                return
            await self._close(_RESTART if self._streams.draining else ending)

    async def _close(self, code: int) -> None:
        try:
            async with asyncio.timeout(1):
                await self._socket.close(code)
        except (RuntimeError, OSError, TimeoutError, WebSocketDisconnect):  # the client is gone
            pass

    # Requests of the client

    async def _read(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                text = await self._socket.receive_text()
            except (WebSocketDisconnect, KeyError, RuntimeError):  # KeyError: a binary message
                return
            try:
                await self._handle(group, _request(text))
            except (Refusal, StepwellError) as error:
                await self._say(_problem(error))

    async def _handle(self, group: asyncio.TaskGroup, request: RoomRequest) -> None:
        if request.action == "leave":
            if task := self._joined.pop(request.run, None):
                task.cancel()
                self._seqs.pop(request.run, None)
            await self._say({"type": "left", "run": request.run})
            return
        if request.run in self._joined:
            raise Refusal(409, "ALREADY_JOINED", f"run {request.run} is joined", hint="leave it first")
        if len(self._joined) >= ROOMS_MAX:
            raise Refusal(429, "STREAM_LIMIT", f"{ROOMS_MAX} runs are joined", hint="leave some of them")
        await self._caller.run(request.run)  # of the caller's workspace
        after = request.after if request.after is not None else await self._last_seq(request.run)
        self._seqs[request.run] = after
        await self._say({"type": "joined", "run": request.run, "seq": after})
        self._joined[request.run] = group.create_task(self._follow(request.run, after))

    async def _last_seq(self, run_id: str) -> int:
        rows = await self._caller.engine.store.read_log_end(RunId(run_id))
        return rows[-1].seq if rows else 0

    # Messages to the client

    async def _follow(self, run_id: str, after: int) -> None:
        status: Status | None = None
        try:
            async with aclosing(run_feed(self._caller.engine, run_id, after, self._streams)) as feed:
                async for news in feed:
                    await self._tell(run_id, news)
                    if news.status is not status:
                        status = news.status
                        await self._tell_status(run_id, status)
                    if news.ended:
                        await self._say({"type": "end", "run": run_id, "seq": self._seqs[run_id]})
                        self._forget(run_id)
        except StepwellError as error:  # the client joins again, and gets the error if it lasts
            seq = self._seqs[run_id]
            self._forget(run_id)
            await self._say({**_problem(error), "run": run_id, "seq": seq})

    def _forget(self, run_id: str) -> None:
        """The run ended, or the client knows where to resume: no hint is needed."""
        self._joined.pop(run_id, None)
        self._seqs.pop(run_id, None)

    async def _tell(self, run_id: str, news: News) -> None:
        for row in news.rows:
            fields = views.event_fields(row, run_id, self._root)
            messages = [{"type": "event", "run": run_id, "seq": row.seq, "event": fields}]
            if fields["type"] in NODE_STATUS and row.path:
                messages.append(node_update(fields))
            messages += [begun(fields, path) for path in fields["starts"]]
            await self._say(*messages)
            self._seqs[run_id] = row.seq

    async def _tell_status(self, run_id: str, status: Status) -> None:
        run, row = await self._caller.run(run_id)
        seq = self._seqs[run_id]
        url = f"{self._root}/api/v1/runs/{run_id}"
        context: Any = {"truncated": True, "url": f"{url}/state?seq={max(seq, 1)}"}
        if 0 < seq <= _CONTEXT_EVENTS:
            state = await run.state(seq)
            place = state.checkpoint
            value = {
                "outputs": views.plain(state.outputs),
                "place": place.place if place else "",
                "state": views.plain(place.state) if place else None,
            }
            data = msgspec.json.encode(value)
            context = value if len(data) <= views.SHOWN_MAX else {**context, "bytes": len(data)}
        await self._say(
            {
                "type": "status_update",
                "run": run_id,
                "seq": seq,
                "status": status,
                "context": context,
                "output": views.shown(row.output, views.SHOWN_MAX, url),
                "error": views.shown(row.error, views.SHOWN_MAX, url),
            }
        )

    async def _say(self, *messages: dict[str, Any]) -> None:
        """Send all of these messages, or none."""
        await self._outbox.put([msgspec.json.encode(message) for message in messages])

    async def _stop_with_server(self) -> None:
        await self._streams.drained.wait()
        await self._outbox.put([])

    async def _write(self) -> None:
        while messages := await self._outbox.get():
            for message in messages:
                if not await self._sent(message):
                    return
        hint = {"type": "resume", "runs": self._seqs, "reason": "the server is stopping"}
        await self._sent(msgspec.json.encode(hint))

    async def _sent(self, message: bytes) -> bool:
        try:
            async with asyncio.timeout(_STALLED):
                await self._socket.send_text(message.decode())
            return True
        except (TimeoutError, OSError, RuntimeError, WebSocketDisconnect):  # stalled, or gone
            return False


def node_update(event: dict[str, Any]) -> dict[str, Any]:
    """Return what an event says about its node."""
    fact = event["data"] if isinstance(event["data"], dict) else {}
    return {
        "type": "node_update",
        "run": event["run"],
        "seq": event["seq"],
        "node": event["path"],
        "attempt": event["attempt"],
        "status": NODE_STATUS[event["type"]],
        "output": fact.get("result", fact.get("output")),
        "error": fact.get("error"),
    }


def begun(event: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the start of a node that an event led to."""
    update = {"type": "node_update", "run": event["run"], "seq": event["seq"], "node": path}
    return {**update, "attempt": 0, "status": "running", "output": None, "error": None}


def _request(text: str) -> RoomRequest:
    if len(text.encode()) > MESSAGE_MAX:
        raise Refusal(413, "BODY_TOO_LARGE", f"a message is larger than {MESSAGE_MAX} bytes")
    try:
        request = msgspec.json.decode(text, type=RoomRequest)
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise _invalid(f"{excerpt(text)} is not a request") from None
    if request.action not in ("join", "leave"):
        raise _invalid(f"there is no action {excerpt(request.action)}")
    if len(request.run) != 32 or not set(request.run) <= set("0123456789abcdef"):
        raise Refusal(400, "ID_INVALID", f"{excerpt(request.run)} is not an id", field="run")
    if request.after is not None and not 0 <= request.after < 2**53:
        raise Refusal(400, "CURSOR_INVALID", "`after` is not a seq", field="after")
    return request


def _invalid(message: str) -> Refusal:
    return Refusal(
        400, "JSON_INVALID", message, hint='send {"action": "join", "run": ID} or {"action": "leave", ...}'
    )


def _problem(error: Refusal | StepwellError) -> dict[str, Any]:
    if isinstance(error, Refusal):
        return {
            "type": "error",
            "status": error.status,
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
        }
    message = error.message if status_of(error) < 500 else (type(error).__doc__ or "").strip()
    return {
        "type": "error",
        "status": status_of(error),
        "code": error.code,
        "message": message,
        "hint": error.hint if status_of(error) < 500 else "join again",
    }


async def open_socket(socket: WebSocket, caller: Caller) -> None:
    """Follow runs over one socket: send `join`, get `event`, `node_update` and `status_update`."""
    streams: Streams = socket.app.state.streams
    streams.check_room(caller.principal.workspace)
    await socket.accept()
    await Rooms(socket, caller, streams).serve()
