-- Limits: tickets of lanes, which are claimed apart from the others.

-- name: hold_worker
-- First of all locks: keeps the reaper from deleting this worker until the tickets are taken.
SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
FROM stepwell.workers
WHERE id = $2
FOR KEY SHARE;

-- name: open_lanes
-- Lanes with tickets that nobody has: one jump in the index for each.
WITH RECURSIVE l AS (
    (
        SELECT t.lane
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.solo = $1::bool
        ORDER BY t.lane
        LIMIT 1
    )
    UNION ALL
    SELECT n.lane
    FROM l
    CROSS JOIN LATERAL (
        SELECT t.lane
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.solo = $1::bool
            AND t.lane > l.lane
        ORDER BY t.lane
        LIMIT 1
    ) AS n
)
SELECT l.lane
FROM l;

-- name: leased_lanes
-- No more rows than the limits allow.
SELECT t.lane, count(*)
FROM stepwell.tickets AS t
WHERE t.lease IS NOT NULL
    AND t.lane <> ''
GROUP BY t.lane;

-- name: resting_lanes
-- Reads every suspended run of a lane: only asked for where a limit holds for the whole run.
SELECT t.lane, count(*)
FROM stepwell.tickets AS t
WHERE t.lease IS NULL
    AND t.lane <> ''
    AND t.started
GROUP BY t.lane;

-- name: read_limits
SELECT kind, workspace, name, most, hold
FROM stepwell.limits
ORDER BY kind, workspace, name;

-- name: put_limit
INSERT INTO stepwell.limits (kind, workspace, name, most, hold)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (kind, workspace, name) DO UPDATE
SET most = excluded.most, hold = excluded.hold;

-- name: drop_limit
DELETE FROM stepwell.limits
WHERE kind = $1
    AND workspace = $2
    AND name = $3
RETURNING kind;

-- name: lock_limits
-- Sorted by the caller, held until the end of the transaction.
SELECT pg_advisory_xact_lock(k.key)
FROM unnest($1::bigint[]) AS k (key);

-- name: lane_tickets
-- The first tickets of each (lane, needs, started, priority), as `claim_due` finds them, due or not: the
-- first that is not due says when to look again. Of a lane that is full ($3 = 0) only those which clean up.
WITH RECURSIVE groups AS (
    SELECT l.lane, l.wanted, n.needs, g.started, g.priority
    FROM unnest($1::text[], $3::int[]) AS l (lane, wanted)
    CROSS JOIN unnest($2::text[]) AS n (needs)
    CROSS JOIN LATERAL (
        SELECT t.started, t.priority
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.solo = $4::bool
            AND t.lane = l.lane
            AND t.needs = n.needs
        ORDER BY t.started DESC, t.priority DESC
        LIMIT 1
    ) AS g
    UNION ALL
    SELECT f.lane, f.wanted, f.needs, g.started, g.priority
    FROM groups AS f
    CROSS JOIN LATERAL (
        SELECT t.started, t.priority
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.solo = $4::bool
            AND t.lane = f.lane
            AND t.needs = f.needs
            AND (t.started, t.priority) < (f.started, f.priority)
        ORDER BY t.started DESC, t.priority DESC
        LIMIT 1
    ) AS g
)
SELECT g.lane, g.started, g.priority, c.due_at, c.run_id, c.ending
FROM groups AS g
CROSS JOIN LATERAL (
    SELECT t.due_at, t.run_id, t.ending
    FROM stepwell.tickets AS t
    WHERE t.lease IS NULL
        AND t.lane <> ''
        AND t.solo = $4::bool
        AND t.lane = g.lane
        AND t.needs = g.needs
        AND t.started = g.started
        AND t.priority = g.priority
    ORDER BY t.due_at, t.run_id, t.path
    LIMIT CASE WHEN g.priority >= $5::int THEN $6::int ELSE g.wanted END
) AS c;

-- name: take_lane_tickets
-- Passing over those that are locked or were taken or parked anew since they were read.
WITH locked AS MATERIALIZED (
    SELECT l.run_id, w.place
    FROM unnest($3::text[]) WITH ORDINALITY AS w (run_id, place)
    CROSS JOIN LATERAL (
        SELECT t.run_id
        FROM stepwell.tickets AS t
        WHERE t.run_id = w.run_id
            AND t.path = ''
            AND t.lease IS NULL
            AND t.due_at <= $4::float8
        FOR UPDATE SKIP LOCKED
    ) AS l
)
UPDATE stepwell.tickets AS t
SET owner = $1,
    lease = ($2::text[])[l.place],
    started = true
FROM locked AS l
WHERE t.run_id = ANY (ARRAY[l.run_id])
    AND t.path = ''
RETURNING
    l.place, t.run_id, t.path, t.needs, t.lease, t.head, t.base, t.wakes, t.losses, t.lost_lease,
    true AS limited, NULL::float8 AS accepted_at, NULL::bytea AS accepted;
