"""Connection: requests to one server, repeated where a repeat is safe.

A request that was not sent may always be repeated. One whose answer was lost is repeated only if it reads, or
carries a key or an id under which the server does it once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec

from stepwell.client.replay_guard import refuse_in_workflow_code
from stepwell.errors import (
    InvalidRequest,
    OutcomeUnknown,
    ServerUnavailable,
    SettingsInvalid,
    StepwellError,
    excerpt,
)
from stepwell.http_client.refusals import error_of, is_passing

Params: TypeAlias = Mapping[str, str | int | Sequence[str]]

HINT = 'give the address of a server: "https://flows.example", "http://localhost:8710"'
API = "/api/v1"
_CONNECT_SECONDS = 5.0
_READ_SECONDS = 60.0
_SILENT_SECONDS = 45.0  # the server sends a sign of life every 15 s
_PAUSE_MIN, _PAUSE_MAX = 0.05, 2.0  # seconds
_KEPT = 20  # number of idle connections
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Answer(NamedTuple):
    content: bytes
    repeated: bool  # an earlier request whose answer was lost may have succeeded


class ServerAddress(NamedTuple):
    """Where a server is: its root without a slash at the end, and the key that the address may contain."""

    root: str
    host: str
    key: str


def address_of(text: str) -> ServerAddress:
    """Parse the address of a server. A launch address contains the key: `http://localhost:8710/?t=...`."""
    parts = urlsplit(str(text).strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise SettingsInvalid(f"{excerpt(text)} is not the address of a server", hint=HINT)
    token = parse_qs(parts.query).get("t", [""])[0]
    path = parts.path.rstrip("/").removesuffix(API)
    return ServerAddress(f"{parts.scheme}://{parts.netloc}{path}", parts.hostname, token)


class Connection:
    def __init__(self, address: str, key: str, *, retry_seconds: float) -> None:
        self.address = address_of(address)
        self._key = key or self.address.key
        self._retry_seconds = retry_seconds
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        headers = {"User-Agent": "stepwell"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._loop = asyncio.get_running_loop()
        self._client = httpx2.AsyncClient(
            base_url=self.address.root + API,
            headers=headers,
            timeout=httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS, pool=None),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=_KEPT),
            trust_env=self.address.host not in _LOOPBACK,  # no proxy is needed for this machine
        )

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def check_open(self) -> httpx2.AsyncClient:
        """Return the open client. InvalidRequest if it is not open on this loop."""
        refuse_in_workflow_code()
        if self._client is None or self._loop is not asyncio.get_running_loop():
            raise InvalidRequest(
                "the client is not open" if self._client is None else "the client was opened by another loop",
                hint="use it inside `async with stepwell.connect(...) as client:`",
            )
        return self._client

    async def get(self, path: str, params: Params | None = None, *, read: float = _READ_SECONDS) -> bytes:
        return (await self.call("GET", path, params=params, read=read)).content

    async def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str = "",
        settled: type[StepwellError] | None = None,
    ) -> Answer:
        """Send a JSON body. With `key` as Idempotency-Key, the server does it once."""
        return await self.call("POST", path, body=body, key=key, settled=settled)

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: Mapping[str, Any] | bytes | None = None,
        key: str = "",
        match: str = "",
        repeat: bool = True,
        read: float = _READ_SECONDS,
        patient: bool = True,
        settled: type[StepwellError] | None = None,
    ) -> Answer:
        """Return the answer, or raise the error of the verb if the server refuses.

        `patient`: wait for a server that is away. `settled`: the refusal of a repeated request that proves
        that an earlier one succeeded. `match`: the hash of what is to be changed, for If-Match.
        """
        client = self.check_open()
        request = client.build_request(
            method,
            path,
            params=params,
            headers=_headers(body, key, match),
            content=body if isinstance(body, bytes | None) else msgspec.json.encode(body),
            timeout=httpx2.Timeout(read, connect=_CONNECT_SECONDS, pool=None),
        )
        pauses, repeated = Pauses(self._retry_seconds if patient else 0.0), False
        while True:
            try:
                response = await client.send(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure: StepwellError = self.unreachable(error)
            except httpx2.TransportError as error:
                failure, repeated = self._lost(method, error), True
                if not repeat:
                    raise failure from None
            else:
                if response.is_success:
                    return Answer(response.content, repeated)
                failure = error_of(response)
                if repeated and settled is not None and isinstance(failure, settled):
                    return Answer(b"", repeated)
                if not is_passing(response) or not repeat:
                    raise failure
                repeated = True
            await pauses.next(failure)

    async def server_time(self) -> float | None:
        """Return the server's time, in whole seconds, from the date of an answer; None if it has none."""
        try:
            response = await self.check_open().get("/me")
        except httpx2.TransportError as error:
            raise self.unreachable(error) from None
        try:
            return parsedate_to_datetime(response.headers.get("date", "")).timestamp()
        except ValueError:
            return None

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        """Open a live stream. Errors of the transport go to the reader, which resumes."""
        client = self.check_open()
        timeout = httpx2.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS, pool=None)
        async with client.stream("GET", path, headers=headers, timeout=timeout) as response:
            if not response.is_success:
                await response.aread()
                error = error_of(response)
                raise self.unreachable(error) if is_passing(response) else error
            yield response

    def unreachable(self, error: Exception) -> ServerUnavailable:
        return ServerUnavailable(
            f"the server at {self.address.root} cannot be reached", cause=str(error) or type(error).__name__
        )

    def _lost(self, method: str, error: Exception) -> StepwellError:
        if method == "GET":
            return self.unreachable(error)
        return OutcomeUnknown(
            f"the server at {self.address.root} did not answer: the change may or may not have happened",
            cause=str(error) or type(error).__name__,
        )

    def pauses(self) -> Pauses:
        return Pauses(self._retry_seconds)


class Pauses:
    """Growing pauses between attempts, until enough time has passed since the first failure."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._until: float | None = None
        self._pause = _PAUSE_MIN

    def begin_again(self) -> None:
        """Forget the failures, because an attempt succeeded."""
        self._until, self._pause = None, _PAUSE_MIN

    def count_anew(self) -> None:
        """Count the time from the next failure but keep the length of pauses: the server briefly answered."""
        self._until = None

    async def next(self, failure: StepwellError) -> None:
        """Wait before the next attempt, or raise the last failure when the time is over."""
        now = asyncio.get_running_loop().time()
        self._until = now + self._limit if self._until is None else self._until
        if now + self._pause > self._until:
            raise failure from None
        await asyncio.sleep(self._pause * random.uniform(0.5, 1.0))  # clients must not all return at once
        self._pause = min(self._pause * 2, _PAUSE_MAX)


def _headers(body: object, key: str, match: str) -> dict[str, str]:
    headers = {"Content-Type": "application/json"} if body is not None else {}
    headers |= {"If-Match": f'"{match}"'} if match else {}
    return headers | ({"Idempotency-Key": key} if key else {})
