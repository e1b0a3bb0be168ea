-- Starting runs.

-- name: known_keys
-- Which of these start keys exist. Read under the write lock, so nobody can add one meanwhile.
SELECT runs.workspace, runs.key, runs.id, runs.digest
FROM json_each(?1) AS wanted
CROSS JOIN runs
    ON runs.workspace = wanted.value ->> 0 AND runs.key = wanted.value ->> 1 AND runs.key <> '';

-- name: known_ids
-- The same for starts without a key.
SELECT runs.id, '' AS key, runs.id, runs.digest
FROM json_each(?1) AS wanted
CROSS JOIN runs ON runs.id = wanted.value;

-- name: insert_run
INSERT INTO runs (
    id, workspace, workflow, version, kind, hash, status, input, key, digest,
    queue, lane, priority, parent, parent_path, root, tags, "trigger", created_at, test, number, started_by
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: take_numbers
-- The next numbers of a workflow; returns the last of them.
INSERT INTO run_numbers (workspace, workflow, last)
VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE
SET last = last + excluded.last
RETURNING last;

-- name: disabled_workflows
SELECT workspace, workflow
FROM switches
WHERE enabled = 0;

-- name: insert_event
-- No ON CONFLICT: a seq that exists is a bug of ours and must not pass silently.
INSERT INTO events (run_id, seq, kind, path, attempt, at, payload)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: insert_ticket
-- A run's own ticket: fresh; started, if a failed run is retried; or owned by its starter from the beginning.
INSERT INTO tickets (
    run_id, path, queue, needs, workspace, lane, priority, started, not_before, due_at, head, base, at,
    owner, lease
)
VALUES (?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: may_own
-- Which of these workers may own the runs they start: they are registered, no limits are set, nothing is held.
SELECT workers.id
FROM json_each(?1) AS wanted
CROSS JOIN workers ON workers.id = wanted.value
WHERE NOT EXISTS (SELECT 1 FROM limits WHERE most IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM holds WHERE held = 1);
