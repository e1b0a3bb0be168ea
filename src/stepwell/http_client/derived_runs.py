"""HttpDerivedRuns: runs that a server makes from others, and runs as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, Unpack

from msgspec import Raw

from stepwell.client import RunHandle, run_file
from stepwell.client.derived_runs import UNCHANGED, DerivedRuns, id_of
from stepwell.client.options import WhoOptions
from stepwell.client.store_access import StoreAccess
from stepwell.domain.codec import PLAIN, encoded_by_type
from stepwell.domain.ids import RunId
from stepwell.domain.text import checked_text, clean
from stepwell.errors import RunExists
from stepwell.http_client.connection import Connection
from stepwell.http_client.rows import fields_of, text_of

HandleMaker: TypeAlias = Callable[[RunId, Callable[[bytes], Any]], RunHandle[Any]]

_FILE_SECONDS = 300.0


class HttpDerivedRuns(DerivedRuns):
    def __init__(self, access: StoreAccess, connection: Connection, handle: HandleMaker) -> None:
        super().__init__(access)
        self._connection = connection
        self._handle = handle

    async def rerun(
        self, run: RunHandle[Any] | str, *, input: Any, version: str, key: str, **who: Unpack[WhoOptions]
    ) -> RunHandle[Any]:
        body = {"version": checked_text(version, "version")} if version else {}
        return await self._derive(run, "rerun", body | _edited("input", input), key, **who)

    async def rerun_from(
        self,
        run: RunHandle[Any] | str,
        step: str,
        *,
        outputs: Mapping[str, Any] | None,
        key: str,
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]:
        body = {"step": checked_text(step, "step"), **self._edited_outputs(outputs)}
        return await self._derive(run, "rerun-from", body, key, **who)

    async def fork(
        self,
        run: RunHandle[Any] | str,
        *,
        at: int,
        input: Any,
        state: Any,
        outputs: Mapping[str, Any] | None,
        key: str,
        **who: Unpack[WhoOptions],
    ) -> RunHandle[Any]:
        body = {
            "at": at,
            **_edited("input", input),
            **_edited("state", state),
            **self._edited_outputs(outputs),
        }
        return await self._derive(run, "fork", body, key, **who)

    async def _derive(
        self,
        run: RunHandle[Any] | str,
        how: str,
        body: dict[str, Any],
        key: str,
        *,
        by: str = "",
        reason: str = "",
    ) -> RunHandle[Any]:
        body |= {"by": checked_text(by, "by"), "reason": clean(reason)}
        chosen = checked_text(key, "key") or self._access.token()
        answer = await self._connection.post(f"/runs/{id_of(run)}/{how}", body, key=chosen)
        decode = PLAIN.decode if isinstance(run, str) else run._decode
        return self._handle(RunId(text_of(fields_of(answer.content), "id")), decode)

    def _edited_outputs(self, outputs: Mapping[str, Any] | None) -> dict[str, Any]:
        encoded = self._encoded_outputs(outputs)
        return {"outputs": {path: Raw(data) for path, data in encoded.items()}} if encoded else {}

    async def export(self, run: RunHandle[Any] | str, *, children: bool) -> bytes:
        params = {"children": "true" if children else "false"}
        return await self._connection.get(f"/runs/{id_of(run)}/export", params, read=_FILE_SECONDS)

    async def restore(self, file: bytes | str, *, by: str) -> RunHandle[Any]:
        params = {"by": checked_text(by, "by")}
        top = run_file.read(file)[0]  # raises if it is not a run file
        data = file.encode() if isinstance(file, str) else bytes(file)
        await self._connection.call(
            "POST", "/runs/import", params=params, body=data, read=_FILE_SECONDS, settled=RunExists
        )
        return self._handle(top.id, PLAIN.decode)


def _edited(name: str, value: Any) -> dict[str, Any]:
    return {} if value is UNCHANGED else {name: Raw(encoded_by_type(value))}
