-- Claiming tickets.

-- name: claim_due
-- `held` keeps the reaper from deleting this worker until the tickets are taken, and keeps a deleted worker
-- from taking any. A claim that takes nothing locks nothing, and so does not wait for the disk (1.1 ms, not
-- 3.5). `groups` jumps through the index from one (queue, needs, started, priority) to the next; the first
-- due tickets of each are candidates, and the first that is not due says when to look again. Only then are
-- rows locked, in the order of the whole queue, skipping locked ones.
-- There are more candidates than wanted ($7), so that two claimers do not compete for the same few. $9 fresh
-- tickets go first, even if started ones wait: see domain/shares. `before` are tickets that these leases own
-- already: then this claim is a repetition and takes nothing more.
-- `gate`: a ticket of a lane is due for this worker, a limit may count a candidate, or something is held. Then
-- nothing is taken here, because all tickets must be put in one order: see limits.sql. If no ticket has a lane
-- and no limit was set, that costs one lookup in each of two indexes. `locked` does not repeat lane = '':
-- otherwise the planner would walk the queue's whole index for each ticket.
-- The log of a run that was never claimed is included: its one event was written together with the ticket, so
-- both are visible. Every other log must be read in a later statement.
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
            AND t.held IS NULL
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
            AND t.held IS NULL
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
            AND t.held IS NULL
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
            AND t.held IS NULL
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
            AND t.held IS NULL
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
            AND t.held IS NULL
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
            AND (
                EXISTS (
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
                OR EXISTS (SELECT FROM stepwell.holds AS h WHERE h.held)
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
            AND t.held IS NULL
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
-- Read after the lease was taken: then the log is exactly as long as the ticket said.
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
SELECT c.i, b.key, b.n, b.kind, b.name, b.payload, b.at, b.sender
FROM unnest($1::text[]) WITH ORDINALITY AS c (run_id, i)
CROSS JOIN LATERAL (
    SELECT x.key, x.n, x.kind, x.name, x.payload, x.at, x.sender
    FROM stepwell.inbox AS x
    WHERE x.run_id = c.run_id
    ORDER BY x.n
    LIMIT $2
) AS b;

-- name: reroute
UPDATE stepwell.tickets
SET needs = $3
WHERE run_id = $1
    AND path = ''
    AND needs = $2
    AND lease IS NULL
RETURNING true;
