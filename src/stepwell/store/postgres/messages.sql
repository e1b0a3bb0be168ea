-- Messages to runs, and broadcast events.

-- name: deliver_each
-- Each target gets exactly one message, none of them a decision: then lock, insert and wake are one
-- statement. The unique index decides whether the key is new, which needs no fresh snapshot. The limit on
-- waiting signals reads the inbox as of the statement's start, so it may be exceeded slightly.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
k AS MATERIALIZED (
    SELECT m.*, t.wakes
    FROM (
        SELECT *
        FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $8::text[]) WITH ORDINALITY
            AS u (run_id, key, kind, name, payload, sender, i)
        ORDER BY run_id
    ) AS m
    LEFT JOIN LATERAL (
        SELECT x.wakes
        FROM stepwell.tickets AS x
        WHERE x.run_id = m.run_id
            AND x.path = ''
        FOR NO KEY UPDATE
    ) AS t ON true
),
j AS MATERIALIZED (
    SELECT
        k.*,
        k.kind = 'signal'
            AND k.wakes >= $7::int
            AND (SELECT count(*) FROM stepwell.inbox AS b WHERE b.run_id = k.run_id) >= $7::int
            AND NOT EXISTS (SELECT FROM stepwell.inbox AS b WHERE b.run_id = k.run_id AND b.key = k.key) AS is_full
    FROM k
),
put AS (
    INSERT INTO stepwell.inbox (run_id, key, n, kind, name, payload, at, sender)
    SELECT j.run_id, j.key, j.wakes + 1, j.kind, j.name, j.payload, clock.now, j.sender
    FROM clock
    CROSS JOIN j
    WHERE j.wakes IS NOT NULL
        AND NOT j.is_full
    ON CONFLICT (run_id, key) DO NOTHING
    RETURNING run_id, '' AS path
),
woken AS (
    UPDATE stepwell.tickets AS t
    SET wakes = t.wakes + 1,
        due_at = least(t.due_at, greatest(clock.now, t.not_before))
    FROM clock, put
    WHERE t.run_id = ANY (ARRAY[put.run_id])
        AND t.path = ANY (ARRAY[put.path])
)
SELECT
    CASE
        WHEN j.wakes IS NULL AND EXISTS (SELECT FROM stepwell.runs AS r WHERE r.id = j.run_id) THEN 'ended'
        WHEN j.wakes IS NULL THEN 'unknown'
        WHEN j.is_full THEN 'full'
        WHEN (j.run_id IN (SELECT put.run_id FROM put)) IS TRUE THEN 'delivered'
        ELSE 'duplicate'
    END AS delivery
FROM j
ORDER BY j.i;

-- name: deliver_locked
-- The targets' tickets were locked by an earlier statement of this transaction, so inbox and waits do
-- not change. No (run, key) occurs twice. A refused signal still counts for the signals after it, which
-- makes no difference: once the inbox is full every later signal is refused as well.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
looked AS MATERIALIZED (
    SELECT
        m.*,
        t.wakes,
        CASE
            WHEN t.wakes IS NULL AND r.id IS NOT NULL THEN 'ended'
            WHEN t.wakes IS NULL THEN 'unknown'
            WHEN b.payload IS NOT NULL AND (m.wait = '' OR b.payload = m.payload) THEN 'duplicate'
            WHEN b.payload IS NOT NULL THEN 'decided'
            WHEN m.wait <> '' AND w.path IS NULL THEN 'decided'
            ELSE 'delivered'
        END AS delivery
    FROM unnest(
        $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[], $9::text[]
    ) WITH ORDINALITY AS m (run_id, key, kind, name, payload, wait, sender, i)
    LEFT JOIN LATERAL (
        SELECT x.wakes FROM stepwell.tickets AS x WHERE x.run_id = m.run_id AND x.path = '' OFFSET 0
    ) AS t ON true
    LEFT JOIN LATERAL (SELECT x.id FROM stepwell.runs AS x WHERE x.id = m.run_id OFFSET 0) AS r ON true
    LEFT JOIN LATERAL (
        SELECT x.payload FROM stepwell.inbox AS x WHERE x.run_id = m.run_id AND x.key = m.key OFFSET 0
    ) AS b ON true
    LEFT JOIN LATERAL (
        SELECT x.path
        FROM stepwell.waits AS x
        WHERE x.run_id = m.run_id
            AND x.path = m.wait
            AND x.kind = 'decision'
        OFFSET 0
    ) AS w ON true
),
bounded AS MATERIALIZED (
    SELECT
        l.i, l.run_id, l.key, l.kind, l.name, l.payload, l.sender, l.wakes,
        CASE
            WHEN l.delivery = 'delivered'
                AND l.kind = 'signal'
                AND l.wakes + l.place > $8::int
                AND l.place - 1 + (SELECT count(*) FROM stepwell.inbox AS x WHERE x.run_id = l.run_id) >= $8::int
                THEN 'full'
            ELSE l.delivery
        END AS delivery
    FROM (
        SELECT looked.*, count(*) FILTER (WHERE delivery = 'delivered') OVER (PARTITION BY run_id ORDER BY i) AS place
        FROM looked
    ) AS l
),
placed AS MATERIALIZED (
    SELECT bounded.*, row_number() OVER (PARTITION BY run_id ORDER BY i) AS place
    FROM bounded
    WHERE delivery = 'delivered'
),
put AS (
    INSERT INTO stepwell.inbox (run_id, key, n, kind, name, payload, at, sender)
    SELECT p.run_id, p.key, p.wakes + p.place, p.kind, p.name, p.payload, clock.now, p.sender
    FROM clock
    CROSS JOIN placed AS p
),
woken AS (
    UPDATE stepwell.tickets AS t
    SET wakes = t.wakes + g.more,
        due_at = least(t.due_at, greatest(clock.now, t.not_before))
    FROM clock, (SELECT run_id, min('') AS path, count(*) AS more FROM placed GROUP BY run_id) AS g
    WHERE t.run_id = ANY (ARRAY[g.run_id])
        AND t.path = ANY (ARRAY[g.path])
)
SELECT delivery
FROM bounded
ORDER BY i;

-- name: read_inbox
SELECT key, n, kind, name, payload, at, sender
FROM stepwell.inbox
WHERE run_id = $1
    AND n > $2
ORDER BY n
LIMIT $3;

-- name: emit
-- Writes only the events and their fan-out tickets: waits that are being written at this moment are not
-- visible here, but they are to the worker that claims the ticket later.
-- Events of one name are written one after the other: the name's row, which holds the time of the last one,
-- stays locked until this transaction is visible. Names are locked in order.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
asked AS MATERIALIZED (
    SELECT u.*, (row_number() OVER (PARTITION BY u.workspace, u.name ORDER BY u.i) - 1) * 1e-6::float8 AS later
    FROM unnest($2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::text[], $8::int[]) WITH ORDINALITY
        AS u (id, name, key, payload, workspace, sender, hops, i)
    WHERE NOT EXISTS (SELECT FROM stepwell.published_events AS p WHERE p.id = u.id)
),
turn AS (
    INSERT INTO stepwell.event_names AS n (workspace, name, first_at, last_at)
    SELECT a.workspace, a.name, clock.now, clock.now + max(a.later)
    FROM asked AS a, clock
    GROUP BY a.workspace, a.name, clock.now
    ORDER BY a.workspace, a.name
    ON CONFLICT (workspace, name) DO UPDATE
    SET first_at = greatest(n.last_at + 1e-6::float8, excluded.first_at),
        last_at = greatest(n.last_at + 1e-6::float8, excluded.first_at) + (excluded.last_at - excluded.first_at)
    RETURNING n.workspace, n.name, n.first_at
),
kept AS (
    INSERT INTO stepwell.published_events (id, name, key, payload, at, workspace, sender, hops)
    SELECT a.id, a.name, a.key, a.payload, turn.first_at + a.later, a.workspace, a.sender, a.hops
    FROM asked AS a
    JOIN turn ON turn.workspace = a.workspace AND turn.name = a.name
    ORDER BY a.i
    ON CONFLICT (id) DO NOTHING
    RETURNING id, at
),
queued AS (
    INSERT INTO stepwell.tickets (
        run_id, path, queue, needs, workspace, lane, priority, started, ending, not_before, due_at,
        head, base, at, wakes, losses, lost_lease
    )
    SELECT kept.id, '', '', 'emit', '', '', 0, false, false, clock.now, clock.now, 0, 1, clock.now, 0, 0, ''
    FROM kept, clock
)
SELECT id
FROM kept;

-- name: read_event_to_fan_out
SELECT p.name, p.key, p.payload, p.at, p.workspace, p.sender, p.hops
FROM stepwell.published_events AS p
JOIN stepwell.tickets AS t ON t.run_id = p.id AND t.path = ''
WHERE p.id = $1
    AND t.lease = $2;

-- name: find_waiting
-- The next runs, by id, with a wait for this event, and the earliest such wait of each. Both reads stop at
-- the same number of rows; runs beyond the last one are left for the next chunk. Fewer rows mean that this
-- is the last chunk.
WITH chunk AS MATERIALIZED (
    SELECT u.run_id
    FROM (
        (
            SELECT w.run_id
            FROM stepwell.waits AS w
            WHERE w.kind = 'event'
                AND w.workspace = $6
                AND w.name = $1
                AND w.key = ''
                AND w.run_id > $4
            ORDER BY w.run_id
            LIMIT $5
        )
        UNION ALL
        (
            SELECT w.run_id
            FROM stepwell.waits AS w
            WHERE w.kind = 'event'
                AND w.workspace = $6
                AND w.name = $1
                AND w.key = $2
                AND $2 <> ''
                AND w.run_id > $4
            ORDER BY w.run_id
            LIMIT $5
        )
    ) AS u
    ORDER BY u.run_id
    LIMIT $5
)
SELECT c.run_id, e.path, (SELECT count(*) FROM chunk) AS waits
FROM (SELECT DISTINCT run_id FROM chunk) AS c
LEFT JOIN LATERAL (
    SELECT w.path
    FROM stepwell.waits AS w
    WHERE w.run_id = c.run_id
        AND w.kind = 'event'
        AND w.name = $1
        AND w.key IN ('', $2)
        AND w.since <= $3::float8
    ORDER BY w.since, w.path
    LIMIT 1
) AS e ON true
ORDER BY c.run_id;

-- name: drop_fan_out
DELETE FROM stepwell.tickets
WHERE run_id = $1
    AND path = ''
    AND lease = $2;

-- name: published
SELECT id, name, key, payload, at, workspace, sender, hops
FROM stepwell.published_events
WHERE workspace = $4
    AND name = $1
    AND at >= $2::float8
ORDER BY at
LIMIT $3;

-- name: published_by_key
-- For a key among thousands: reads only its own events, not all since the run began to wait.
SELECT id, name, key, payload, at, workspace, sender, hops
FROM stepwell.published_events
WHERE workspace = $4
    AND name = $1
    AND at >= $2::float8
    AND key = $5
    AND key <> ''
ORDER BY at
LIMIT $3;
