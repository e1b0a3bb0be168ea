"""Audit: every lease of a ticket with a lane, as PostgreSQL itself saw it taken and released.

A trigger counts inside the transaction that takes or releases a ticket. A taker counts the used slots after
those before it have committed, so their numbers are smaller: in the order of the numbers no limit may be
exceeded at any moment, and the first takes of a lane must be in the order of its tickets.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import asyncpg

from stepwell.domain.lanes import read_lane

_TRIGGER = """
CREATE SCHEMA audit;
CREATE TABLE audit.leases (
    n bigint GENERATED ALWAYS AS IDENTITY,
    tx text, run_id text, lane text, lease text, taken boolean, born boolean
);
CREATE FUNCTION audit.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' AND OLD.lease IS NOT NULL AND (TG_OP = 'DELETE' OR NEW.lease IS NULL) THEN
        INSERT INTO audit.leases (tx, run_id, lane, lease, taken, born)
        VALUES (pg_current_xact_id()::text, OLD.run_id, OLD.lane, OLD.lease, false, false);
    ELSIF NEW.lease IS NOT NULL AND (TG_OP = 'INSERT' OR OLD.lease IS NULL) THEN
        INSERT INTO audit.leases (tx, run_id, lane, lease, taken, born)
        VALUES (pg_current_xact_id()::text, NEW.run_id, NEW.lane, NEW.lease, true, TG_OP = 'INSERT');
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON stepwell.tickets
FOR EACH ROW EXECUTE FUNCTION audit.note();
"""


class Lease(NamedTuple):
    tx: str
    run_id: str
    workflow: str
    lease: str
    taken: bool
    born: bool  # taken as its run was started


async def install(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_TRIGGER)
    finally:
        await connection.close()


async def read(url: str) -> list[Lease]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch(
            "SELECT tx, run_id, lane, lease, taken, born FROM audit.leases WHERE lane <> '' ORDER BY n"
        )
    finally:
        await connection.close()
    return [Lease(tx, run, read_lane(lane).workflow, *rest) for tx, run, lane, *rest in rows]


async def any_born(url: str) -> bool:
    """Whether a run was owned from its start."""
    connection = await asyncpg.connect(url)
    try:
        return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM audit.leases WHERE born)"))
    finally:
        await connection.close()


def most_at_once(leases: list[Lease]) -> tuple[int, int]:
    """The highest count of one workflow, and of all together."""
    now: Counter[str] = Counter()
    of_one = of_all = 0
    for lease in leases:
        now[lease.workflow] += 1 if lease.taken else -1
        of_one, of_all = max(of_one, now[lease.workflow]), max(of_all, now.total())
    return of_one, of_all


def left_over(leases: list[Lease]) -> int:
    return sum(1 if lease.taken else -1 for lease in leases)


def first_takes(leases: list[Lease], workflow: str) -> list[str]:
    """The runs in the order in which they were claimed for the first time.

    Runs of one claim are written in any order; their leases are numbered in the order of choice.
    """
    place: dict[str, int] = {}
    for number, lease in enumerate(leases):
        place.setdefault(lease.tx, number)
    taken = [lease for lease in leases if lease.taken and lease.workflow == workflow]
    taken.sort(key=lambda lease: (place[lease.tx], lease.lease))
    return list(dict.fromkeys(lease.run_id for lease in taken))
