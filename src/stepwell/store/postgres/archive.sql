-- Whole runs: copied out, restored, removed. None of it is hot; logs are read and written by run.

-- name: begin_snapshot
-- For several statements that must see the same moment.
BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: tree_ids
-- A run and all below it, level by level.
WITH RECURSIVE tree AS (
    SELECT r.id, 0 AS depth
    FROM stepwell.runs AS r
    WHERE r.id = $1
    UNION ALL
    SELECT below.id, tree.depth + 1
    FROM tree
    JOIN stepwell.runs AS below ON below.parent = tree.id AND below.parent <> ''
)
SELECT id
FROM tree
ORDER BY depth, id;

-- name: copy_run
SELECT
    id, workspace, workflow, version, kind, hash, status, input, output, error, key, digest, queue, lane,
    priority, parent, parent_path, root, tags, trigger, where_at, created_at, started_at, ended_at, test,
    started_by, done, total, input_tokens, output_tokens, cost
FROM stepwell.runs
WHERE id = $1;

-- name: copy_log
SELECT seq, kind, path, attempt, at, payload
FROM stepwell.events
WHERE run_id = $1
ORDER BY seq;

-- name: copy_tickets
SELECT path, queue, needs, priority, started, ending, not_before, due_at, head, base, at, wakes, held
FROM stepwell.tickets
WHERE run_id = $1
ORDER BY path;

-- name: copy_inbox
SELECT key, n, kind, name, payload, at, sender
FROM stepwell.inbox
WHERE run_id = $1
ORDER BY n;

-- name: copy_waits
SELECT path, kind, name, key, since, workspace, what, seq, opened_at, due_at
FROM stepwell.waits
WHERE run_id = $1
ORDER BY path;

-- name: copy_decided
SELECT path, name, opened, received, ended, workspace, at
FROM stepwell.decided_approvals
WHERE run_id = $1
ORDER BY ended;

-- name: runs_in_the_way
-- Which of the runs to restore exist by id or key. Two lookups, because no single index answers an OR. The
-- lookup by key asks for the first key from there on: for an equality the planner, while the table is small,
-- may choose the index of workspace and workflow, and would read all runs for each key later.
SELECT k.i, r.id, r.workspace, r.key, r.digest
FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k (id, workspace, key, i)
CROSS JOIN LATERAL (
    SELECT x.id, x.workspace, x.key, x.digest, 1 AS place
    FROM stepwell.runs AS x
    WHERE x.id = k.id
    UNION ALL
    SELECT f.id, f.workspace, f.key, f.digest, 2
    FROM (
        SELECT x.id, x.workspace, x.key, x.digest
        FROM stepwell.runs AS x
        WHERE x.key <> '' AND (x.workspace, x.key) >= (k.workspace, k.key)
        ORDER BY x.workspace, x.key
        LIMIT 1
    ) AS f
    WHERE f.workspace = k.workspace
        AND f.key = k.key
    ORDER BY place
    LIMIT 1
) AS r;

-- name: restore_run
-- No ON CONFLICT: an id or key that was taken since the lookup fails the whole restore.
INSERT INTO stepwell.runs (
    id, workspace, workflow, version, kind, hash, status, input, output, error, key, digest, queue, lane,
    priority, parent, parent_path, root, tags, trigger, where_at, created_at, started_at, ended_at, test,
    started_by, done, total, input_tokens, output_tokens, cost, number
)
VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
    $24, $25, $26, $27, $28, $29, $30, $31, $32
);

-- name: restore_event
INSERT INTO stepwell.events (run_id, seq, kind, path, attempt, at, payload)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: restore_ticket
INSERT INTO stepwell.tickets (
    run_id, workspace, lane, path, queue, needs, priority, started, ending, not_before, due_at, head, base,
    at, wakes, held, losses, lost_lease
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, 0, '');

-- name: restore_message
INSERT INTO stepwell.inbox (run_id, key, n, kind, name, payload, at, sender)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: restore_wait
INSERT INTO stepwell.waits (
    run_id, path, kind, name, key, since, workspace, what, seq, opened_at, due_at
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: restore_decided
INSERT INTO stepwell.decided_approvals (run_id, path, name, opened, received, ended, workspace, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: restore_term
INSERT INTO stepwell.run_terms (run_id, term, workspace, created_at)
VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING;

-- name: run_to_remove
SELECT EXISTS (SELECT FROM stepwell.runs AS above WHERE above.id = r.parent) AS is_child
FROM stepwell.runs AS r
WHERE r.id = $1;

-- name: purge_page
-- The next runs by creation time, and which of them have no parent.
SELECT
    coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now,
    r.id, r.created_at, r.ended_at,
    NOT EXISTS (SELECT FROM stepwell.runs AS above WHERE above.id = r.parent) AS is_root
FROM stepwell.runs AS r
WHERE r.id > $2
ORDER BY r.id
LIMIT $3;

-- name: tree_members
-- The runs of some trees, each with its tree's root.
WITH RECURSIVE tree AS (
    SELECT u.id COLLATE "C" AS root, u.id COLLATE "C"
    FROM unnest($1::text[]) AS u (id)
    UNION ALL
    SELECT tree.root, below.id
    FROM tree
    JOIN stepwell.runs AS below ON below.parent = tree.id AND below.parent <> ''
)
SELECT root, id
FROM tree
ORDER BY id;

-- name: lock_ended
-- Locks the runs that ended before that time, skipping locked ones. While they are locked nobody can retry
-- them, and an ended run does not start children: the tree cannot grow.
SELECT r.id
FROM stepwell.runs AS r
WHERE r.id = ANY ($1::text[])
    AND r.status IN ('completed', 'failed', 'cancelled', 'timed_out')
    AND r.ended_at < $2
ORDER BY r.id
FOR UPDATE SKIP LOCKED;

-- name: purge_events
-- Broadcast events from before a time that are fanned out and that no run may still ask for. Goes from name
-- to name along the index, up to the first event of each that a wait for any key still needs. Events that
-- another purge deletes at this moment are left to it.
WITH RECURSIVE names AS (
    (
        SELECT p.workspace, p.name
        FROM stepwell.published_events AS p
        ORDER BY p.workspace, p.name
        LIMIT 1
    )
    UNION ALL
    SELECT n.workspace, n.name
    FROM names
    CROSS JOIN LATERAL (
        SELECT p.workspace, p.name
        FROM stepwell.published_events AS p
        WHERE (p.workspace, p.name) > (names.workspace, names.name)
        ORDER BY p.workspace, p.name
        LIMIT 1
    ) AS n
),
old AS MATERIALIZED (
    SELECT e.id, e.workspace, e.name
    FROM names
    CROSS JOIN LATERAL (
        SELECT p.id, p.workspace, p.name
        FROM stepwell.published_events AS p
        WHERE p.workspace = names.workspace
            AND p.name = names.name
            AND p.at < coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) - $2::float8
            AND p.at < coalesce(
                (
                    SELECT min(w.since)
                    FROM stepwell.waits AS w
                    WHERE w.kind IN ('event', 'cursor')
                        AND w.workspace = names.workspace
                        AND w.name = names.name
                        AND w.key = ''
                ),
                'Infinity'
            )
            AND NOT EXISTS (SELECT FROM stepwell.tickets AS t WHERE t.run_id = p.id AND t.path = '')
            AND NOT (
                p.name = 'webhook' -- delivered to a run, whose id its key begins with
                AND EXISTS (
                    SELECT
                    FROM stepwell.tickets AS t
                    WHERE t.run_id = split_part(p.key, '.', 1) AND t.path = ''
                )
            )
            AND NOT EXISTS (
                SELECT
                FROM stepwell.waits AS w
                WHERE w.kind IN ('event', 'cursor')
                    AND w.workspace = p.workspace
                    AND w.name = p.name
                    AND w.key = p.key
                    AND w.since <= p.at
            )
        ORDER BY p.at
        LIMIT $3
        FOR UPDATE SKIP LOCKED
    ) AS e
    LIMIT $3
),
gone AS (
    DELETE FROM stepwell.published_events AS p
    USING old
    WHERE p.id = ANY (ARRAY[old.id])
    RETURNING p.id
),
unused AS MATERIALIZED (
    SELECT n.workspace, n.name
    FROM stepwell.event_names AS n
    WHERE (n.workspace, n.name) IN (SELECT old.workspace, old.name FROM old)
        AND n.last_at < coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) - $2::float8
    FOR UPDATE SKIP LOCKED
),
forgotten AS (
    DELETE FROM stepwell.event_names AS n
    USING unused
    WHERE n.workspace = ANY (ARRAY[unused.workspace])
        AND n.name = ANY (ARRAY[unused.name])
)
SELECT count(*)
FROM gone;

-- name: delete_events
DELETE FROM stepwell.events
WHERE run_id = ANY ($1::text[]);

-- name: delete_runs
DELETE FROM stepwell.runs
WHERE id = ANY ($1::text[]);
