-- Workers: their leases, and the tickets of those that died.

-- name: register
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
w AS (
    INSERT INTO stepwell.workers (id, name, queues, needs, lease_seconds, lease_until, leaving)
    SELECT $2, $3, $4::text[], $5::text[], $6::float8, clock.now + $6::float8, $7::bool
    FROM clock
    ON CONFLICT (id) DO UPDATE
    SET name = excluded.name, queues = excluded.queues, needs = excluded.needs,
        lease_seconds = excluded.lease_seconds, lease_until = excluded.lease_until, leaving = excluded.leaving
    RETURNING lease_seconds
)
UPDATE stepwell.contact AS c
SET since = CASE WHEN clock.now - c.last BETWEEN -1 AND w.lease_seconds / 2 THEN c.since ELSE clock.now END,
    last = clock.now
FROM clock, w;

-- name: heartbeat
-- One row update for everything a worker owns. Two heartbeats may reach the contact row in another order
-- than they read the clock: a step back of a second does not mean that the clock was set back.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
w AS (
    UPDATE stepwell.workers AS x
    SET lease_until = clock.now + x.lease_seconds
    FROM clock
    WHERE x.id = $2
    RETURNING x.lease_seconds, x.drain IS NOT NULL AS draining
),
touched AS (
    UPDATE stepwell.contact AS c
    SET since = CASE WHEN clock.now - c.last BETWEEN -1 AND w.lease_seconds / 2 THEN c.since ELSE clock.now END,
        last = clock.now
    FROM clock, w
)
SELECT t.run_id, t.path, t.wakes, t.is_held, w.draining
FROM w
LEFT JOIN LATERAL (
    SELECT x.run_id, x.path, x.wakes, x.path = '' AND NOT x.ending AND EXISTS (
        SELECT
        FROM stepwell.holds AS h
        CROSS JOIN LATERAL (SELECT r.workflow FROM stepwell.runs AS r WHERE r.id = x.run_id OFFSET 0) AS own
        WHERE h.held
            AND h.workspace = x.workspace
            AND h.name = CASE h.kind WHEN 'workflow' THEN own.workflow WHEN 'queue' THEN x.queue ELSE '' END
    ) AS is_held
    FROM stepwell.tickets AS x
    WHERE x.owner = $2
        AND x.owner IS NOT NULL
    ORDER BY x.run_id, x.path
) AS t ON true;

-- name: drain_worker
WITH asked AS (
    UPDATE stepwell.workers
    SET drain = $2
    WHERE id = $1
        AND drain IS NULL
    RETURNING id
)
SELECT EXISTS (SELECT FROM asked)
FROM stepwell.workers
WHERE id = $1;

-- name: forget_worker
DELETE FROM stepwell.workers
WHERE id = $1;

-- name: free_own
-- Must be a later statement than the one that deleted the worker. Waits for its tickets, in order.
WITH f AS MATERIALIZED (
    SELECT t.run_id, t.path
    FROM stepwell.tickets AS t
    WHERE t.owner = $2
        AND t.owner IS NOT NULL
    ORDER BY t.run_id, t.path
    FOR NO KEY UPDATE
)
UPDATE stepwell.tickets AS t
SET owner = NULL,
    lease = NULL,
    lost_lease = coalesce(nullif(t.lost_lease, ''), t.lease, ''),
    due_at = least(t.due_at, coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8))
FROM f
WHERE t.run_id = ANY (ARRAY[f.run_id])
    AND t.path = ANY (ARRAY[f.path])
    AND t.owner = $2;

-- name: look_for_dead
-- Whether the next three statements have anything to do: their conditions, without locks.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
o AS (
    (
        SELECT t.owner
        FROM stepwell.tickets AS t
        WHERE t.owner IS NOT NULL
        ORDER BY t.owner
        LIMIT 1
    )
    UNION ALL
    SELECT n.owner
    FROM o
    CROSS JOIN LATERAL (
        SELECT t.owner
        FROM stepwell.tickets AS t
        WHERE t.owner IS NOT NULL
            AND t.owner > o.owner
        ORDER BY t.owner
        LIMIT 1
    ) AS n
)
SELECT
    EXISTS (
        SELECT
        FROM stepwell.workers AS w
        CROSS JOIN stepwell.contact AS c
        WHERE clock.now - c.since >= w.lease_seconds
            AND clock.now - c.last BETWEEN -1 AND w.lease_seconds / 2
            AND (w.lease_until < clock.now OR w.lease_until > clock.now + w.lease_seconds + 1)
    )
    OR EXISTS (
        SELECT
        FROM o
        WHERE NOT EXISTS (SELECT FROM stepwell.workers AS w WHERE w.id = o.owner)
    ) AS any_dead,
    EXISTS (
        SELECT
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
            AND t.lane = ''
            AND t.solo
            AND t.due_at <= clock.now
    )
    OR EXISTS (
        SELECT
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
            AND t.lane <> ''
            AND t.solo
            AND t.due_at <= clock.now
    ) AS solo_due
FROM clock;

-- name: bury_workers
-- Workers whose lease expired while workers were in contact for one lease, up to now: an outage of the
-- database must not look like the death of all workers. A lease that ends later than a renewal could make it
-- is from before the clock was set back.
DELETE FROM stepwell.workers AS w
USING
    stepwell.contact AS c,
    (SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now) AS clock
WHERE clock.now - c.since >= w.lease_seconds
    AND clock.now - c.last BETWEEN -1 AND w.lease_seconds / 2
    AND (w.lease_until < clock.now OR w.lease_until > clock.now + w.lease_seconds + 1)
RETURNING w.id, w.leaving;

-- name: find_dead_owners
-- Owners of tickets that have no worker row: one jump in the index per owner.
WITH RECURSIVE o AS (
    (
        SELECT t.owner
        FROM stepwell.tickets AS t
        WHERE t.owner IS NOT NULL
        ORDER BY t.owner
        LIMIT 1
    )
    UNION ALL
    SELECT n.owner
    FROM o
    CROSS JOIN LATERAL (
        SELECT t.owner
        FROM stepwell.tickets AS t
        WHERE t.owner IS NOT NULL
            AND t.owner > o.owner
        ORDER BY t.owner
        LIMIT 1
    ) AS n
)
SELECT o.owner
FROM o
WHERE NOT EXISTS (SELECT FROM stepwell.workers AS w WHERE w.id = o.owner);

-- name: free_lost
-- The owners come from an earlier statement: one that looked for owners without a row in its own old snapshot
-- could take a ticket from a worker that registered and claimed it meanwhile. $4 is 1 for owners that were
-- lost, 0 for those that were leaving.
WITH f AS MATERIALIZED (
    SELECT x.run_id, x.path
    FROM unnest($2::text[]) AS d (owner)
    CROSS JOIN LATERAL (
        SELECT t.run_id, t.path
        FROM stepwell.tickets AS t
        WHERE t.owner = d.owner
            AND t.owner IS NOT NULL
        ORDER BY t.run_id, t.path
        FOR UPDATE SKIP LOCKED
    ) AS x
    LIMIT $3
),
freed AS (
    UPDATE stepwell.tickets AS t
    SET owner = NULL,
        lease = NULL,
        lost_lease = coalesce(nullif(t.lost_lease, ''), t.lease, ''),
        losses = t.losses + $4::int,
        due_at = least(t.due_at, coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8))
    FROM f
    WHERE t.run_id = ANY (ARRAY[f.run_id])
        AND t.path = ANY (ARRAY[f.path])
    RETURNING t.run_id
)
SELECT count(*) AS freed
FROM freed;
