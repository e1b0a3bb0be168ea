-- Whole runs: copied out, restored, removed.

-- name: begin_read
-- For several statements that must see the same moment.
BEGIN;

-- name: tree_ids
-- A run and all below it, level by level.
WITH RECURSIVE tree (id, depth) AS (
    SELECT id, 0 FROM runs WHERE id = ?1
    UNION ALL
    SELECT below.id, tree.depth + 1
    FROM tree
    CROSS JOIN runs AS below ON below.parent = tree.id AND below.parent <> ''
)
SELECT id
FROM tree
ORDER BY depth, id;

-- name: copy_run
SELECT
    id, workspace, workflow, version, kind, hash, status, input, output, error, key, digest, queue, lane,
    priority, parent, parent_path, root, tags, "trigger", where_at, created_at, started_at, ended_at, test,
    started_by, done, total, input_tokens, output_tokens, cost
FROM runs
WHERE id = ?1;

-- name: copy_tickets
SELECT path, queue, needs, priority, started, ending, not_before, due_at, head, base, at, wakes, held
FROM tickets
WHERE run_id = ?1
ORDER BY path;

-- name: copy_waits
SELECT path, kind, name, key, since, workspace, what, seq, opened_at, due_at
FROM waits
WHERE run_id = ?1
ORDER BY path;

-- name: copy_decided
SELECT path, name, opened, received, ended, workspace, at
FROM decided_approvals
WHERE run_id = ?1
ORDER BY ended;

-- name: runs_in_the_way
-- Which of the runs to restore exist by id or key.
SELECT wanted.key AS i, runs.id, runs.workspace, runs.key, runs.digest
FROM json_each(?1) AS wanted
CROSS JOIN runs ON runs.id = coalesce(
    (SELECT x.id FROM runs AS x WHERE x.id = wanted.value ->> 0),
    (
        SELECT x.id
        FROM runs AS x
        WHERE x.workspace = wanted.value ->> 1 AND x.key = wanted.value ->> 2 AND x.key <> ''
    )
);

-- name: restore_run
INSERT INTO runs (
    id, workspace, workflow, version, kind, hash, status, input, output, error, key, digest, queue, lane,
    priority, parent, parent_path, root, tags, "trigger", where_at, created_at, started_at, ended_at, test,
    started_by, done, total, input_tokens, output_tokens, cost, number
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: restore_ticket
INSERT INTO tickets (
    run_id, workspace, lane, path, queue, needs, priority, started, ending, not_before, due_at, head, base,
    at, wakes, held
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: run_to_remove
SELECT EXISTS (SELECT 1 FROM runs AS above WHERE above.id = runs.parent) AS is_child
FROM runs
WHERE id = ?1;

-- name: tree_ends
-- The runs of each tree with their root, and when they ended (NULL: they are live).
WITH RECURSIVE tree (root, id) AS (
    SELECT value, value FROM json_each(?1)
    UNION ALL
    SELECT tree.root, below.id
    FROM tree
    CROSS JOIN runs AS below ON below.parent = tree.id AND below.parent <> ''
)
SELECT
    tree.root, tree.id,
    CASE WHEN runs.status IN ('completed', 'failed', 'cancelled', 'timed_out') THEN runs.ended_at END AS ended_at
FROM tree
CROSS JOIN runs ON runs.id = tree.id;

-- name: purge_page
-- The next runs by creation time, and which of them have no parent.
SELECT
    runs.id, runs.created_at, runs.ended_at,
    NOT EXISTS (SELECT 1 FROM runs AS above WHERE above.id = runs.parent) AS is_root
FROM runs
WHERE runs.id > ?1
ORDER BY runs.id
LIMIT ?2;

-- name: old_events
-- Broadcast events from before a time that are fanned out and that no run may still ask for. Goes from name
-- to name along the index, up to the first event of each that a wait for any key still needs.
WITH RECURSIVE spaces (workspace) AS (
    SELECT (SELECT min(workspace) FROM published_events)
    UNION ALL
    SELECT (SELECT min(workspace) FROM published_events WHERE workspace > spaces.workspace)
    FROM spaces
    WHERE spaces.workspace IS NOT NULL
),
names (workspace, name) AS (
    SELECT workspace, (SELECT min(name) FROM published_events AS p WHERE p.workspace = spaces.workspace)
    FROM spaces
    WHERE workspace IS NOT NULL
    UNION ALL
    SELECT workspace, (
        SELECT min(name) FROM published_events AS p WHERE p.workspace = names.workspace AND p.name > names.name
    )
    FROM names
    WHERE names.name IS NOT NULL
)
SELECT old.id
FROM names
CROSS JOIN published_events AS old
    ON old.workspace = names.workspace
        AND old.name = names.name
        AND old.at < min(
            ?1,
            coalesce(
                (
                    SELECT min(since)
                    FROM waits
                    WHERE kind IN ('event', 'cursor')
                        AND waits.workspace = names.workspace AND waits.name = names.name AND key = ''
                ),
                ?1
            )
        )
WHERE NOT EXISTS (SELECT 1 FROM tickets WHERE run_id = old.id AND path = '')
    AND NOT (
        old.name = 'webhook' -- delivered to a run, whose id its key begins with
        AND EXISTS (
            SELECT 1 FROM tickets WHERE run_id = substr(old.key, 1, instr(old.key || '.', '.') - 1) AND path = ''
        )
    )
    AND NOT EXISTS (
        SELECT 1
        FROM waits
        WHERE kind IN ('event', 'cursor')
            AND waits.workspace = old.workspace AND waits.name = old.name AND waits.key = old.key
            AND since <= old.at
    )
LIMIT ?2;

-- name: delete_published
DELETE FROM published_events
WHERE id = ?1;

-- name: delete_events
DELETE FROM events
WHERE run_id = ?1;

-- name: delete_run
DELETE FROM runs
WHERE id = ?1;
