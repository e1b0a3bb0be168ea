-- Messages to runs: deliver, broadcast events, cancel, retry, results of remote steps.

-- name: deliver_each
-- Each target gets exactly one message, none of them a decision: then lock, insert and wake are one
-- statement. Whether the key is new is answered by the unique index, which needs no fresh snapshot. The
-- bound on waiting signals reads the inbox as of the statement's start and is soft by that much.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
k AS MATERIALIZED (
    SELECT m.*, t.wakes
    FROM (
        SELECT *
        FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[]) WITH ORDINALITY
            AS u (run_id, key, kind, name, payload, i)
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
    INSERT INTO stepwell.inbox (run_id, key, n, kind, name, payload, at)
    SELECT j.run_id, j.key, j.wakes + 1, j.kind, j.name, j.payload, clock.now
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
-- The targets' tickets were locked by an earlier statement of this transaction, so inbox and waits are as
-- they will stay. No (run, key) comes twice. A refused signal stays in the count of those before it, which
-- changes nothing: once the box is full every later signal is refused as well.
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
    FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[]) WITH ORDINALITY
        AS m (run_id, key, kind, name, payload, wait, i)
    LEFT JOIN LATERAL (
        SELECT x.wakes FROM stepwell.tickets AS x WHERE x.run_id = m.run_id AND x.path = '' OFFSET 0
    ) AS t ON true
    LEFT JOIN LATERAL (SELECT x.id FROM stepwell.runs AS x WHERE x.id = m.run_id OFFSET 0) AS r ON true
    LEFT JOIN LATERAL (
        SELECT x.payload FROM stepwell.inbox AS x WHERE x.run_id = m.run_id AND x.key = m.key OFFSET 0
    ) AS b ON true
    LEFT JOIN LATERAL (
        SELECT x.path FROM stepwell.waits AS x WHERE x.run_id = m.run_id AND x.path = m.wait OFFSET 0
    ) AS w ON true
),
bounded AS MATERIALIZED (
    SELECT
        l.i, l.run_id, l.key, l.kind, l.name, l.payload, l.wakes,
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
    INSERT INTO stepwell.inbox (run_id, key, n, kind, name, payload, at)
    SELECT p.run_id, p.key, p.wakes + p.place, p.kind, p.name, p.payload, clock.now
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

-- name: finish_remote
-- The run's ticket ('' sorts first), then the step's; the fence is the lease of the step's.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
k AS MATERIALIZED (
    SELECT t.path, t.lease, t.wakes
    FROM stepwell.tickets AS t
    WHERE t.run_id = $2
        AND t.path IN ('', $3)
    ORDER BY t.path
    FOR NO KEY UPDATE
),
mine AS MATERIALIZED (
    SELECT k.path
    FROM k
    WHERE k.path = $3
        AND k.lease = $4
),
gone AS (
    DELETE FROM stepwell.tickets AS t
    USING mine
    WHERE t.run_id = $2
        AND t.path = $3
),
put AS (
    INSERT INTO stepwell.inbox (run_id, key, n, kind, name, payload, at)
    SELECT $2, $5, k.wakes + 1, $6, $7, $8, clock.now
    FROM clock, mine, k
    WHERE k.path = ''
    ON CONFLICT (run_id, key) DO NOTHING
    RETURNING run_id
),
woken AS (
    UPDATE stepwell.tickets AS t
    SET wakes = t.wakes + 1,
        due_at = least(t.due_at, greatest(clock.now, t.not_before))
    FROM clock, put
    WHERE t.run_id = $2
        AND t.path = ''
)
SELECT EXISTS (SELECT FROM mine) AS is_mine;

-- name: drop_finished
-- The tickets of those results that were awaited: of the runs first ('' sorts first), then of the steps, all
-- of them in the one order that everybody keeps. Under these locks the results are delivered.
WITH done AS MATERIALIZED (
    SELECT u.run_id, u.path, u.lease
    FROM unnest($1::text[], $2::text[], $3::text[]) AS u (run_id, path, lease)
),
k AS MATERIALIZED (
    SELECT t.run_id, t.path, t.lease
    FROM stepwell.tickets AS t
    WHERE (t.run_id, t.path) IN (SELECT run_id, path FROM done UNION SELECT run_id, '' FROM done)
    ORDER BY t.run_id, t.path
    FOR NO KEY UPDATE
)
DELETE FROM stepwell.tickets AS t
USING k
JOIN done ON done.run_id = k.run_id AND done.path = k.path AND done.lease = k.lease
WHERE t.run_id = k.run_id
    AND t.path = k.path
RETURNING t.run_id, t.path, t.lease;

-- name: emit
-- Only the events and a ticket for whoever will tell the waiting runs: waits that are being registered at
-- this moment are not visible here, but they are to the one who claims that ticket later.
-- Events of one name go one after the other: the row of the name is locked until this transaction is
-- visible, and holds the time of the last one. Names are locked in their order.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
asked AS MATERIALIZED (
    SELECT u.*, (row_number() OVER (PARTITION BY u.name ORDER BY u.i) - 1) * 1e-6::float8 AS later
    FROM unnest($2::text[], $3::text[], $4::text[], $5::bytea[]) WITH ORDINALITY AS u (id, name, key, payload, i)
    WHERE NOT EXISTS (SELECT FROM stepwell.published_events AS p WHERE p.id = u.id)
),
turn AS (
    INSERT INTO stepwell.event_names AS n (name, first_at, last_at)
    SELECT a.name, clock.now, clock.now + max(a.later)
    FROM asked AS a, clock
    GROUP BY a.name, clock.now
    ORDER BY a.name
    ON CONFLICT (name) DO UPDATE
    SET first_at = greatest(n.last_at + 1e-6::float8, excluded.first_at),
        last_at = greatest(n.last_at + 1e-6::float8, excluded.first_at) + (excluded.last_at - excluded.first_at)
    RETURNING n.name, n.first_at
),
kept AS (
    INSERT INTO stepwell.published_events (id, name, key, payload, at)
    SELECT a.id, a.name, a.key, a.payload, turn.first_at + a.later
    FROM asked AS a
    JOIN turn ON turn.name = a.name
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
SELECT p.name, p.key, p.payload, p.at
FROM stepwell.published_events AS p
JOIN stepwell.tickets AS t ON t.run_id = p.id AND t.path = ''
WHERE p.id = $1
    AND t.lease = $2;

-- name: find_waiting
-- The next runs, by id, with a wait for this event, and the earliest such wait of each. Both reads are
-- cut at the same number of rows, so what lies beyond the last run of the cut is left for the next chunk;
-- fewer rows than that are the last.
WITH chunk AS MATERIALIZED (
    SELECT u.run_id
    FROM (
        (
            SELECT w.run_id
            FROM stepwell.waits AS w
            WHERE w.kind = 'event'
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

-- name: read_parent
SELECT parent, parent_path
FROM stepwell.runs
WHERE id = $1;

-- name: read_keys
SELECT key
FROM stepwell.inbox
WHERE run_id = $1
ORDER BY n;

-- name: end_unowned
-- Whoever holds the lock of a ticket that nobody ever owned may write its end.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
ended AS (
    DELETE FROM stepwell.tickets
    WHERE run_id = $2
    RETURNING path, head + 1 AS seq, at
),
appended AS (
    INSERT INTO stepwell.events (run_id, seq, kind, path, attempt, at, payload)
    SELECT $2, ended.seq, $3, '', 0, greatest(clock.now, ended.at), $4
    FROM clock, ended
    WHERE ended.path = ''
    RETURNING seq, at
),
emptied AS (
    DELETE FROM stepwell.inbox
    WHERE run_id = $2
),
forgotten AS (
    DELETE FROM stepwell.waits
    WHERE run_id = $2
)
UPDATE stepwell.runs AS r
SET status = $3,
    where_at = '',
    ended_at = appended.at
FROM appended
WHERE r.id = $2
RETURNING appended.seq;

-- name: mark_ending
UPDATE stepwell.tickets
SET ending = true,
    priority = $2
WHERE run_id = $1
    AND path = '';

-- name: lock_run
SELECT status
FROM stepwell.runs
WHERE id = $1
FOR NO KEY UPDATE;

-- name: is_compensated
SELECT EXISTS (SELECT FROM stepwell.events WHERE run_id = $1 AND kind = 'compensation_completed');

-- name: retry_run
-- The run's row is locked by an earlier statement, so nobody else retries it.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
log AS MATERIALIZED (
    SELECT l.seq + 1 AS seq, greatest(clock.now, l.at) AS at, coalesce(c.seq, 1) AS base
    FROM clock
    CROSS JOIN (SELECT e.seq, e.at FROM stepwell.events AS e WHERE e.run_id = $2 ORDER BY e.seq DESC LIMIT 1) AS l
    CROSS JOIN (
        SELECT max(e.seq) AS seq
        FROM stepwell.events AS e
        WHERE e.run_id = $2 AND e.kind IN ('continued', 'transition_completed')
    ) AS c
),
shown AS (
    UPDATE stepwell.runs
    SET status = 'running',
        output = NULL,
        error = NULL,
        ended_at = NULL
    WHERE id = $2
    RETURNING workspace, workflow, version, queue, lane, priority
),
queued AS (
    INSERT INTO stepwell.tickets (
        run_id, path, queue, needs, workspace, lane, priority, started, ending, not_before, due_at,
        head, base, at, wakes, losses, lost_lease
    )
    SELECT
        $2, '', s.queue, coalesce(nullif($4, ''), s.workflow || '@' || s.version), s.workspace, s.lane,
        s.priority, true, false, clock.now, clock.now, log.seq, log.base, log.at, 0, 0, ''
    FROM clock, log, shown AS s
)
INSERT INTO stepwell.events (run_id, seq, kind, path, attempt, at, payload)
SELECT $2, log.seq, 'retried', '', 0, log.at, $3
FROM log;
