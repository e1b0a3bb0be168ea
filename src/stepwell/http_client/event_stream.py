"""Event stream: follows the log of a run without gap or repeat, across lost connections.

The id of a server-sent event is its seq. After a lost connection the reader sends the last seq that it has,
and the server continues there, even if it is another server by now.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx2
import msgspec

from stepwell.errors import ServerUnavailable, StepwellError
from stepwell.http_client.connection import Connection
from stepwell.http_client.rows import EventAnswer

_NOTHING_MORE = 204


async def follow(connection: Connection, run_id: str, after: int) -> AsyncGenerator[EventAnswer, None]:
    """Yield every event after that seq, until the run ends."""
    path, pauses = f"/runs/{run_id}/stream", connection.pauses()
    while True:
        failure: StepwellError = ServerUnavailable(f"the stream of run {run_id} ended early")
        heard = False  # the server was there and answered
        try:
            async with connection.stream(path, {"Last-Event-ID": str(after)}) as response:
                heard = True
                if response.status_code == _NOTHING_MORE:
                    return
                async for message in httpx2.EventSource(response):
                    if message.event == "end":
                        return
                    if message.event in ("error", "resume"):
                        heard = message.event == "resume"
                        break
                    if message.event != "message" or not message.data:
                        continue
                    event = msgspec.json.decode(message.data, type=EventAnswer)
                    if event.seq != after + 1:
                        break  # a gap: ask for the missing event
                    after = event.seq
                    pauses.begin_again()
                    yield event
        except httpx2.TransportError as error:
            failure = connection.unreachable(error)
        except ServerUnavailable as error:
            failure = error
        if heard:
            pauses.count_anew()
        await pauses.next(failure)
