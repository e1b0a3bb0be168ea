-- Finding and counting runs. Each `found_` query walks one index backwards, from where the last page ended: its
-- bounds and its order are those of the index, so no other one can answer it. `/* run_fits */` stands for the other
-- conditions of the filter, `/* found */` for one of these queries. The walk reads
-- nothing but the index, and OFFSET 0 keeps the conditions out of it: the planner would take another one for them.
--
-- All have the same parameters: $1 workspace, $2 limit, $3 since, $4 and $5 where the last page ended, $6 workflow,
-- $7 version, $8 queue, $9 trigger, $10 parent, $11 key, $12 prefix, $13 the first key after this page, $14
-- statuses, $15 terms, $16 and $17 from which id to which. '' and empty lists do not filter.

-- fragment: run_fits
r.workspace = $1::text
    AND ($6::text = '' OR r.workflow = $6::text)
    AND ($7::text = '' OR r.version = $7::text)
    AND ($8::text = '' OR r.queue = $8::text)
    AND ($9::text = '' OR r.trigger = $9::text)
    AND ($10::text = '' OR r.parent = $10::text)
    AND ($11::text = '' OR r.key = $11::text)
    AND ($12::text = '' OR (r.key >= $12::text AND r.key < $13::text))
    AND ($16::text = '' OR (r.id >= $16::text AND r.id < $17::text))
    AND (r.created_at, r.id) < ($4::float8, $5::text)
    AND r.created_at >= $3::float8
    AND (
        cardinality($14::text[]) = 0
        OR CASE
            WHEN EXISTS (
                SELECT
                FROM stepwell.tickets AS t
                WHERE t.run_id = r.id
                    AND t.path = ''
                    AND t.lease IS NOT NULL
            )
                THEN 'running'
            ELSE r.status
        END = ANY ($14::text[])
    )
    AND (
        cardinality($15::text[]) = 0
        OR NOT EXISTS (
            SELECT
            FROM unnest($15::text[]) AS w (term)
            WHERE NOT EXISTS (SELECT FROM stepwell.run_terms AS x WHERE x.run_id = r.id AND x.term = w.term)
        )
    )

-- name: list_runs
SELECT
    r.id, r.workspace, r.workflow, r.version, r.kind,
    CASE WHEN t.lease IS NOT NULL THEN 'running' ELSE r.status END AS status,
    r.input, r.output, r.error, r.key, r.parent, r.root, r.tags, r.trigger, r.where_at,
    r.created_at, r.started_at, r.ended_at, r.test, r.number, r.started_by, t.held IS NOT NULL AS held,
    r.done, r.total, r.input_tokens, r.output_tokens, r.cost, coalesce(t.owner, '') AS owner
FROM (
    SELECT f.id, f.created_at
    FROM (/* found */) AS f
    ORDER BY f.created_at DESC, f.id DESC
    LIMIT $2::int
) AS f
CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = f.id OFFSET 0) AS r
LEFT JOIN LATERAL (
    SELECT x.lease, x.held, x.owner
    FROM stepwell.tickets AS x
    WHERE x.run_id = f.id
        AND x.path = ''
    OFFSET 0
) AS t ON true
ORDER BY f.created_at DESC, f.id DESC;

-- name: found_newest
SELECT r.id, r.created_at
FROM (
    SELECT x.id
    FROM stepwell.runs AS x
    WHERE x.workspace = $1::text
        AND (x.created_at, x.id) < ($4::float8, $5::text)
        AND x.created_at >= $3::float8
    ORDER BY x.created_at DESC, x.id DESC
    OFFSET 0
) AS f
CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = f.id OFFSET 0) AS r
WHERE /* run_fits */
LIMIT $2::int

-- name: found_in_groups
-- The newest runs of each group, and the runs that workers own: they are running, whatever is stored.
SELECT found.id, found.created_at
FROM (
    SELECT g.workflow, g.version, g.queue, g.status
    FROM (
        SELECT c.workflow, c.version, c.queue, c.status
        FROM stepwell.run_counts AS c
        WHERE c.workspace = $1::text
            AND c.n <> 0
        UNION
        SELECT c.workflow, c.version, c.queue, c.status
        FROM stepwell.run_count_changes AS c
        WHERE c.workspace = $1::text
    ) AS g
    WHERE ($6::text = '' OR g.workflow = $6::text)
        AND ($7::text = '' OR g.version = $7::text)
        AND ($8::text = '' OR g.queue = $8::text)
        AND (cardinality($14::text[]) = 0 OR g.status = ANY ($14::text[]))
) AS g
CROSS JOIN LATERAL (
    SELECT r.id, r.created_at
    FROM (
        SELECT x.id
        FROM stepwell.runs AS x
        WHERE x.workspace = $1::text
            AND x.workflow = g.workflow
            AND x.version = g.version
            AND x.queue = g.queue
            AND x.status = g.status
            AND (x.created_at, x.id) < ($4::float8, $5::text)
            AND x.created_at >= $3::float8
        ORDER BY x.created_at DESC, x.id DESC
        OFFSET 0
    ) AS f
    CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = f.id OFFSET 0) AS r
    WHERE /* run_fits */
    LIMIT $2::int
) AS found
UNION
SELECT r.id, r.created_at
FROM (
    SELECT x.run_id
    FROM stepwell.tickets AS x
    WHERE x.owner IS NOT NULL
        AND x.path = ''
        AND 'running' = ANY ($14::text[])
    ORDER BY x.owner, x.lease
) AS o
CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = o.run_id OFFSET 0) AS r
WHERE /* run_fits */

-- name: found_by_trigger
SELECT r.id, r.created_at
FROM (
    SELECT x.id
    FROM stepwell.runs AS x
    WHERE x.trigger <> 'api'
        AND x.workspace = $1::text
        AND x.trigger = $9::text
        AND (x.created_at, x.id) < ($4::float8, $5::text)
        AND x.created_at >= $3::float8
    ORDER BY x.created_at DESC, x.id DESC
    OFFSET 0
) AS f
CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = f.id OFFSET 0) AS r
WHERE /* run_fits */
LIMIT $2::int

-- name: found_by_parent
SELECT r.id, r.created_at
FROM (
    SELECT x.id
    FROM stepwell.runs AS x
    WHERE x.parent <> ''
        AND x.parent = $10::text
        AND (x.created_at, x.id) < ($4::float8, $5::text)
        AND x.created_at >= $3::float8
    ORDER BY x.created_at DESC, x.id DESC
    OFFSET 0
) AS f
CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = f.id OFFSET 0) AS r
WHERE /* run_fits */
LIMIT $2::int

-- name: found_by_term
SELECT r.id, r.created_at
FROM (
    SELECT x.run_id
    FROM stepwell.run_terms AS x
    WHERE x.workspace = $1::text
        AND x.term = ($15::text[])[1]
        AND (x.created_at, x.run_id) < ($4::float8, $5::text)
        AND x.created_at >= $3::float8
    ORDER BY x.created_at DESC, x.run_id DESC
    OFFSET 0
) AS found
CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = found.run_id OFFSET 0) AS r
WHERE /* run_fits */
LIMIT $2::int

-- name: found_by_key
SELECT r.id, r.created_at
FROM (
    SELECT x.*
    FROM stepwell.runs AS x
    WHERE x.key <> ''
        AND (x.workspace, x.key) >= ($1::text, $11::text)
    ORDER BY x.workspace, x.key
    LIMIT 1
) AS r
WHERE /* run_fits */

-- name: found_by_id
-- By the beginning of the id.
SELECT r.id, r.created_at
FROM (
    SELECT x.id
    FROM stepwell.runs AS x
    WHERE x.id >= $16::text
        AND x.id < $17::text
    ORDER BY x.id DESC
    OFFSET 0
) AS f
CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = f.id OFFSET 0) AS r
WHERE /* run_fits */
LIMIT $2::int

-- name: list_by_prefix
-- By key, the last one first.
SELECT
    r.id, r.workspace, r.workflow, r.version, r.kind,
    CASE WHEN t.lease IS NOT NULL THEN 'running' ELSE r.status END AS status,
    r.input, r.output, r.error, r.key, r.parent, r.root, r.tags, r.trigger, r.where_at,
    r.created_at, r.started_at, r.ended_at, r.test, r.number, r.started_by, t.held IS NOT NULL AS held,
    r.done, r.total, r.input_tokens, r.output_tokens, r.cost, coalesce(t.owner, '') AS owner
FROM (
    SELECT x.key
    FROM stepwell.runs AS x
    WHERE x.key <> ''
        AND x.workspace = $1::text
        AND x.key >= $12::text
        AND x.key < $13::text
    ORDER BY x.key DESC
    OFFSET 0
) AS f
CROSS JOIN LATERAL (
    SELECT x.*
    FROM stepwell.runs AS x
    WHERE x.key <> ''
        AND (x.workspace, x.key) >= ($1::text, f.key)
    ORDER BY x.workspace, x.key
    LIMIT 1
) AS r
LEFT JOIN LATERAL (
    SELECT x.lease, x.held, x.owner
    FROM stepwell.tickets AS x
    WHERE x.run_id = r.id
        AND x.path = ''
    OFFSET 0
) AS t ON true
WHERE /* run_fits */
LIMIT $2::int;

-- name: run_groups
-- What was counted, and the changes since then.
SELECT g.workflow, g.version, g.queue, g.status, sum(g.n)::bigint AS n, sum(g.changes)::bigint AS changes
FROM (
    SELECT c.workflow, c.version, c.queue, c.status, c.n, 0 AS changes
    FROM stepwell.run_counts AS c
    WHERE c.workspace = $1
    UNION ALL
    SELECT c.workflow, c.version, c.queue, c.status, sum(c.n), count(*)
    FROM stepwell.run_count_changes AS c
    WHERE c.workspace = $1
    GROUP BY c.workflow, c.version, c.queue, c.status
) AS g
GROUP BY g.workflow, g.version, g.queue, g.status;

-- name: owned_groups
-- The runs that workers own now: they are shown as running, whatever their stored status is.
SELECT r.workflow, r.version, r.queue, r.status, count(*) AS n
FROM (
    SELECT x.run_id
    FROM stepwell.tickets AS x
    WHERE x.owner IS NOT NULL
        AND x.path = ''
    ORDER BY x.owner, x.lease
) AS o
CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = o.run_id OFFSET 0) AS r
WHERE r.workspace = $1
GROUP BY r.workflow, r.version, r.queue, r.status;

-- name: group_buckets
-- Each group of runs by the time of their creation: the index has all that is asked for.
SELECT b.bucket, g.status, b.n
FROM (
    SELECT c.workflow, c.version, c.queue, c.status
    FROM stepwell.run_counts AS c
    WHERE c.workspace = $1::text
        AND c.n <> 0
    UNION
    SELECT c.workflow, c.version, c.queue, c.status
    FROM stepwell.run_count_changes AS c
    WHERE c.workspace = $1::text
) AS g
CROSS JOIN LATERAL (
    SELECT floor((x.created_at - $5::float8) / $7::float8)::int AS bucket, count(*) AS n
    FROM stepwell.runs AS x
    WHERE x.workspace = $1::text
        AND x.workflow = g.workflow
        AND x.version = g.version
        AND x.queue = g.queue
        AND x.status = g.status
        AND x.created_at >= $5::float8
        AND x.created_at < $6::float8
    GROUP BY 1
) AS b
WHERE ($2::text = '' OR g.workflow = $2::text)
    AND ($3::text = '' OR g.version = $3::text)
    AND ($4::text = '' OR g.queue = $4::text);

-- name: owned_runs
SELECT r.workflow, r.version, r.queue, r.status, r.created_at
FROM (
    SELECT x.run_id
    FROM stepwell.tickets AS x
    WHERE x.owner IS NOT NULL
        AND x.path = ''
    ORDER BY x.owner, x.lease
) AS o
CROSS JOIN LATERAL (SELECT x.* FROM stepwell.runs AS x WHERE x.id = o.run_id OFFSET 0) AS r
WHERE r.workspace = $1;

-- name: fold_counts
-- Adds the changes to the counts. One caller at a time: the others leave it to that one. Commits only add
-- changes, so they never wait for this.
WITH mine AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(hashtextextended('stepwell.run_counts', 0)) AS yes
),
changes AS (
    DELETE FROM stepwell.run_count_changes
    WHERE (SELECT mine.yes FROM mine)
    RETURNING workspace, workflow, version, queue, status, n
),
sums AS (
    SELECT workspace, workflow, version, queue, status, sum(n)::bigint AS n
    FROM changes
    GROUP BY workspace, workflow, version, queue, status
    HAVING sum(n) <> 0
)
INSERT INTO stepwell.run_counts AS c (workspace, workflow, version, queue, status, n)
SELECT workspace, workflow, version, queue, status, n
FROM sums
ON CONFLICT (workspace, workflow, version, queue, status) DO UPDATE
SET n = c.n + excluded.n;

-- name: write_terms
INSERT INTO stepwell.run_terms (run_id, term, workspace, created_at)
SELECT r.id, u.term, r.workspace, r.created_at
FROM unnest($1::text[], $2::text[]) AS u (run_id, term)
CROSS JOIN LATERAL (SELECT x.id, x.workspace, x.created_at FROM stepwell.runs AS x WHERE x.id = u.run_id) AS r
ON CONFLICT DO NOTHING;

-- name: delete_words
DELETE FROM stepwell.run_terms
WHERE run_id = $1
    AND term >= 'word:'
    AND term < 'word;';

-- name: delete_terms
DELETE FROM stepwell.run_terms
WHERE run_id = ANY ($1::text[]);

-- name: delete_decided
DELETE FROM stepwell.decided_approvals
WHERE run_id = ANY ($1::text[]);

-- name: write_decided
INSERT INTO stepwell.decided_approvals (run_id, path, name, opened, received, ended, workspace, at)
SELECT *
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::int[], $7::text[], $8::float8[]
) AS d
ON CONFLICT DO NOTHING;

-- name: list_decided
SELECT
    d.run_id, r.workflow, r.number, d.path, d.name, d.ended, d.at,
    coalesce(o.at, 0) AS opened_at, coalesce(o.payload, '') AS opened, coalesce(e.payload, '') AS end,
    coalesce(m.payload, '') AS received
FROM (
    SELECT x.*
    FROM stepwell.decided_approvals AS x
    WHERE x.workspace = $1::text
        AND (x.at, x.run_id, x.ended) < ($2::float8, $3::text, $4::int)
    ORDER BY x.at DESC, x.run_id DESC, x.ended DESC
    LIMIT $5::int
) AS d
CROSS JOIN LATERAL (
    SELECT x.workflow, x.number FROM stepwell.runs AS x WHERE x.id = d.run_id OFFSET 0
) AS r
LEFT JOIN LATERAL (
    SELECT x.at, x.payload FROM stepwell.events AS x WHERE x.run_id = d.run_id AND x.seq = d.opened OFFSET 0
) AS o ON true
LEFT JOIN LATERAL (
    SELECT x.payload FROM stepwell.events AS x WHERE x.run_id = d.run_id AND x.seq = d.ended OFFSET 0
) AS e ON true
LEFT JOIN LATERAL (
    SELECT x.payload FROM stepwell.events AS x WHERE x.run_id = d.run_id AND x.seq = d.received OFFSET 0
) AS m ON true
ORDER BY d.at DESC, d.run_id DESC, d.ended DESC;

-- name: list_waits
SELECT w.*, coalesce(e.payload, '') AS opened, coalesce(m.payload, '') AS reassigned
FROM unnest($2::text[]) AS k (what)
CROSS JOIN LATERAL (
    SELECT r.id AS run_id, r.workflow, r.number, o.path, o.what, o.name, o.key, o.opened_at, o.due_at, o.seq
    FROM (
        SELECT x.*
        FROM stepwell.waits AS x
        WHERE x.what <> ''
            AND x.workspace = $1::text
            AND x.what = k.what
            AND (x.opened_at, x.run_id, x.path) < ($3::float8, $4::text, $5::text)
        ORDER BY x.opened_at DESC, x.run_id DESC, x.path DESC
        LIMIT $6::int
    ) AS o
    CROSS JOIN LATERAL (
        SELECT x.id, x.workflow, x.number FROM stepwell.runs AS x WHERE x.id = o.run_id OFFSET 0
    ) AS r
) AS w
LEFT JOIN LATERAL (
    SELECT x.payload FROM stepwell.events AS x WHERE x.run_id = w.run_id AND x.seq = w.seq OFFSET 0
) AS e ON true
LEFT JOIN LATERAL (
    SELECT x.payload
    FROM stepwell.events AS x
    WHERE w.what = 'approval'
        AND x.run_id = w.run_id
        AND x.seq > w.seq
        AND x.kind = 'wait_reassigned'
        AND x.path = w.path
    ORDER BY x.seq DESC
    LIMIT 1
) AS m ON true;

-- name: list_waits_named
-- The same for one name, by its index.
SELECT w.*, coalesce(e.payload, '') AS opened, coalesce(m.payload, '') AS reassigned
FROM unnest($2::text[]) AS k (what)
CROSS JOIN LATERAL (
    SELECT r.id AS run_id, r.workflow, r.number, o.path, o.what, o.name, o.key, o.opened_at, o.due_at, o.seq
    FROM (
        SELECT x.*
        FROM stepwell.waits AS x
        WHERE x.what <> ''
            AND x.workspace = $1::text
            AND x.what = k.what
            AND x.name = $7::text
            AND (x.opened_at, x.run_id, x.path) < ($3::float8, $4::text, $5::text)
        ORDER BY x.opened_at DESC, x.run_id DESC, x.path DESC
        LIMIT $6::int
    ) AS o
    CROSS JOIN LATERAL (
        SELECT x.id, x.workflow, x.number FROM stepwell.runs AS x WHERE x.id = o.run_id OFFSET 0
    ) AS r
) AS w
LEFT JOIN LATERAL (
    SELECT x.payload FROM stepwell.events AS x WHERE x.run_id = w.run_id AND x.seq = w.seq OFFSET 0
) AS e ON true
LEFT JOIN LATERAL (
    SELECT x.payload
    FROM stepwell.events AS x
    WHERE w.what = 'approval'
        AND x.run_id = w.run_id
        AND x.seq > w.seq
        AND x.kind = 'wait_reassigned'
        AND x.path = w.path
    ORDER BY x.seq DESC
    LIMIT 1
) AS m ON true;
