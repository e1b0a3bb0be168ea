-- Who works on what: workers, claims, heartbeats, and taking over from the dead.

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
-- One row update for all that a worker owns. Two heartbeats may reach the contact row in another order
-- than they took their time: a second backwards is not a clock that was set back.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
w AS (
    UPDATE stepwell.workers AS x
    SET lease_until = clock.now + x.lease_seconds
    FROM clock
    WHERE x.id = $2
    RETURNING x.lease_seconds
),
touched AS (
    UPDATE stepwell.contact AS c
    SET since = CASE WHEN clock.now - c.last BETWEEN -1 AND w.lease_seconds / 2 THEN c.since ELSE clock.now END,
        last = clock.now
    FROM clock, w
)
SELECT t.run_id, t.path, t.wakes
FROM w
LEFT JOIN LATERAL (
    SELECT x.run_id, x.path, x.wakes
    FROM stepwell.tickets AS x
    WHERE x.owner = $2
        AND x.owner IS NOT NULL
    ORDER BY x.run_id, x.path
) AS t ON true;

-- name: claim_due
-- `held` keeps the reaper from deleting this worker until the tickets are taken, and lets a worker that is
-- deleted take none; a claim that takes nothing locks nothing, and so waits for no disk (1.1 ms, not 3.5).
-- `groups` jumps through the index from one (queue, needs, started, priority) to the next; of each the first
-- due tickets are candidates, and the first that is not due says when to look again. Only then are rows
-- locked, in the order of the whole queue, passing over those that are locked.
-- More candidates than wanted ($7), so that two claimers do not both go for the same few. So many fresh ones
-- go first ($9), whatever waits that has begun: see domain/shares. `before` are
-- tickets that these leases own already: then this claim was sent before and takes nothing more.
-- `gate`: a ticket of a lane is due for this worker, or a limit that was set may count a candidate. Then
-- nothing is taken here, for all must be put in one order: see limits.sql. Where no ticket has a lane and no
-- limit was set that costs a look into each of two indexes. `locked` does not say lane = '' again: then the
-- planner would look each ticket up in the queue's index, walking all of it.
-- The log of a run that was never claimed comes along: its one event was written together with the ticket,
-- so whoever sees the one sees the other. Every other log must be read in a later statement.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
me AS MATERIALIZED (
    SELECT w.id
    FROM stepwell.workers AS w
    WHERE w.id = $2
),
before AS MATERIALIZED (
    SELECT t.run_id, t.path, t.needs, t.lease, t.head, t.base, t.wakes, t.losses, t.lost_lease,
        t.lane <> '' AS limited
    FROM me
    CROSS JOIN LATERAL (
        SELECT x.*
        FROM stepwell.tickets AS x
        WHERE x.owner = $2
            AND x.owner IS NOT NULL
            AND x.lease = ANY ($5::text[])
        OFFSET 0
    ) AS t
),
lane_due AS MATERIALIZED (
    SELECT min(c.due_at) AS due_at
    FROM (
        SELECT
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.due_at < 'Infinity'
            AND t.solo = $8::bool
        LIMIT 1
    ) AS any_lane
    CROSS JOIN me
    CROSS JOIN unnest($3::text[]) AS q (queue)
    CROSS JOIN unnest($4::text[]) AS n (needs)
    CROSS JOIN LATERAL (
        SELECT t.due_at
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.due_at < 'Infinity'
            AND t.solo = $8::bool
            AND t.queue = q.queue
            AND t.needs = n.needs
        ORDER BY t.due_at
        LIMIT 1
    ) AS c
),
groups AS (
    SELECT q.queue, n.needs, g.started, g.priority
    FROM (
        SELECT me.id
        FROM me
        CROSS JOIN clock
        CROSS JOIN lane_due
        WHERE NOT EXISTS (SELECT FROM before)
            AND (lane_due.due_at <= clock.now) IS NOT TRUE
        OFFSET 0
    ) AS asker
    CROSS JOIN unnest($3::text[]) AS q (queue)
    CROSS JOIN unnest($4::text[]) AS n (needs)
    CROSS JOIN LATERAL (
        SELECT t.started, t.priority
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane = ''
            AND t.solo = $8::bool
            AND t.queue = q.queue
            AND t.needs = n.needs
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
            AND t.lane = ''
            AND t.solo = $8::bool
            AND t.queue = f.queue
            AND t.needs = f.needs
            AND (t.started, t.priority) < (f.started, f.priority)
        ORDER BY t.started DESC, t.priority DESC
        LIMIT 1
    ) AS g
),
candidates AS MATERIALIZED (
    SELECT g.started, g.priority, c.due_at, c.run_id, c.path
    FROM groups AS g
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT t.due_at, t.run_id, t.path
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane = ''
            AND t.solo = $8::bool
            AND t.queue = g.queue
            AND t.needs = g.needs
            AND t.started = g.started
            AND t.priority = g.priority
            AND t.due_at <= clock.now
        ORDER BY t.due_at, t.run_id, t.path
        LIMIT $7
    ) AS c
),
later AS MATERIALIZED (
    SELECT min(c.due_at) AS due_at
    FROM groups AS g
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT t.due_at
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane = ''
            AND t.solo = $8::bool
            AND t.queue = g.queue
            AND t.needs = g.needs
            AND t.started = g.started
            AND t.priority = g.priority
            AND t.due_at > clock.now
        ORDER BY t.due_at
        LIMIT 1
    ) AS c
),
gate AS MATERIALIZED (
    SELECT coalesce(lane_due.due_at <= clock.now, false)
        OR (
            EXISTS (SELECT FROM candidates)
            AND EXISTS (
                SELECT
                FROM stepwell.limits AS l
                WHERE l.most IS NOT NULL
                    AND (
                        l.kind = 'workspace'
                        OR (l.kind = 'queue' AND l.name = ANY ($3::text[]))
                        OR (
                            l.kind = 'workflow'
                            AND EXISTS (
                                SELECT
                                FROM unnest($4::text[]) AS n (needs)
                                WHERE starts_with(n.needs, l.name || '@')
                            )
                        )
                    )
            )
        ) AS closed
    FROM clock
    CROSS JOIN lane_due
),
held AS MATERIALIZED (
    SELECT w.id
    FROM stepwell.workers AS w
    WHERE w.id = $2
        AND EXISTS (SELECT FROM candidates)
        AND NOT (SELECT gate.closed FROM gate)
    FOR KEY SHARE
),
locked AS MATERIALIZED (
    SELECT l.run_id, l.path
    FROM (
        SELECT s.run_id, s.path
        FROM (
            SELECT c.*, row_number() OVER (
                PARTITION BY c.started
                ORDER BY c.priority DESC, c.due_at, c.run_id, c.path
            ) AS n
            FROM candidates AS c
            WHERE EXISTS (SELECT FROM held)
        ) AS s
        ORDER BY s.started OR s.n > $9, s.started DESC, s.n
    ) AS o
    CROSS JOIN clock
    CROSS JOIN LATERAL (
        SELECT t.run_id, t.path
        FROM stepwell.tickets AS t
        WHERE t.run_id = o.run_id
            AND t.path = o.path
            AND t.lease IS NULL
            AND t.solo = $8::bool
            AND t.due_at <= clock.now
        FOR UPDATE SKIP LOCKED
    ) AS l
    LIMIT $6
),
numbered AS MATERIALIZED (
    SELECT locked.*, row_number() OVER () AS place
    FROM locked
),
taken AS (
    UPDATE stepwell.tickets AS t
    SET owner = $2,
        lease = ($5::text[])[n.place],
        started = true
    FROM numbered AS n
    WHERE t.run_id = ANY (ARRAY[n.run_id])
        AND t.path = ANY (ARRAY[n.path])
    RETURNING n.place, t.run_id, t.path, t.needs, t.lease, t.head, t.base, t.wakes, t.losses, t.lost_lease,
        false AS limited
)
SELECT
    clock.now,
    least(later.due_at, lane_due.due_at) AS later_at,
    (SELECT count(*) FROM candidates) AS candidates,
    EXISTS (SELECT FROM before) AS asked_again,
    gate.closed AS gate_closed,
    t.place, t.run_id, t.path, t.needs, t.lease, t.head, t.base, t.wakes, t.losses, t.lost_lease,
    t.limited, accepted.at AS accepted_at, accepted.payload AS accepted
FROM clock
CROSS JOIN later
CROSS JOIN lane_due
CROSS JOIN gate
LEFT JOIN (
    SELECT taken.*
    FROM taken
    UNION ALL
    SELECT array_position($5::text[], before.lease), before.*
    FROM before
) AS t ON true
LEFT JOIN LATERAL (
    SELECT x.at, x.payload
    FROM stepwell.events AS x
    WHERE x.run_id = t.run_id
        AND x.seq = 1
        AND t.head = 1
        AND t.path = ''
) AS accepted ON true
ORDER BY t.place;

-- name: read_claimed_logs
-- After the lease was taken: then the log can only be as long as the ticket said.
SELECT c.i, e.seq, e.kind, e.path, e.attempt, e.at, e.payload
FROM unnest($1::text[], $2::int[], $3::int[]) WITH ORDINALITY AS c (run_id, first, last, i)
CROSS JOIN LATERAL (
    SELECT x.seq, x.kind, x.path, x.attempt, x.at, x.payload
    FROM stepwell.events AS x
    WHERE x.run_id = c.run_id
        AND x.seq BETWEEN c.first AND c.last
    ORDER BY x.seq
) AS e;

-- name: read_claimed_inboxes
SELECT c.i, b.key, b.n, b.kind, b.name, b.payload, b.at
FROM unnest($1::text[]) WITH ORDINALITY AS c (run_id, i)
CROSS JOIN LATERAL (
    SELECT x.key, x.n, x.kind, x.name, x.payload, x.at
    FROM stepwell.inbox AS x
    WHERE x.run_id = c.run_id
    ORDER BY x.n
    LIMIT $2
) AS b;

-- name: forget_worker
DELETE FROM stepwell.workers
WHERE id = $1;

-- name: free_own
-- A later statement than the one that deleted the worker. Waits for its tickets, in order.
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
-- Is there anything for the next three statements to do? Their conditions, only read.
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
            AND t.lane = ''
            AND t.solo
            AND t.due_at <= clock.now
    )
    OR EXISTS (
        SELECT
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.solo
            AND t.due_at <= clock.now
    ) AS solo_due
FROM clock;

-- name: bury_workers
-- Those whose lease ran out while the fleet was in contact for one lease, up to now: an outage of the
-- database must not look like the death of everybody. A lease that ends later than a renewal could make it
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
-- Owners of tickets that are no workers (any more): one jump in the index for each owner there is.
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
-- The owners are known from an earlier statement: one that freed "whoever has no worker" by its own old
-- snapshot could take a ticket from somebody who registered and claimed it meanwhile. $4 is 1 for owners that
-- were lost, 0 for those that were leaving.
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

-- name: reroute
UPDATE stepwell.tickets
SET needs = $3
WHERE run_id = $1
    AND path = ''
    AND needs = $2
    AND lease IS NULL
RETURNING true;
