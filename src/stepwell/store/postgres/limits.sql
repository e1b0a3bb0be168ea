-- Limits: claims when tickets of lanes are due, or limits were set. All waiting tickets are put in one order.

-- name: hold_worker
-- The first of all locks: keeps the reaper from deleting this worker until the tickets are taken. `before`:
-- this claim was sent before, and only its answer was lost.
SELECT
    coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now,
    EXISTS (
        SELECT
        FROM stepwell.tickets AS t
        WHERE t.owner = $2
            AND t.owner IS NOT NULL
            AND t.lease = ANY ($3::text[])
    ) AS before
FROM stepwell.workers
WHERE id = $2
FOR KEY SHARE;

-- name: open_lanes
-- Lanes with free tickets: one jump in the index per lane.
WITH RECURSIVE l AS (
    (
        SELECT t.lane
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
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
            AND t.held IS NULL
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
-- Reads no more rows than the limits allow.
SELECT t.lane, count(*)
FROM stepwell.tickets AS t
WHERE t.lease IS NOT NULL
    AND t.lane <> ''
GROUP BY t.lane;

-- name: any_due_in_lanes
-- Whether a ticket of a lane is due and free. One jump in the index per kind of work.
WITH RECURSIVE k AS (
    (
        SELECT t.queue, t.needs
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
            AND t.lane <> ''
            AND t.due_at < 'Infinity'
            AND t.solo = false
        ORDER BY t.queue, t.needs
        LIMIT 1
    )
    UNION ALL
    SELECT n.queue, n.needs
    FROM k
    CROSS JOIN LATERAL (
        SELECT t.queue, t.needs
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
            AND t.lane <> ''
            AND t.due_at < 'Infinity'
            AND t.solo = false
            AND (t.queue, t.needs) > (k.queue, k.needs)
        ORDER BY t.queue, t.needs
        LIMIT 1
    ) AS n
)
SELECT EXISTS (
    SELECT
    FROM k
    CROSS JOIN LATERAL (
        SELECT
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
            AND t.lane <> ''
            AND t.due_at < 'Infinity'
            AND t.solo = false
            AND t.queue = k.queue
            AND t.needs = k.needs
            AND t.due_at <= coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8)
        LIMIT 1
    ) AS due
);

-- name: resting_lanes
-- Reads every suspended run of a lane: used only if a limit counts suspended runs.
SELECT r.lane, count(*)
FROM (
    SELECT t.lane
    FROM stepwell.tickets AS t
    WHERE t.lease IS NULL
        AND t.held IS NULL
        AND t.lane <> ''
        AND t.started
    UNION ALL
    SELECT t.lane
    FROM stepwell.tickets AS t
    WHERE t.lease IS NULL
        AND t.held IS NOT NULL
        AND t.lane <> ''
        AND t.started
) AS r
GROUP BY r.lane;

-- name: read_limits
SELECT kind, workspace, name, most, hold, set_by
FROM stepwell.limits
ORDER BY kind, workspace, name;

-- name: put_limit
INSERT INTO stepwell.limits (kind, workspace, name, most, hold, set_by)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (kind, workspace, name) DO UPDATE
SET most = excluded.most, hold = excluded.hold, set_by = excluded.set_by;

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
-- The first tickets of each (lane, needs, started, priority), as in `claim_due`, due or not: the first that
-- is not due says when to look again. Of a full lane ($3 = 0) only those that clean up.
WITH RECURSIVE groups AS (
    SELECT l.lane, l.wanted, n.needs, g.started, g.priority
    FROM unnest($1::text[], $3::int[]) AS l (lane, wanted)
    CROSS JOIN unnest($2::text[]) AS n (needs)
    CROSS JOIN LATERAL (
        SELECT t.started, t.priority
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
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
            AND t.held IS NULL
            AND t.lane <> ''
            AND t.solo = $4::bool
            AND t.lane = f.lane
            AND t.needs = f.needs
            AND (t.started, t.priority) < (f.started, f.priority)
        ORDER BY t.started DESC, t.priority DESC
        LIMIT 1
    ) AS g
)
SELECT g.lane, g.started, g.priority, c.due_at, c.run_id, c.path, c.ending
FROM groups AS g
CROSS JOIN LATERAL (
    SELECT t.due_at, t.run_id, t.path, t.ending
    FROM stepwell.tickets AS t
    WHERE t.lease IS NULL
        AND t.held IS NULL
        AND t.lane <> ''
        AND t.solo = $4::bool
        AND t.lane = g.lane
        AND t.needs = g.needs
        AND t.started = g.started
        AND t.priority = g.priority
    ORDER BY t.due_at, t.run_id, t.path
    LIMIT CASE WHEN g.priority >= $5::int THEN $6::int ELSE g.wanted END
) AS c;

-- name: open_tickets
-- The same for tickets without a lane: $1 and $2 are the kinds of work that no limit can count.
WITH RECURSIVE groups AS (
    SELECT k.queue, k.needs, g.started, g.priority
    FROM unnest($1::text[], $2::text[]) AS k (queue, needs)
    CROSS JOIN LATERAL (
        SELECT t.started, t.priority
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
            AND t.lane = ''
            AND t.solo = $3::bool
            AND t.queue = k.queue
            AND t.needs = k.needs
        ORDER BY t.started DESC, t.priority DESC
        LIMIT 1
    ) AS g
    UNION ALL
    SELECT f.queue, f.needs, g.started, g.priority
    FROM groups AS f
    CROSS JOIN LATERAL (
        SELECT t.started, t.priority
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
            AND t.lane = ''
            AND t.solo = $3::bool
            AND t.queue = f.queue
            AND t.needs = f.needs
            AND (t.started, t.priority) < (f.started, f.priority)
        ORDER BY t.started DESC, t.priority DESC
        LIMIT 1
    ) AS g
)
SELECT g.started, g.priority, c.due_at, c.run_id, c.path
FROM groups AS g
CROSS JOIN LATERAL (
    SELECT t.due_at, t.run_id, t.path
    FROM stepwell.tickets AS t
    WHERE t.lease IS NULL
        AND t.held IS NULL
        AND t.lane = ''
        AND t.solo = $3::bool
        AND t.queue = g.queue
        AND t.needs = g.needs
        AND t.started = g.started
        AND t.priority = g.priority
    ORDER BY t.due_at, t.run_id, t.path
    LIMIT $4
) AS c;

-- name: take_tickets
-- Skips tickets that are locked, or were taken or parked since they were read. The log of a run that was
-- never claimed is included, as in `claim_due`.
WITH locked AS MATERIALIZED (
    SELECT l.run_id, l.path, w.place
    FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS w (run_id, path, place)
    CROSS JOIN LATERAL (
        SELECT t.run_id, t.path
        FROM stepwell.tickets AS t
        WHERE t.run_id = w.run_id
            AND t.path = w.path
            AND t.lease IS NULL
            AND t.held IS NULL
            AND t.due_at <= $5::float8
        FOR UPDATE SKIP LOCKED
    ) AS l
),
taken AS (
    UPDATE stepwell.tickets AS t
    SET owner = $1,
        lease = ($2::text[])[l.place],
        started = true
    FROM locked AS l
    WHERE t.run_id = ANY (ARRAY[l.run_id])
        AND t.path = ANY (ARRAY[l.path])
    RETURNING
        l.place, t.run_id, t.path, t.needs, t.lease, t.head, t.base, t.wakes, t.losses, t.lost_lease,
        t.lane <> '' AS limited
)
SELECT t.*, accepted.at AS accepted_at, accepted.payload AS accepted
FROM taken AS t
LEFT JOIN LATERAL (
    SELECT x.at, x.payload
    FROM stepwell.events AS x
    WHERE x.run_id = t.run_id
        AND x.seq = 1
        AND t.head = 1
        AND t.path = ''
) AS accepted ON true
ORDER BY t.place;

-- name: give_lanes_owned
-- Assigns lanes to owned runs, so that limits that were set meanwhile count them. Waits for their tickets, in
-- order; there are no more of them than slots of workers.
WITH found AS MATERIALIZED (
    SELECT t.run_id, t.path
    FROM stepwell.tickets AS t
    WHERE t.owner IS NOT NULL
        AND t.lane = ''
        AND t.path = ''
        AND t.head > 0
        AND (t.queue = ANY ($1::text[]) OR $3::bool OR EXISTS (
            SELECT
            FROM unnest($2::text[]) AS w (name)
            WHERE starts_with(t.needs, w.name || '@')
        ))
    ORDER BY t.run_id
    FOR NO KEY UPDATE
)
UPDATE stepwell.tickets AS t
SET lane = stepwell.plain_lane(r.workspace, r.workflow, t.queue, r.parent <> '', r.test OR t.path <> '')
FROM found AS f
CROSS JOIN LATERAL (
    SELECT x.workspace, x.workflow, x.parent, x.test
    FROM stepwell.runs AS x
    WHERE x.id = f.run_id
    OFFSET 0
) AS r
WHERE t.run_id = ANY (ARRAY[f.run_id])
    AND t.path = ANY (ARRAY[f.path]);

-- name: give_lanes_open
-- Assigns lanes to waiting tickets of these kinds of work, in claim order; locked ones are left to the next claim.
WITH found AS MATERIALIZED (
    SELECT l.run_id, l.path
    FROM unnest($1::text[], $2::text[]) AS k (queue, needs)
    CROSS JOIN LATERAL (
        SELECT t.run_id, t.path
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
            AND t.lane = ''
            AND t.solo = $3::bool
            AND t.queue = k.queue
            AND t.needs = k.needs
        ORDER BY t.started DESC, t.priority DESC, t.due_at, t.run_id, t.path
        LIMIT $4
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS l
)
UPDATE stepwell.tickets AS t
SET lane = stepwell.plain_lane(r.workspace, r.workflow, t.queue, r.parent <> '', r.test OR t.path <> '')
FROM found AS f
CROSS JOIN LATERAL (
    SELECT x.workspace, x.workflow, x.parent, x.test
    FROM stepwell.runs AS x
    WHERE x.id = f.run_id
    OFFSET 0
) AS r
WHERE t.run_id = ANY (ARRAY[f.run_id])
    AND t.path = ANY (ARRAY[f.path])
RETURNING t.run_id;
