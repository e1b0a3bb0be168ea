"""HttpClient: the verbs of the client, for runs behind a server.

It needs no database and no workflow code. Every start and message carries a key, so a request whose answer
was lost is sent again and counts once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import Raw

from stepwell.client import Client, RunHandle
from stepwell.client.options import checked_options
from stepwell.client.rates import RatePer, checked_rate
from stepwell.domain.codec import PLAIN, encoded_by_type
from stepwell.domain.commit import WorkerRow
from stepwell.domain.ids import RunId
from stepwell.domain.limits import Hold, Limit, LimitKind, checked_limit
from stepwell.domain.manual_trigger import MANUAL
from stepwell.domain.new_run import NO_INPUT, encoded_input, startable
from stepwell.domain.queues import QueueUse
from stepwell.domain.rates import StoredRate
from stepwell.domain.text import checked_text, clean
from stepwell.errors import (
    InvalidInput,
    InvalidRequest,
    RequestRefused,
    ServerFault,
    SettingsInvalid,
    excerpt,
)
from stepwell.http_client.alerts import HttpAlerts
from stepwell.http_client.connection import Connection
from stepwell.http_client.derived_runs import HttpDerivedRuns
from stepwell.http_client.event_triggers import HttpEventTriggers
from stepwell.http_client.handle import HttpRunHandle
from stepwell.http_client.keys import HttpKeys
from stepwell.http_client.library import HttpGraphLibrary
from stepwell.http_client.records import HttpRecords
from stepwell.http_client.rows import Fields, fields_of, flag_of, listed, row_of, text_of
from stepwell.http_client.schedules import HttpSchedules
from stepwell.http_client.search import HttpSearch
from stepwell.http_client.secrets import HttpSecrets
from stepwell.http_client.webhooks import HttpWebhooks
from stepwell.http_client.workflows import HttpHolds, HttpWorkflows
from stepwell.store.base import Store
from stepwell.system import SystemClock, SystemIds

R = TypeVar("R")

RETRY_SECONDS = 30.0
KEY_VARIABLE = "STEPWELL_API_KEY"
_PAGE_MAX = 1000
_BATCH_MAX = 500  # runs started in one request
_BATCH_BYTES = 1024 * 1024


def connect(address: str, *, key: str = "", retry_seconds: float = RETRY_SECONDS) -> HttpClient:
    """Return a client of a server: `async with stepwell.connect("https://...", key=...) as client:`.

    `key` is an API key or a launch token; without it, STEPWELL_API_KEY or the key in a launch address is
    used. While the server is away, calls are repeated for `retry_seconds`.
    """
    return HttpClient(address, key=key, retry_seconds=retry_seconds)


class HttpClient(Client):
    """A Client whose runs are behind a server. The key determines the caller and the workspace."""

    def __init__(self, address: str, *, key: str = "", retry_seconds: float = RETRY_SECONDS) -> None:
        if not str(key).isascii() or not str(key).isprintable():
            raise SettingsInvalid("the key is not the text of a key", hint="pass it as it was shown")
        key = key or os.environ.get(KEY_VARIABLE, "")
        self.connection = Connection(address, key, retry_seconds=retry_seconds)
        super().__init__(cast(Store, _NoStore()), SystemIds())

    def _bind(self) -> None:
        self._workflows = HttpWorkflows(self, self.connection)
        self._search = HttpSearch(self, self.connection)
        self._holds = HttpHolds(self, self.connection)
        self.derived_runs = HttpDerivedRuns(self, self.connection, self._handle)

    async def open(self) -> None:
        """Connect, and ask which workspace the key opens."""
        self.connection.open()
        try:
            answer = await self.connection.call("GET", "/me", patient=False)
            self.workspace = text_of(fields_of(answer.content), "workspace")
        except (msgspec.DecodeError, KeyError):
            await self.connection.close()
            raise ServerFault(
                f"what answers at {self.connection.address.root} is not a Stepwell server",
                hint="check the address",
            ) from None
        except BaseException:
            await self.connection.close()
            raise

    async def close(self) -> None:
        await self.connection.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def within(self, workspace: str) -> Self:
        if workspace == self.workspace:
            return self
        raise InvalidRequest(
            f"the key opens workspace {excerpt(self.workspace)} only", hint="use a key of the other workspace"
        )

    def check_usable(self) -> None:
        self.connection.check_open()

    # Starting

    async def _start_one(self, workflow: Any, input: Any, options: dict[str, Any]) -> RunHandle[Any]:
        key = checked_text(options.pop("key", ""), "key")
        body, decode = self._start_body(workflow, options)
        if input is not NO_INPUT or not isinstance(workflow, str):
            body["input"] = Raw(_encoded(workflow, input))
        answer = await self.connection.post("/runs", body, key=key or self.token())
        return self._handle(_run_id(answer.content), decode)

    async def _start_all(
        self, workflow: Any, inputs: Sequence[Any], keys: Sequence[str], options: dict[str, Any]
    ) -> list[RunHandle[Any]]:
        body, decode = self._start_body(workflow, options)
        encoded = [_numbered(at, len(inputs), workflow, input) for at, input in enumerate(inputs)]
        known = [checked_text(key, "key") or self.token() for key in keys]  # a repeat counts once
        handles: list[RunHandle[Any]] = []
        for first, last in _batches(encoded):
            batch = {"inputs": [Raw(data) for data in encoded[first:last]], "keys": known[first:last]}
            answer = await self.connection.post("/runs/batch", body | batch)
            runs = listed(answer.content, "runs")
            handles += [self._handle(RunId(text_of(fields, "id")), decode) for fields in runs]
        return handles

    def _start_body(
        self, workflow: Any, options: dict[str, Any]
    ) -> tuple[dict[str, Any], Callable[[bytes], Any]]:
        """Return what the server needs besides the input, and how results are read."""
        version = checked_text(options.pop("version", ""), "version")
        if options.get("trigger", "") not in ("", "api", MANUAL):
            raise InvalidInput(
                "a server records `api` or `manual` as the trigger",
                hint="leave `trigger` out, or give `manual`",
            )
        given = set(options)
        checked = checked_options(options)
        body: dict[str, Any] = {name: checked[name] for name in given if checked[name] is not None}
        if isinstance(workflow, str):
            body |= {"workflow": checked_text(workflow, "workflow"), "version": version}
            return body, PLAIN.decode
        startable(workflow, version)
        body |= {"workflow": workflow.definition.name, "version": workflow.definition.version}
        return body, workflow.decode_result

    # Reading

    def _handle(self, run_id: RunId, decode: Callable[[bytes], R]) -> RunHandle[R]:
        return HttpRunHandle(self, self.connection, run_id, decode)

    async def find(self, key: str) -> RunHandle[Any] | None:
        if not checked_text(key, "key"):
            return None
        runs = listed(await self.connection.get("/runs", {"key": key}), "runs")
        return self._handle(RunId(text_of(runs[0], "id")), PLAIN.decode) if runs else None

    # Limits

    async def set_limit(
        self,
        kind: LimitKind,
        name: str = "",
        limit: int | None = None,
        *,
        hold: Hold = "active",
        by: str = "",
    ) -> None:
        row = checked_limit(Limit(kind=kind, name=name, limit=limit, hold=hold))
        body = {"kind": row.kind, "name": row.name, "limit": row.limit, "hold": row.hold}
        await self.connection.call("PUT", "/limits", body=body | {"by": checked_text(by, "by")})

    async def drop_limit(self, kind: LimitKind, name: str = "", *, by: str = "") -> bool:
        params = {"kind": kind, "name": checked_text(name, "name"), "by": checked_text(by, "by")}
        return await self._dropped("/limits", params)

    async def _dropped(self, path: str, params: dict[str, str]) -> bool:
        try:
            await self.connection.call("DELETE", path, params=params, settled=RequestRefused)
        except RequestRefused as error:
            if error.refusal != "LIMIT_NOT_FOUND":
                raise
            return False
        return True

    async def limits(self) -> list[Limit]:
        rows = listed(await self.connection.get("/limits"), "limits")
        limits = [row_of(Limit, fields) for fields in rows]
        return [
            limit if limit.kind == "queue" else msgspec.structs.replace(limit, workspace=self.workspace)
            for limit in limits
        ]

    async def set_start_rate(
        self, per: RatePer, limit: int | None = None, *, seconds: float = 60.0, by: str = ""
    ) -> None:
        rate = checked_rate(per, limit, seconds, by)
        await self.connection.call("PUT", "/start-rates", body=rate._asdict())

    async def drop_start_rate(self, per: RatePer, *, seconds: float = 60.0, by: str = "") -> bool:
        rate = checked_rate(per, None, seconds, by)
        params = {"per": rate.per, "seconds": str(rate.seconds), "by": rate.by}
        return await self._dropped("/start-rates", params)

    async def start_rates(self) -> list[StoredRate]:
        rows = listed(await self.connection.get("/limits"), "rates")
        return [row_of(StoredRate, fields) for fields in rows if msgspec.json.decode(fields["stored"])]

    # Workers and queues

    async def workers(self) -> Sequence[WorkerRow]:
        rows = listed(await self.connection.get("/workers"), "workers")
        return [row_of(WorkerRow, fields, needs=_needs(fields)) for fields in rows]

    async def drain(self, worker: str, *, by: str = "", reason: str = "") -> bool:
        path = f"/workers/{quote(checked_text(worker, 'worker'), safe='')}/drain"
        body = {"by": checked_text(by, "by"), "reason": clean(reason)}
        answer = await self.connection.post(path, body)
        return flag_of(answer.content, "changed") or answer.repeated

    async def queues(self) -> Sequence[QueueUse]:
        rows = listed(await self.connection.get("/queues"), "queues")
        now = SystemClock().time()
        uses = [row_of(QueueUse, fields, queue=text_of(fields, "name"), oldest=None) for fields in rows]
        ages: list[float] = [msgspec.json.decode(fields["age"]) for fields in rows]
        return [
            use._replace(oldest=now - age) if use.ready else use
            for use, age in zip(uses, ages, strict=True)
            if use.ready or use.waiting or use.active
        ]

    # Graphs

    @property
    def library(self) -> HttpGraphLibrary:
        """The saved graphs of the workspace: drafts and published versions."""
        return HttpGraphLibrary(self, self.connection)

    async def start_graph(
        self, graph: Mapping[str, Any], input: Any = None, *, test: bool = False, key: str = "", by: str = ""
    ) -> RunHandle[Any]:
        """Start a test run of an unsaved graph. Other runs need a published version."""
        if not test:
            raise InvalidRequest(
                "a server starts unsaved graphs as test runs only",
                hint="pass test=True, or save and publish it: client.library",
            )
        body = {"graph": graph, "input": Raw(PLAIN.encode(input)), "by": checked_text(by, "by")}
        answer = await self.connection.post(
            "/graphs/test", body, key=checked_text(key, "key") or self.token()
        )
        return self._handle(_run_id(answer.content), PLAIN.decode)

    # Access

    @property
    def keys(self) -> HttpKeys:
        return HttpKeys(self, self.connection)

    @property
    def alerts(self) -> HttpAlerts:
        return HttpAlerts(self, self.connection)

    @property
    def secrets(self) -> HttpSecrets:
        return HttpSecrets(self, self.connection)

    @property
    def records(self) -> HttpRecords:
        return HttpRecords(self, self.connection)

    @property
    def schedules(self) -> HttpSchedules:
        return HttpSchedules(self, self.connection)

    @property
    def webhooks(self) -> HttpWebhooks:
        return HttpWebhooks(self, self.connection)

    @property
    def triggers(self) -> HttpEventTriggers:
        return HttpEventTriggers(self, self.connection)

    # Broadcast events

    async def emit(
        self, name: str, payload: Any = None, *, key: str = "", id: str = "", by: str = ""
    ) -> bool:
        body = {
            "name": checked_text(name, "name"),
            "payload": Raw(encoded_by_type(payload)),
            "key": checked_text(key, "key"),
            "id": checked_text(id, "id") or self.token(),
            "by": checked_text(by, "by"),
        }
        answer = await self.connection.post("/events", body)
        return flag_of(answer.content, "published") or (answer.repeated and not id)


class _NoStore:
    """Takes the place of the store that other clients have."""

    def __getattr__(self, name: str) -> NoReturn:
        raise InvalidRequest(
            "a client over HTTP does not reach the database",
            hint="use the verbs of the client, or open the database itself: Engine(database, worker=False)",
        )


def _needs(fields: Fields) -> tuple[str, ...]:
    """Return a worker's workflows and remote steps, in the form in which a store has them."""
    workflows, steps = (msgspec.json.decode(fields[name], type=list[str]) for name in ("workflows", "steps"))
    return (*workflows, *(f"step:{name}" for name in steps))


def _encoded(workflow: Any, input: Any) -> bytes:
    return PLAIN.encode(input) if isinstance(workflow, str) else encoded_input(workflow, input)[0]


def _numbered(at: int, count: int, workflow: Any, input: Any) -> bytes:
    """Encode one of many inputs. An error names which one."""
    try:
        return _encoded(workflow, input)
    except InvalidRequest as error:
        error.context = {"which": f"inputs[{at}] of {count}", **error.context}
        raise


def _batches(encoded: Sequence[bytes]) -> list[tuple[int, int]]:
    """Yield the first and last index of each request, so that no request is too large."""
    batches: list[tuple[int, int]] = []
    first = size = 0
    for at, data in enumerate(encoded):
        if at > first and (size + len(data) > _BATCH_BYTES or at - first == _BATCH_MAX):
            batches.append((first, at))
            first, size = at, 0
        size += len(data)
    return [*batches, (first, len(encoded))] if encoded else []


def _run_id(data: bytes) -> RunId:
    return RunId(text_of(fields_of(data), "id"))
