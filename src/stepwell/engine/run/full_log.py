"""Full log: a machine is claimed with its log from the last checkpoint on; the store has the rest."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.domain.commit import LogRow
from stepwell.engine.run.port import RunPort
from stepwell.errors import StoreError

_PAGE = 1000

Take = Callable[[LogRow], None]


async def whole_log(run: RunPort, take: Take) -> None:
    """Give every row to `take`. For code that runs in a turn."""
    read = run.loop.create_future()
    look_back(run, take, lambda: read.set_result(None))
    await read


def look_back(run: RunPort, take: Take, then: Callable[[], None]) -> None:
    """Give every row to `take`, then call `then`. The run does not park until then.

    If the store does not answer, the run is given back.
    """
    run.hold()
    services = run.services
    # Not from here: in a turn the running loop is the workflow's.
    services.loop.call_soon(lambda: services.runner.spawn(_read(run, take, then)))


async def _read(run: RunPort, take: Take, then: Callable[[], None]) -> None:
    store, after = run.services.store, 0
    try:
        while page := await store.read_log(run.run_id, after=after, limit=_PAGE):
            for row in page:
                take(row)
            after = page[-1].seq
    except StoreError:
        run.release_hold()
        run.abandon(expected=True)  # the next owner looks again
        return
    run.release_hold()
    if run.closed is None:
        then()
        run.advance()
