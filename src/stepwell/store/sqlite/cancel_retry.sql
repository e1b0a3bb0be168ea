-- Cancelling and retrying runs.

-- name: run_to_cancel
SELECT runs.parent, runs.parent_path, t.run_id, t.started, t.ending, t.head, t.at
FROM runs
LEFT JOIN tickets AS t ON t.run_id = runs.id AND t.path = ''
WHERE runs.id = ?1;

-- name: mark_ending
UPDATE tickets
SET ending = 1, priority = ?2, held = NULL
WHERE run_id = ?1 AND path = '';

-- name: inbox_keys
SELECT key
FROM inbox
WHERE run_id = ?1
ORDER BY n;

-- name: live_children
SELECT runs.id
FROM runs
CROSS JOIN tickets ON tickets.run_id = runs.id AND tickets.path = ''
WHERE runs.parent = ?1 AND runs.parent <> ''
ORDER BY runs.id;

-- name: run_to_retry
SELECT
    status, workflow, version, queue, workspace, lane, priority,
    (SELECT seq FROM events WHERE run_id = ?1 ORDER BY seq DESC LIMIT 1) AS head,
    (SELECT at FROM events WHERE run_id = ?1 ORDER BY seq DESC LIMIT 1) AS at,
    (
        SELECT coalesce(max(seq), 1)
        FROM events
        WHERE run_id = ?1 AND kind IN ('continued', 'transition_completed')
    ) AS base,
    EXISTS (SELECT 1 FROM events WHERE run_id = ?1 AND kind = 'compensation_completed') AS compensated
FROM runs
WHERE id = ?1;

-- name: retry_run
UPDATE runs
SET status = 'running', output = NULL, error = NULL, ended_at = NULL
WHERE id = ?1;
