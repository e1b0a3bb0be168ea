-- Reading, and definitions. Nothing here locks.

-- name: now
SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now;

-- name: read_log
SELECT seq, kind, path, attempt, at, payload
FROM stepwell.events
WHERE run_id = $1
    AND seq > $2
ORDER BY seq
LIMIT $3;

-- name: read_log_end
SELECT seq, kind, path, attempt, at, payload
FROM stepwell.events
WHERE run_id = $1
ORDER BY seq DESC
LIMIT $2;

-- name: read_inbox
SELECT key, n, kind, name, payload, at
FROM stepwell.inbox
WHERE run_id = $1
    AND n > $2
ORDER BY n
LIMIT $3;

-- name: read_run
SELECT
    r.id, r.workspace, r.workflow, r.version, r.kind,
    CASE WHEN t.lease IS NOT NULL THEN 'running' ELSE r.status END AS status,
    r.input, r.output, r.error, r.key, r.parent, r.root, r.tags, r.trigger, r.where_at,
    r.created_at, r.started_at, r.ended_at, r.test
FROM stepwell.runs AS r
LEFT JOIN stepwell.tickets AS t ON t.run_id = r.id AND t.path = ''
WHERE r.id = $1;

-- name: find_run
-- The first key from there on, as in find_keys.
SELECT f.id
FROM (
    SELECT r.id, r.workspace, r.key
    FROM stepwell.runs AS r
    WHERE r.key <> '' AND (r.workspace, r.key) >= ($1, $2)
    ORDER BY r.workspace, r.key
    LIMIT 1
) AS f
WHERE f.workspace = $1
    AND f.key = $2;

-- name: list_runs
-- Newest first. The store adds the conditions that the filter asks for at the mark, so that each
-- combination is planned for itself and finds its index.
SELECT *
FROM (
    SELECT
        r.id, r.workspace, r.workflow, r.version, r.kind,
        CASE WHEN t.lease IS NOT NULL THEN 'running' ELSE r.status END AS status,
        r.input, r.output, r.error, r.key, r.parent, r.root, r.tags, r.trigger, r.where_at,
        r.created_at, r.started_at, r.ended_at, r.test
    FROM stepwell.runs AS r
    LEFT JOIN LATERAL (
        SELECT x.lease
        FROM stepwell.tickets AS x
        WHERE x.run_id = r.id
            AND x.path = ''
        OFFSET 0
    ) AS t ON true
    WHERE r.workspace = $1 /* more */
) AS shown
WHERE cardinality($3::text[]) = 0
    OR status = ANY ($3::text[])
ORDER BY id DESC
LIMIT $2;

-- name: read_tickets
SELECT run_id, path, queue, needs, priority, started, ending, due_at, owner, lease, head, wakes, losses,
    lane
FROM stepwell.tickets
WHERE run_id = $1
ORDER BY path;

-- name: list_others
-- Leaps along the indexes of the queue from one kind of work to the next, as a claim does; of each kind that
-- is not covered the first ticket is read.
WITH RECURSIVE
open AS (
    SELECT s.solo, q.queue, n.needs
    FROM (VALUES (false), (true)) AS s (solo)
    CROSS JOIN unnest($1::text[]) AS q (queue)
    CROSS JOIN LATERAL (
        SELECT t.needs
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane = ''
            AND t.solo = s.solo
            AND t.queue = q.queue
        ORDER BY t.needs
        LIMIT 1
    ) AS n
    UNION ALL
    SELECT o.solo, o.queue, n.needs
    FROM open AS o
    CROSS JOIN LATERAL (
        SELECT t.needs
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane = ''
            AND t.solo = o.solo
            AND t.queue = o.queue
            AND t.needs > o.needs
        ORDER BY t.needs
        LIMIT 1
    ) AS n
),
lanes AS (
    SELECT s.solo, n.lane, n.needs
    FROM (VALUES (false), (true)) AS s (solo)
    CROSS JOIN LATERAL (
        SELECT t.lane, t.needs
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.solo = s.solo
        ORDER BY t.lane, t.needs
        LIMIT 1
    ) AS n
    UNION ALL
    SELECT l.solo, n.lane, n.needs
    FROM lanes AS l
    CROSS JOIN LATERAL (
        SELECT t.lane, t.needs
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.solo = l.solo
            AND (t.lane, t.needs) > (l.lane, l.needs)
        ORDER BY t.lane, t.needs
        LIMIT 1
    ) AS n
),
firsts AS (
    SELECT f.*
    FROM open AS o
    CROSS JOIN LATERAL (
        SELECT t.*
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane = ''
            AND t.solo = o.solo
            AND t.queue = o.queue
            AND t.needs = o.needs
        ORDER BY t.started DESC, t.priority DESC, t.due_at, t.run_id, t.path
        LIMIT 1
    ) AS f
    WHERE o.needs <> ALL ($2::text[])
    UNION ALL
    SELECT f.*
    FROM lanes AS l
    CROSS JOIN LATERAL (
        SELECT t.*
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.lane <> ''
            AND t.solo = l.solo
            AND t.lane = l.lane
            AND t.needs = l.needs
        ORDER BY t.started DESC, t.priority DESC, t.due_at, t.run_id, t.path
        LIMIT 1
    ) AS f
    WHERE l.needs <> ALL ($2::text[])
)
SELECT DISTINCT ON (f.queue, f.needs)
    f.run_id, f.path, f.queue, f.needs, f.priority, f.started, f.ending, f.due_at, f.owner, f.lease, f.head,
    f.wakes, f.losses, f.lane
FROM firsts AS f
WHERE f.queue = ANY ($1::text[])
ORDER BY f.queue, f.needs, f.started DESC, f.priority DESC, f.due_at, f.run_id, f.path;

-- name: list_workers
SELECT id, name, queues, needs, lease_until
FROM stepwell.workers
ORDER BY id;

-- name: published
SELECT id, name, key, payload, at
FROM stepwell.published_events
WHERE name = $1
    AND at >= $2::float8
ORDER BY at
LIMIT $3;

-- name: published_by_key
-- For one order among thousands: not all that were published since it began to wait.
SELECT id, name, key, payload, at
FROM stepwell.published_events
WHERE name = $1
    AND at >= $2::float8
    AND key = $4
    AND key <> ''
ORDER BY at
LIMIT $3;

-- name: put_definitions
-- One that changed counts as put now; one that is equal stays where it was.
INSERT INTO stepwell.definitions AS d (workspace, name, version, kind, hash, body, input_schema, options)
SELECT u.workspace, u.name, u.version, u.kind, u.hash, u.body, u.input_schema, u.options
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bytea[], $8::bytea[]
) WITH ORDINALITY AS u (workspace, name, version, kind, hash, body, input_schema, options, i)
ORDER BY u.i
ON CONFLICT (workspace, name, version) DO UPDATE
SET kind = excluded.kind, hash = excluded.hash, body = excluded.body, input_schema = excluded.input_schema,
    options = excluded.options, put_no = DEFAULT
WHERE (d.kind, d.hash, d.body, d.input_schema, d.options)
    IS DISTINCT FROM
    (excluded.kind, excluded.hash, excluded.body, excluded.input_schema, excluded.options);

-- name: swap_definition
-- Whoever comes second waits for the first one's row and then finds another hash, or the row there. One that
-- is equal stays where it was.
WITH changed AS (
    UPDATE stepwell.definitions
    SET kind = $4, hash = $5, body = $6, input_schema = $7, options = $8, put_no = DEFAULT
    WHERE workspace = $1
        AND name = $2
        AND version = $3
        AND $9 <> ''
        AND hash = $9
        AND (kind, hash, body, input_schema, options) IS DISTINCT FROM ($4, $5, $6, $7, $8)
    RETURNING true AS done
),
made AS (
    INSERT INTO stepwell.definitions (workspace, name, version, kind, hash, body, input_schema, options)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8
    WHERE $9 = ''
    ON CONFLICT DO NOTHING
    RETURNING true AS done
)
SELECT done FROM changed
UNION ALL
SELECT done FROM made;

-- name: drop_definitions
DELETE FROM stepwell.definitions
WHERE workspace = $1
    AND name = ANY ($2::text[])
RETURNING version;

-- name: read_definition
SELECT workspace, name, version, kind, hash, body, input_schema, options
FROM stepwell.definitions
WHERE workspace = $1
    AND name = $2
    AND ($3 = '' OR version = $3)
ORDER BY put_no DESC
LIMIT 1;

-- name: list_definitions
SELECT workspace, name, version, kind, hash, body, input_schema, options
FROM stepwell.definitions
WHERE workspace = $1
ORDER BY put_no;

-- name: read_codec_check
SELECT value
FROM stepwell.codec_check;

-- name: write_codec_check
-- The first, or in the place of the one that was read.
INSERT INTO stepwell.codec_check AS c (value)
SELECT $1::bytea
ON CONFLICT (one) DO UPDATE
SET value = excluded.value
WHERE c.value = $2::bytea
RETURNING true;
