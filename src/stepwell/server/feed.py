"""Feed: the log of one run as it grows, for server-sent events and rooms."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from stepwell.app import Engine
from stepwell.domain.commit import LogRow
from stepwell.domain.ids import RunId
from stepwell.domain.status import Status
from stepwell.server.live import Streams

_PAGE = 200
_ROW_BYTES = 512  # bytes; more than a codec adds to a payload
_PAGE_BYTES = 64 * 1024  # bytes of payloads that are held for a slow reader


class News(NamedTuple):
    """Events that a reader does not have yet, and the status of the run."""

    rows: Sequence[LogRow]
    status: Status
    ended: bool  # whether this is the end


async def run_feed(engine: Engine, run_id: str, after: int, streams: Streams) -> AsyncGenerator[News, None]:
    """Yield the events of a run after a seq as they arrive, until the run or the server ends."""
    run, watch = engine.handle(run_id), streams.watching(engine.notifier.watch(RunId(run_id)))
    reported: Status | None = None
    with engine.notifier.following(RunId(run_id)):
        while not streams.draining:
            seen = watch.news
            status = (await run.info()).status  # before the log: the last events of an ended run are there
            rows = await engine.store.read_log(RunId(run_id), after=after, limit=_PAGE, bytes_max=_PAGE_BYTES)
            after += len(rows)
            more = len(rows) == _PAGE or _may_be_cut(rows)
            ended = status.terminal and not more
            if rows or ended or status is not reported:
                reported = status
                yield News(rows, status, ended)
            if ended:
                return
            if not more:
                engine.notifier.check()
                await watch.wait(engine.notifier.look_in(), seen)


def _may_be_cut(rows: Sequence[LogRow]) -> bool:
    """Return whether the size limit may have ended the page. Sizes were counted as stored, maybe encoded."""
    return 2 * sum(len(row.payload) + _ROW_BYTES for row in rows) >= _PAGE_BYTES
