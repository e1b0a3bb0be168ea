-- Notifications that have to be sent, and alerts.

-- name: add_notifications
INSERT INTO stepwell.notifications (
    id, workspace, kind, channel, run_id, body, created_at, next_at, attempt, error
)
SELECT n.id, n.workspace, n.kind, n.channel, n.run_id, n.body, clock.now, clock.now, 0, ''
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[])
    AS n (id, workspace, kind, channel, run_id, body)
CROSS JOIN (SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now) AS clock
ON CONFLICT DO NOTHING;

-- name: take_notifications
-- Those that another process takes at this moment are left to it.
WITH clock AS (SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now),
due AS (
    SELECT one.id
    FROM clock
    CROSS JOIN unnest($2::text[]) AS wanted (channel)
    CROSS JOIN LATERAL (
        SELECT n.id
        FROM stepwell.notifications AS n
        WHERE n.channel = wanted.channel AND n.next_at <= clock.now
        ORDER BY n.next_at, n.id
        LIMIT $4
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS one
    LIMIT $4
)
UPDATE stepwell.notifications AS n
SET next_at = clock.now + $3, attempt = n.attempt + 1
FROM due, clock
WHERE n.id = due.id
RETURNING n.id, n.kind, n.channel, n.body, n.workspace, n.run_id, n.created_at, n.attempt, n.ended_at, n.error;

-- name: next_notification
SELECT
    coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now,
    (
        SELECT min(first.next_at)
        FROM unnest($2::text[]) AS wanted (channel)
        CROSS JOIN LATERAL (
            SELECT min(n.next_at) AS next_at
            FROM stepwell.notifications AS n
            WHERE n.channel = wanted.channel AND n.next_at IS NOT NULL
        ) AS first
    ) AS next_at;

-- name: settle_notification
UPDATE stepwell.notifications
SET
    next_at = coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) + $4::float8,
    ended_at = CASE
        WHEN $4::float8 IS NULL THEN coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8)
    END,
    error = $5
WHERE id = $2
    AND attempt = $3
    AND next_at IS NOT NULL
RETURNING 1;

-- name: purge_notifications
DELETE FROM stepwell.notifications AS n
WHERE n.id IN (
    SELECT old.id
    FROM stepwell.notifications AS old
    WHERE old.ended_at < coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) - $2::float8
    ORDER BY old.ended_at, old.id
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
RETURNING 1;

-- name: purge_untaken
-- Those of channels that no process has any longer.
DELETE FROM stepwell.notifications AS n
WHERE n.id IN (
    SELECT old.id
    FROM stepwell.notifications AS old
    WHERE old.next_at < coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) - $2::float8
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
RETURNING 1;

-- name: put_alert
INSERT INTO stepwell.alerts AS alerts (
    id, name, workspace, settings, paused, check_at, turn, incidents, created_at, created_by
)
VALUES (
    $2, $3, $4, $5, $6, coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8), 0, $7, $8, $9
)
ON CONFLICT (workspace, name) DO UPDATE
SET settings = excluded.settings, paused = excluded.paused, check_at = excluded.check_at, turn = alerts.turn + 1,
    created_at = excluded.created_at, created_by = excluded.created_by
RETURNING 1;

-- name: list_alerts
SELECT id, name, workspace, settings, paused, check_at, turn, incidents, created_at, created_by
FROM stepwell.alerts
WHERE $1 IN ('', workspace)
    AND $2 IN ('', name)
ORDER BY workspace, name;

-- name: drop_alert
DELETE FROM stepwell.alerts
WHERE workspace = $1
    AND name = $2
RETURNING 1;

-- name: due_alerts
SELECT id, name, workspace, settings, paused, check_at, turn, incidents, created_at, created_by
FROM stepwell.alerts
WHERE NOT paused
    AND check_at <= $1
ORDER BY check_at, id
LIMIT $2
FOR NO KEY UPDATE SKIP LOCKED;

-- name: take_alerts
UPDATE stepwell.alerts AS a
SET check_at = t.check_at, turn = t.turn
FROM unnest($1::text[], $2::float8[], $3::integer[]) AS t (id, check_at, turn)
WHERE a.id = t.id;

-- name: next_alert
SELECT
    coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now,
    (SELECT min(a.check_at) FROM stepwell.alerts AS a WHERE NOT a.paused) AS check_at;

-- name: settle_alert
UPDATE stepwell.alerts
SET incidents = $3
WHERE id = $1
    AND turn = $2
RETURNING 1;

-- fragment: counted
(
    SELECT c.workflow, c.version, c.queue, c.status, c.n
    FROM stepwell.run_counts AS c
    WHERE c.workspace = $1 AND c.n <> 0
    UNION ALL
    SELECT c.workflow, c.version, c.queue, c.status, c.n
    FROM stepwell.run_count_changes AS c
    WHERE c.workspace = $1
)

-- name: find_failed
SELECT g.workflow, r.id, r.ended_at AS at
FROM (
    SELECT c.workflow, c.version, c.queue, c.status
    FROM /* counted */ AS c
    WHERE c.status IN ('failed', 'timed_out') AND $2 IN ('', c.workflow)
    GROUP BY c.workflow, c.version, c.queue, c.status
) AS g
CROSS JOIN LATERAL (
    SELECT x.id, x.ended_at
    FROM stepwell.runs AS x
    WHERE x.workspace = $1
        AND x.workflow = g.workflow
        AND x.version = g.version
        AND x.queue = g.queue
        AND x.status = g.status
        AND x.status IN ('failed', 'timed_out')
        AND x.ended_at > $3
        AND NOT x.test
    ORDER BY x.ended_at, x.id
    LIMIT $4
) AS r;

-- name: find_overdue
SELECT g.workflow, r.id, r.created_at AS at
FROM (
    SELECT c.workflow, c.version, c.queue, c.status
    FROM /* counted */ AS c
    WHERE c.status IN ('pending', 'running', 'suspended') AND $2 IN ('', c.workflow)
    GROUP BY c.workflow, c.version, c.queue, c.status
) AS g
CROSS JOIN LATERAL (
    SELECT x.id, x.created_at
    FROM stepwell.runs AS x
    WHERE x.workspace = $1
        AND x.workflow = g.workflow
        AND x.version = g.version
        AND x.queue = g.queue
        AND x.status = g.status
        AND x.created_at <= $3
        AND NOT x.test
    ORDER BY x.created_at, x.id
    LIMIT $4
) AS r;

-- name: count_waiting
-- Runs that have not begun, without those that a worker drives at this moment.
SELECT
    (
        SELECT coalesce(sum(c.n), 0)
        FROM /* counted */ AS c
        WHERE c.queue = $2 AND c.status = 'pending'
    )::bigint - (
        SELECT count(*)
        FROM stepwell.tickets AS owned
        INNER JOIN stepwell.runs AS r ON r.id = owned.run_id
        WHERE owned.owner IS NOT NULL AND owned.path = ''
            AND r.workspace = $1 AND r.queue = $2 AND r.status = 'pending'
    ) AS n;

-- name: find_stuck
-- Runs that a worker has without news since then, and runs that are due since then and that nobody has taken.
-- The latter by leaps along the indexes of a claim, from one kind of work to the next.
WITH RECURSIVE kinds (queue, needs, started, priority) AS (
    (
        SELECT t.queue, t.needs, t.started, t.priority
        FROM stepwell.tickets AS t
        WHERE NOT t.solo AND t.lease IS NULL AND t.held IS NULL AND t.lane = ''
        ORDER BY t.queue, t.needs, t.started DESC, t.priority DESC
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.needs, following.started, following.priority
    FROM kinds
    CROSS JOIN LATERAL (
        SELECT each.*
        FROM (
            (
                SELECT 1 AS step, t.queue, t.needs, t.started, t.priority
                FROM stepwell.tickets AS t
                WHERE NOT t.solo AND t.lease IS NULL AND t.held IS NULL AND t.lane = ''
                    AND t.queue = kinds.queue AND t.needs = kinds.needs AND t.started = kinds.started
                    AND t.priority < kinds.priority
                ORDER BY t.priority DESC
                LIMIT 1
            )
            UNION ALL
            (
                SELECT 2, t.queue, t.needs, t.started, t.priority
                FROM stepwell.tickets AS t
                WHERE NOT t.solo AND t.lease IS NULL AND t.held IS NULL AND t.lane = ''
                    AND t.queue = kinds.queue AND t.needs = kinds.needs AND t.started < kinds.started
                ORDER BY t.started DESC, t.priority DESC
                LIMIT 1
            )
            UNION ALL
            (
                SELECT 3, t.queue, t.needs, t.started, t.priority
                FROM stepwell.tickets AS t
                WHERE NOT t.solo AND t.lease IS NULL AND t.held IS NULL AND t.lane = ''
                    AND t.queue = kinds.queue AND t.needs > kinds.needs
                ORDER BY t.needs, t.started DESC, t.priority DESC
                LIMIT 1
            )
            UNION ALL
            (
                SELECT 4, t.queue, t.needs, t.started, t.priority
                FROM stepwell.tickets AS t
                WHERE NOT t.solo AND t.lease IS NULL AND t.held IS NULL AND t.lane = ''
                    AND t.queue > kinds.queue
                ORDER BY t.queue, t.needs, t.started DESC, t.priority DESC
                LIMIT 1
            )
        ) AS each
        ORDER BY each.step
        LIMIT 1
    ) AS following
),
limited (queue, needs) AS (
    (
        SELECT t.queue, t.needs
        FROM stepwell.tickets AS t
        WHERE NOT t.solo AND t.lease IS NULL AND t.held IS NULL AND t.lane <> '' AND t.due_at < 'Infinity'
        ORDER BY t.queue, t.needs
        LIMIT 1
    )
    UNION ALL
    SELECT following.queue, following.needs
    FROM limited
    CROSS JOIN LATERAL (
        SELECT t.queue, t.needs
        FROM stepwell.tickets AS t
        WHERE NOT t.solo AND t.lease IS NULL AND t.held IS NULL AND t.lane <> '' AND t.due_at < 'Infinity'
            AND (t.queue, t.needs) > (limited.queue, limited.needs)
        ORDER BY t.queue, t.needs
        LIMIT 1
    ) AS following
),
late AS (
    SELECT wanted.workflow, one.run_id, one.at
    FROM unnest($2::text[]) AS wanted (workflow)
    CROSS JOIN (SELECT k.* FROM kinds AS k LIMIT 1000) AS kind
    CROSS JOIN LATERAL (
        SELECT t.run_id, t.due_at AS at
        FROM stepwell.tickets AS t
        WHERE NOT t.solo AND t.lease IS NULL AND t.held IS NULL AND t.lane = ''
            AND t.queue = kind.queue AND t.needs = kind.needs AND t.started = kind.started
            AND t.priority = kind.priority AND t.due_at <= $3 AND t.workspace = $1
            AND (SELECT r.workflow FROM stepwell.runs AS r WHERE r.id = t.run_id AND NOT r.test) = wanted.workflow
        ORDER BY t.due_at
        LIMIT $4
    ) AS one
    UNION ALL
    SELECT wanted.workflow, one.run_id, one.at
    FROM unnest($2::text[]) AS wanted (workflow)
    CROSS JOIN (SELECT k.* FROM limited AS k LIMIT 1000) AS kind
    CROSS JOIN LATERAL (
        SELECT t.run_id, t.due_at AS at
        FROM stepwell.tickets AS t
        WHERE NOT t.solo AND t.lease IS NULL AND t.held IS NULL AND t.lane <> ''
            AND t.queue = kind.queue AND t.needs = kind.needs
            AND t.due_at <= $3 AND t.due_at < 'Infinity' AND t.workspace = $1
            AND (SELECT r.workflow FROM stepwell.runs AS r WHERE r.id = t.run_id AND NOT r.test) = wanted.workflow
        ORDER BY t.due_at
        LIMIT $4
    ) AS one
    UNION ALL
    SELECT r.workflow, t.run_id, t.at
    FROM stepwell.tickets AS t
    INNER JOIN stepwell.runs AS r ON r.id = t.run_id
    WHERE t.owner IS NOT NULL AND t.workspace = $1 AND t.at <= $3 AND t.held IS NULL
        AND r.workflow = ANY ($2) AND NOT r.test
)
SELECT late.workflow, late.run_id AS id, late.at
FROM late;

-- name: live_groups
SELECT c.workflow, c.version, c.queue, c.status, sum(c.n)::bigint AS n
FROM /* counted */ AS c
WHERE c.status IN ('pending', 'running', 'suspended')
    AND $2 IN ('', c.workflow)
GROUP BY c.workflow, c.version, c.queue, c.status
HAVING sum(c.n) > 0;

-- name: find_stuck_of_few
-- The same, by looking at each live run of these groups: whatever is older in the queue costs nothing.
SELECT g.workflow, live.id, one.at
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS g (workflow, version, queue, status)
CROSS JOIN LATERAL (
    SELECT x.id
    FROM stepwell.runs AS x
    WHERE x.workspace = $1
        AND x.workflow = g.workflow
        AND x.version = g.version
        AND x.queue = g.queue
        AND x.status = g.status
        AND x.created_at <= $6
        AND NOT x.test
    ORDER BY x.created_at, x.id
    LIMIT $7
) AS live
CROSS JOIN LATERAL (
    SELECT CASE WHEN t.lease IS NULL THEN t.due_at ELSE t.at END AS at
    FROM stepwell.tickets AS t
    WHERE t.run_id = live.id
        AND t.held IS NULL
        AND CASE WHEN t.lease IS NULL THEN t.due_at ELSE t.at END <= $6
) AS one;
