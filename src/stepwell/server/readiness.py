"""Readiness: whether this process can serve, checked by asking the database."""

from __future__ import annotations

import asyncio

from stepwell.app import Engine
from stepwell.errors import StepwellError

_SECONDS = 3.0


STOPPING = "send requests to another server of this database, or wait for the next one here"
_AGAIN = "it is ready again by itself as soon as the database answers"


class NotReady(Exception):
    """The process cannot serve; it has a code and a sentence."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


async def check_ready(engine: Engine) -> None:
    """Raise NotReady if the database does not answer, has another schema, or the worker is broken."""
    if not engine.is_open:
        raise NotReady("DRAINING", "the process is stopping", STOPPING)
    try:
        async with asyncio.timeout(_SECONDS):
            schema = await engine.store.read_schema()
        engine.notifier.check()
        if schema.stored != schema.known:
            raise NotReady(
                "SCHEMA_MISMATCH",
                f"the database has schema {schema.stored}, this process knows {schema.known}",
                "deploy the version of Stepwell that knows it; `stepwell db info` shows both",
            )
    except TimeoutError:
        raise NotReady("STORE_UNAVAILABLE", "the database does not answer", _AGAIN) from None
    except StepwellError as error:
        raise NotReady(error.code, (type(error).__doc__ or "").strip(), _AGAIN) from error
