-- Cancelling and retrying runs.

-- name: read_parent
SELECT parent, parent_path
FROM stepwell.runs
WHERE id = $1;

-- name: read_keys
SELECT key
FROM stepwell.inbox
WHERE run_id = $1
ORDER BY n;

-- name: live_children
SELECT r.id
FROM stepwell.runs AS r
CROSS JOIN LATERAL (
    SELECT FROM stepwell.tickets AS t WHERE t.run_id = r.id AND t.path = '' OFFSET 0
) AS live
WHERE r.parent = $1
    AND r.parent <> ''
ORDER BY r.id;

-- name: end_unowned
-- The ticket is locked, and nobody ever owned it or its owner loses it by this: so its end may be written here.
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
    priority = $2,
    held = NULL
WHERE run_id = $1
    AND path = '';

-- name: lock_run
SELECT status
FROM stepwell.runs
WHERE id = $1
FOR NO KEY UPDATE;

-- name: read_head
SELECT e.seq
FROM stepwell.events AS e
WHERE e.run_id = $1
ORDER BY e.seq DESC
LIMIT 1;

-- name: is_compensated
SELECT EXISTS (SELECT FROM stepwell.events WHERE run_id = $1 AND kind = 'compensation_completed');

-- name: retry_run
-- $5 to $8 are the result of a step that is skipped, or NULL.
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
        s.priority, true, false, clock.now, clock.now, log.seq + ($5::text IS NOT NULL)::int, log.base, log.at, 0, 0,
        ''
    FROM clock, log, shown AS s
),
skipped AS (
    INSERT INTO stepwell.events (run_id, seq, kind, path, attempt, at, payload)
    SELECT $2, log.seq + 1, $5, $6, $7::int, log.at, $8
    FROM log
    WHERE $5::text IS NOT NULL
)
INSERT INTO stepwell.events (run_id, seq, kind, path, attempt, at, payload)
SELECT $2, log.seq, 'retried', '', 0, log.at, $3
FROM log;
