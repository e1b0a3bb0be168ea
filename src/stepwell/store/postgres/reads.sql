-- Reads. Nothing here locks.

-- name: now
SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now;

-- name: read_log
SELECT seq, kind, path, attempt, at, payload
FROM stepwell.events
WHERE run_id = $1
    AND seq > $2
ORDER BY seq
LIMIT $3;

-- The size of a payload is known without reading it.
-- name: read_log_within
SELECT seq, kind, path, attempt, at, payload
FROM (
    SELECT
        seq, kind, path, attempt, at, payload,
        sum(octet_length(payload)) OVER (ORDER BY seq) - octet_length(payload) AS before
    FROM stepwell.events
    WHERE run_id = $1
        AND seq > $2
    ORDER BY seq
    LIMIT $3
) AS e
WHERE before < $4
ORDER BY seq;

-- name: read_log_about
SELECT seq, kind, path, attempt, at, payload
FROM stepwell.events
WHERE run_id = $1
    AND seq > $2
    AND (cardinality($4::text[]) = 0 OR kind = ANY ($4::text[]))
    AND ($5 = '' OR path = $5)
ORDER BY seq
LIMIT $3;

-- name: read_log_end
SELECT seq, kind, path, attempt, at, payload
FROM stepwell.events
WHERE run_id = $1
ORDER BY seq DESC
LIMIT $2;

-- name: read_run
SELECT
    r.id, r.workspace, r.workflow, r.version, r.kind,
    CASE WHEN t.lease IS NOT NULL THEN 'running' ELSE r.status END AS status,
    r.input, r.output, r.error, r.key, r.parent, r.root, r.tags, r.trigger, r.where_at,
    r.created_at, r.started_at, r.ended_at, r.test, r.number, r.started_by,
    t.held IS NOT NULL AS held, r.done, r.total, r.input_tokens, r.output_tokens, r.cost,
    coalesce(t.owner, '') AS owner
FROM stepwell.runs AS r
LEFT JOIN stepwell.tickets AS t ON t.run_id = r.id AND t.path = ''
WHERE r.id = $1;

-- name: find_run
-- Asks for the first key from there on, as in find_keys.
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

-- name: read_schema
SELECT coalesce(max(number), 0)
FROM stepwell.migrations;

-- name: read_queues
-- What each queue holds. Fan-outs, which have no queue, are not counted.
SELECT
    queue,
    count(*) FILTER (WHERE lease IS NULL AND due_at <= $2) AS ready,
    count(*) FILTER (WHERE lease IS NULL AND due_at > $2) AS waiting,
    count(*) FILTER (WHERE lease IS NOT NULL) AS active,
    min(due_at) FILTER (WHERE lease IS NULL AND due_at <= $2) AS oldest
FROM stepwell.tickets
WHERE queue <> '' AND $1 IN ('', workspace)
GROUP BY queue
ORDER BY queue;

-- name: read_tickets
SELECT run_id, path, queue, needs, priority, started, ending, due_at, owner, lease, head, wakes, losses,
    lane, held
FROM stepwell.tickets
WHERE run_id = $1
ORDER BY path;

-- name: list_others
-- Jumps along the indexes of the queue from one kind of work to the next, as a claim does; reads the first
-- ticket of each kind that is not covered.
WITH RECURSIVE
open AS (
    SELECT s.solo, q.queue, n.needs
    FROM (VALUES (false), (true)) AS s (solo)
    CROSS JOIN unnest($1::text[]) AS q (queue)
    CROSS JOIN LATERAL (
        SELECT t.needs
        FROM stepwell.tickets AS t
        WHERE t.lease IS NULL
            AND t.held IS NULL
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
            AND t.held IS NULL
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
            AND t.held IS NULL
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
            AND t.held IS NULL
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
            AND t.held IS NULL
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
            AND t.held IS NULL
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
    f.wakes, f.losses, f.lane, f.held
FROM firsts AS f
WHERE f.queue = ANY ($1::text[])
ORDER BY f.queue, f.needs, f.started DESC, f.priority DESC, f.due_at, f.run_id, f.path;

-- name: list_workers
SELECT id, name, queues, needs, lease_until, leaving, drain
FROM stepwell.workers
ORDER BY id;
