"""Starts: runs come into being, many in one statement."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from itertools import accumulate
from typing import Any

from stepwell.domain.admission import requested_lanes
from stepwell.domain.commit import Claim, Identity, NewRun, Started
from stepwell.domain.ids import RunId
from stepwell.store.base import BATCH_BYTES_MAX
from stepwell.store.postgres.limits import PostgresLimits
from stepwell.store.postgres.pool.batcher import Gathering, cannot_hold
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.pool.packing import BETWEEN_COLUMNS, joined, unjoined

Known = dict[Identity, tuple[str, str]]  # -> run, digest of its input

LARGE = 250  # runs; to wait for others before such a call is sent would save nothing
STARTS_MAX = 1000  # in one statement; more in a call are several statements of one transaction


class PostgresStarts(PostgresLimits):
    def __init__(self, dsn: str, *, clock: Callable[[], float] | None = None) -> None:
        super().__init__(dsn, clock=clock)
        self._starting = Gathering[NewRun, Started](self._start_many, STARTS_MAX)

    def start(self, runs: Sequence[NewRun]) -> Coroutine[Any, Any, Sequence[Started]]:
        return self._starting.ask(runs) if len(runs) < LARGE else self._start_large(runs)

    async def _start_large(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        """Beside another such call: most of its time is the server's, which has a process for each."""
        try:
            return await self._start_many(runs, own_task=False)
        except Refused as error:
            raise cannot_hold(error) from error

    async def _start_many(self, runs: Sequence[NewRun], *, own_task: bool = True) -> Sequence[Started]:
        sent_before = False

        def in_doubt() -> None:
            nonlocal sent_before
            sent_before = True

        async def work(connection: Connection) -> dict[str, Claim | None]:
            return await self._write_starts(connection, runs)

        few = len(runs) == 1 or (len(runs) <= STARTS_MAX and sum(map(_size, runs)) <= BATCH_BYTES_MAX)
        single = few and not requested_lanes(runs)
        created = await self._write(
            "start", self._start_lanes, work, single=single, on_doubt=in_doubt, own_task=own_task
        )
        answers: list[Started | None] = []
        for run in runs:
            first = run.id in created  # a key may come twice in one call
            answers.append(Started(run.id, created=True, claim=created.pop(run.id)) if first else None)
        missing = [run for run, answer in zip(runs, answers, strict=True) if answer is None]
        if not missing:
            return [answer for answer in answers if answer is not None]
        known = await self._start_lanes.run(lambda connection: self._known_keys(connection, missing))
        return [
            answer or known_start(run, known.get(run.identity), sent_before=sent_before)
            for run, answer in zip(runs, answers, strict=True)
        ]

    async def _known_keys(self, connection: Connection, runs: Sequence[NewRun]) -> Known:
        """The runs that these starts would repeat, as far as there are any."""
        if not runs:
            return {}
        keys = list(dict.fromkeys(run.identity for run in runs))
        rows = await connection.fetch(
            self._sql["find_keys"], [first for first, _ in keys], [key for _, key in keys]
        )
        return {keys[row["i"] - 1]: (row["id"], row["digest"]) for row in rows}

    async def _write_starts(self, connection: Connection, runs: Sequence[NewRun]) -> dict[str, Claim | None]:
        """Those that are new, by id, with what their owner has of them. Keys are sorted over all
        statements, and come once each."""
        if lanes := requested_lanes(runs):
            runs = await self._owned_within_limits(connection, runs, lanes)
        if len(runs) == 1:
            return await self._write_start(connection, runs[0])
        first = {run.identity: run for run in reversed(runs)}
        created: dict[str, Claim | None] = {}
        for chunk in _chunks([run for _, run in sorted(first.items(), key=lambda item: item[0])]):
            if len(chunk) == 1:
                created |= await self._write_start(connection, chunk[0])
                continue
            rows = await connection.fetch(self._sql["start_runs"], self._now(), *_arguments(chunk))
            by_id = {run.id: run for run in chunk}
            for run_id, at, taken in rows:
                created[run_id] = by_id[run_id].taken(at) if taken else None
        return created

    async def _write_start(self, connection: Connection, run: NewRun) -> dict[str, Claim | None]:
        rows = await connection.fetch(self._sql["start_run"], self._now(), *_single(run))
        return {run_id: run.taken(at) if taken else None for run_id, at, taken in rows}


def known_start(run: NewRun, found: tuple[str, str] | None, *, sent_before: bool) -> Started:
    """What a start that met its key is told. Ids are made for one call, so a run with our id after a lost
    answer is the one we made. None: it was removed since (retention); ours was not made."""
    run_id, digest = found or (run.id, "")
    ours = found is not None and sent_before and run_id == run.id
    return Started(RunId(run_id), created=ours, conflict=digest != run.digest)


def _size(run: NewRun) -> int:
    return len(run.input) + len(run.accepted) + 500


def _chunks(runs: list[NewRun]) -> list[list[NewRun]]:
    chunks: list[list[NewRun]] = []
    room = 0
    for run in runs:
        size = _size(run)
        if room < size or len(chunks[-1]) == STARTS_MAX:
            chunks.append([])
            room = BATCH_BYTES_MAX
        chunks[-1].append(run)
        room -= size
    return chunks


def _arguments(runs: Sequence[NewRun]) -> tuple[object, ...]:
    columns = zip(*[_texts(run) for run in runs], strict=True)
    pieces = [piece for run in runs for piece in (run.accepted, run.input, run.tags)]
    places = [str(place) for place in accumulate(map(len, pieces), initial=1)]
    return (
        joined([joined([*column, ""]) for column in columns], BETWEEN_COLUMNS),
        b"".join(pieces),
        ",".join(places[:-1:3]),
        ",".join(places[1::3]),
        ",".join(places[2::3]),
        ",".join(places[3::3]),
        ",".join([str(run.priority) for run in runs]),
        ",".join([repr(run.delay) for run in runs]),
        ",".join(["1" if run.test else "0" for run in runs]),
    )


def _single(run: NewRun) -> tuple[object, ...]:
    return (*unjoined(_texts(run)), run.accepted, run.input, run.tags, run.priority, run.delay, run.test)


def _texts(run: NewRun) -> tuple[str, ...]:
    return (
        run.id,
        run.workspace,
        run.workflow,
        run.version,
        run.kind,
        run.queue,
        run.needs,
        run.key,
        run.digest,
        run.lane,
        run.hash,
        run.parent,
        run.parent_path,
        run.root,
        run.trigger,
        run.owner if run.wanted else "",
        run.lease,
    )
