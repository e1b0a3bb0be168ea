"""Starts: new runs, many in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from stepwell.domain.admission import requested_lanes
from stepwell.domain.commit import Claim, Identity, NewRun, Started
from stepwell.domain.ids import RunId
from stepwell.domain.search import tag_terms
from stepwell.store.base import BATCH_BYTES_MAX
from stepwell.store.postgres.database import Database
from stepwell.store.postgres.limits import PgLimits
from stepwell.store.postgres.numbers import PgNumbers
from stepwell.store.postgres.pool.batcher import cannot_hold
from stepwell.store.postgres.pool.connection import Connection
from stepwell.store.postgres.pool.errors import Refused
from stepwell.store.postgres.pool.packed_text import BETWEEN_COLUMNS, packable, packed

Existing = dict[Identity, tuple[str, str]]  # -> run, digest of its input

LARGE = 250  # runs; batching such a call with others would save nothing
STARTS_MAX = 1000  # in one statement; a larger call is several statements of one transaction


class PgStarts:
    def __init__(self, db: Database, limits: PgLimits, numbers: PgNumbers) -> None:
        self._db = db
        self._sql = db.sql
        self._limits = limits
        self.numbers = numbers

    async def start_large(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        """Send a large call beside others: most of its time is the server's, which has a process for each."""
        try:
            return await self.start(runs, own_task=False)
        except Refused as error:
            raise cannot_hold(error) from error

    async def start(self, runs: Sequence[NewRun], *, own_task: bool = True) -> Sequence[Started]:
        sent_before = False

        def in_doubt() -> None:
            nonlocal sent_before
            sent_before = True

        numbers = await self.numbers.take(runs)

        async def work(connection: Connection) -> dict[str, Claim | None]:
            return await self.write_starts(connection, runs, numbers)

        few = len(runs) == 1 or (len(runs) <= STARTS_MAX and sum(map(_size, runs)) <= BATCH_BYTES_MAX)
        single = few and not requested_lanes(runs)
        created = await self._db.write(
            "start", self._db.start_slots, work, single=single, on_doubt=in_doubt, own_task=own_task
        )
        answers: list[Started | None] = []
        for run in runs:
            first = run.id in created  # a key may occur twice in one call
            answers.append(Started(run.id, created=True, claim=created.pop(run.id)) if first else None)
        missing = [run for run, answer in zip(runs, answers, strict=True) if answer is None]
        if not missing:
            return [answer for answer in answers if answer is not None]
        if not sent_before:
            for run in missing:
                self.numbers.give_back(run, numbers[run.id])
        existing = await self._db.start_slots.run(lambda connection: self.existing_runs(connection, missing))
        disabled = await self._db.start_slots.run(lambda c: self.disabled(c, missing, existing))
        return [
            answer
            or disabled.get(run.id)
            or existing_start(run, existing.get(run.identity), sent_before=sent_before)
            for run, answer in zip(runs, answers, strict=True)
        ]

    async def disabled(
        self, connection: Connection, missing: Sequence[NewRun], existing: Existing
    ) -> dict[str, Started]:
        """Of these runs, which were not written, those that were refused because of their workflow."""
        missing = [run for run in missing if run.identity not in existing]
        if not missing:
            return {}
        rows = {tuple(row) for row in await connection.fetch(self._sql["disabled_workflows"])}
        return {
            run.id: Started(run.id, created=False, disabled=True)
            for run in missing
            # Without a key nothing else can be in the way; it may have been enabled since.
            if not run.key or (run.workspace, run.workflow) in rows
        }

    async def existing_runs(self, connection: Connection, runs: Sequence[NewRun]) -> Existing:
        """Return the existing runs that these starts would repeat."""
        if not runs:
            return {}
        keys = list(dict.fromkeys(run.identity for run in runs))
        rows = await connection.fetch(
            self._sql["find_keys"], [first for first, _ in keys], [key for _, key in keys]
        )
        return {keys[row["i"] - 1]: (row["id"], row["digest"]) for row in rows}

    async def write_starts(
        self, connection: Connection, runs: Sequence[NewRun], numbers: Mapping[str, int]
    ) -> dict[str, Claim | None]:
        """Write the runs that are new; return them by id, each with its owner's claim.

        Keys are sorted over all statements and occur once.
        """
        if lanes := requested_lanes(runs):
            runs = await self._limits.owned_within_limits(connection, runs, lanes)
        if len(runs) == 1:
            return await self._write_start(connection, runs[0], numbers)
        first = {run.identity: run for run in reversed(runs)}
        created: dict[str, Claim | None] = {}
        for chunk in _chunks([run for _, run in sorted(first.items(), key=lambda item: item[0])]):
            if len(chunk) == 1:
                created |= await self._write_start(connection, chunk[0], numbers)
                continue
            created |= await self._write_chunk(connection, chunk, numbers)
        return created

    async def _write_chunk(
        self, connection: Connection, chunk: Sequence[NewRun], numbers: Mapping[str, int]
    ) -> dict[str, Claim | None]:
        scopes = list({(run.workspace, run.workflow) for run in chunk})
        terms = [(run.id, term, run.workspace) for run in chunk for term in tag_terms(run.tags)]
        lists = ([s[0] for s in scopes], [s[1] for s in scopes], *([t[n] for t in terms] for n in range(3)))
        arguments = (*_arguments(chunk, numbers), *lists)
        rows = await connection.fetch(self._sql["start_runs"], self._db.now(), *arguments)
        if not rows and len(scopes) > 1:
            disabled = {tuple(row) for row in await connection.fetch(self._sql["disabled_workflows"])}
            left = [run for run in chunk if (run.workspace, run.workflow) not in disabled]
            if len(left) < len(chunk):
                return await self.write_starts(connection, left, numbers) if left else {}
        by_id = {run.id: run for run in chunk}
        return {run_id: by_id[run_id].taken(at) if taken else None for run_id, at, taken in rows}

    async def _write_start(
        self, connection: Connection, run: NewRun, numbers: Mapping[str, int]
    ) -> dict[str, Claim | None]:
        arguments = _single(run, numbers[run.id])
        rows = await connection.fetch(self._sql["start_run"], self._db.now(), *arguments)
        return {run_id: run.taken(at) if taken else None for run_id, at, taken in rows}


def existing_start(run: NewRun, existing: tuple[str, str] | None, *, sent_before: bool) -> Started:
    """The answer to a start whose key exists.

    Ids are made for one call, so a run with our id after a lost answer is our own. None: the run was
    removed meanwhile (retention), and ours was not created.
    """
    run_id, digest = existing or (run.id, "")
    ours = existing is not None and sent_before and run_id == run.id
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


def _arguments(runs: Sequence[NewRun], numbers: Mapping[str, int]) -> tuple[object, ...]:
    columns = zip(*[_texts(run) for run in runs], strict=True)
    pieces = [piece for run in runs for piece in (run.accepted, run.input, run.tags)]
    places = [str(place) for place in accumulate(map(len, pieces), initial=1)]
    return (
        packed([packed([*column, ""]) for column in columns], BETWEEN_COLUMNS),
        b"".join(pieces),
        ",".join(places[:-1:3]),
        ",".join(places[1::3]),
        ",".join(places[2::3]),
        ",".join(places[3::3]),
        ",".join([str(run.priority) for run in runs]),
        ",".join([repr(run.delay) for run in runs]),
        ",".join(["1" if run.test else "0" for run in runs]),
        ",".join([str(numbers[run.id]) for run in runs]),
    )


def _single(run: NewRun, number: int) -> tuple[object, ...]:
    values = (run.accepted, run.input, run.tags, run.priority, run.delay, run.test)
    return (*packable(_texts(run)), *values, number, tag_terms(run.tags))


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
        run.started_by,
    )
