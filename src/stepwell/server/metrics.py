"""Metrics: a port that shows what a process measures, apart from the API.

It serves `/metrics`, `/healthz` and `/readyz` to anybody who reaches it, so it listens on loopback unless
an operator names another address. It needs no web framework: a worker has it too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import NamedTuple, Protocol

from stepwell.app import Engine
from stepwell.domain.alerts import ALERT_KINDS, Alert, incidents_of, settings_of
from stepwell.domain.queues import QueueUse
from stepwell.errors import SettingsInvalid, StepwellError
from stepwell.notifications.sender import OUTCOMES
from stepwell.server.exposition import MEDIA_TYPE, Exposition
from stepwell.server.readiness import NotReady, check_ready
from stepwell.telemetry.measures import Histogram

_READ_SECONDS = 5.0  # seconds; queues are counted at most this often
_WAIT_SECONDS = 2.0  # seconds for the database, after which the rest is shown without it
_LAG_SECONDS = 0.25
_HEAD_MAX = 8192
_OTHER = "other"  # the label of all queues that no worker serves, whose names anybody can invent
_log = logging.getLogger("stepwell.metrics")


class Requests:
    """Requests to the API, by route and status."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, str], Histogram] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        key = (route, f"{status // 100}xx")
        if key not in self.seconds:
            self.seconds[key] = Histogram()
        self.seconds[key].add(seconds)


class OpenStreams(Protocol):
    open: int


class _Reading(NamedTuple):
    """Figures from the database."""

    up: bool
    queues: dict[str, QueueUse]
    workers: int
    now: float
    incidents: dict[str, int]  # open incidents, by what the alert is about


class Metrics:
    """Everything that one process measures."""

    def __init__(self, engine: Engine, streams: OpenStreams | None = None) -> None:
        self._engine, self._streams = engine, streams
        self.requests = Requests()
        self.lag = Histogram()
        self._reading = _Reading(False, {}, 0, 0.0, {})
        self._read_at = float("-inf")
        self._one_at_a_time = asyncio.Lock()

    async def watch_loop(self) -> None:
        """Measure how late the event loop is, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_SECONDS
            await asyncio.sleep(_LAG_SECONDS)
            self.lag.add(max(0.0, loop.time() - due))

    async def text(self) -> str:
        reading = await self._read()
        shown = Exposition()
        shown.gauge("stepwell_info", "Version of Stepwell.", [({"version": version("stepwell")}, 1)])
        shown.gauge("stepwell_database_up", "Whether the database answered.", [({}, float(reading.up))])
        self._show_queues(shown, reading)
        self._show_worker(shown)
        use = self._engine.store.connections()
        shown.gauge("stepwell_pool_connections", "Connections that the store may use.", [({}, use.most)])
        shown.gauge("stepwell_pool_busy", "Connections in use.", [({}, use.busy)])
        shown.gauge("stepwell_pool_waiting", "Calls that wait for a connection.", [({}, use.waiting)])
        shown.histogram("stepwell_loop_lag_seconds", "How late the event loop was.", [({}, self.lag)])
        if self._streams is not None:
            requests = sorted(self.requests.seconds.items())
            shown.histogram(
                "stepwell_http_request_seconds",
                "Requests to the API.",
                [({"route": route, "status": status}, seconds) for (route, status), seconds in requests],
            )
            shown.gauge("stepwell_open_streams", "Open event streams.", [({}, self._streams.open)])
        return shown.text()

    def _show_queues(self, shown: Exposition, reading: _Reading) -> None:
        queues = reading.queues.items()
        shown.gauge(
            "stepwell_queue_ready", "Due, and no worker has it.", [({"queue": q}, u.ready) for q, u in queues]
        )
        shown.gauge(
            "stepwell_queue_waiting",
            "Waits for time or a message.",
            [({"queue": q}, u.waiting) for q, u in queues],
        )
        shown.gauge(
            "stepwell_queue_active", "A worker has it.", [({"queue": q}, u.active) for q, u in queues]
        )
        shown.gauge(
            "stepwell_queue_age_seconds",
            "How long the oldest one has been ready.",
            [({"queue": q}, u.age(reading.now)) for q, u in queues],
        )
        shown.gauge("stepwell_workers", "Workers with a lease.", [({}, reading.workers)])
        shown.gauge(
            "stepwell_alerts_open",
            "Open incidents of alerts.",
            [({"what": what}, reading.incidents.get(what, 0)) for what in ALERT_KINDS],
        )
        loop = self._engine.notice_loop
        if loop is not None:
            shown.counter(
                "stepwell_notifications_total",
                "Attempts to send a notice.",
                [({"outcome": name}, loop.sender.outcomes[name]) for name in OUTCOMES],
            )

    def _show_worker(self, shown: Exposition) -> None:
        worker = self._engine.worker
        if worker is None:
            return
        measures = worker.measures
        shown.gauge("stepwell_active_runs", "Runs in this worker.", [({}, len(worker.active))])
        shown.gauge("stepwell_slots", "Runs that this worker can take.", [({}, worker.options.slots)])
        shown.counter("stepwell_claims_total", "Answered claims.", [({}, measures.claims)])
        shown.counter("stepwell_claimed_total", "Tickets taken.", [({}, measures.claimed)])
        shown.counter("stepwell_leases_lost_total", "Tickets lost to others.", [({}, measures.leases_lost)])
        shown.histogram("stepwell_commit_batch_size", "Commits in a batch.", [({}, measures.batches)])
        shown.histogram("stepwell_commit_seconds", "Batches of commits.", [({}, measures.batch_seconds)])
        shown.histogram(
            "stepwell_step_seconds",
            "Attempts of steps.",
            [({"outcome": name}, histogram) for name, histogram in measures.step_seconds.items()],
        )
        shown.histogram(
            "stepwell_run_seconds",
            "Runs, from the first claim to the end.",
            [({"status": name}, histogram) for name, histogram in sorted(measures.run_seconds.items())],
        )

    # The database

    async def _read(self) -> _Reading:
        async with self._one_at_a_time:
            now = asyncio.get_running_loop().time()
            if now - self._read_at > _READ_SECONDS or not self._reading.up:
                self._reading = await self._counted()
                self._read_at = now
            return self._reading

    async def _counted(self) -> _Reading:
        store = self._engine.store
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                now = await store.now()
                uses = await store.read_queues("", now=now)
                incidents = _open_incidents(await store.list_alerts(""))
                workers = [worker for worker in await store.list_workers() if worker.lease_until > now]
        except (StepwellError, TimeoutError) as error:
            _log.warning("the database did not answer: %s", error)
            return _Reading(False, {}, 0, 0.0, {})
        served = {queue for worker in workers for queue in worker.queues}
        queues: dict[str, QueueUse] = {}
        for use in uses:
            name = use.queue if use.queue in served else _OTHER
            queues[name] = _sum(queues.get(name), use._replace(queue=name))
        return _Reading(True, queues, len(workers), now, incidents)


def _open_incidents(alerts: Sequence[Alert]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for alert in alerts:
        what = settings_of(alert).what
        counts[what] = counts.get(what, 0) + sum(incident.opened for incident in incidents_of(alert))
    return counts


def _sum(one: QueueUse | None, other: QueueUse) -> QueueUse:
    if one is None:
        return other
    oldest = [use.oldest for use in (one, other) if use.oldest is not None]
    return QueueUse(
        other.queue,
        one.ready + other.ready,
        one.waiting + other.waiting,
        one.active + other.active,
        min(oldest, default=None),
    )


class MetricsPort:
    """Answers GET /metrics, /healthz and /readyz, one request a connection."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine, self._metrics = engine, metrics

    @asynccontextmanager
    async def listening(self, where: tuple[str, int] | None) -> AsyncIterator[str]:
        """Listen there while the block runs; yield the address. None: metrics are off."""
        if where is None:
            yield ""
            return
        host, port = where
        try:
            server = await asyncio.start_server(self._serve, host, port, limit=_HEAD_MAX)
        except OSError as error:
            raise SettingsInvalid(
                f"cannot show metrics on {host}:{port}: {error.strerror}",
                hint="choose another --metrics-port",
            ) from None
        async with server, asyncio.TaskGroup() as group:
            watching = group.create_task(self._metrics.watch_loop())
            host, port = server.sockets[0].getsockname()[:2]
            try:
                yield f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"
            finally:
                watching.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head.split(b"\r\n", 1)[0]))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # an empty or unknown request
        finally:
            writer.close()

    async def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _response(405, "only GET\n", method)
        if path == b"/metrics":
            return _response(200, await self._metrics.text(), method, MEDIA_TYPE)
        if path == b"/healthz":
            return _response(200, "ok\n", method)
        if path == b"/readyz":
            try:
                await check_ready(self._engine)
            except NotReady as reason:
                return _response(503, f"{reason.code}\n", method)
            return _response(200, "ready\n", method)
        return _response(404, "/metrics, /healthz or /readyz\n", method)


_PHRASES = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def _response(status: int, body: str, method: bytes, kind: str = "text/plain; charset=utf-8") -> bytes:
    data = body.encode()
    head = (
        f"HTTP/1.1 {status} {_PHRASES[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == b"HEAD" else data)
