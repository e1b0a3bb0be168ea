-- Holding runs, workflows, queues and workspaces.

-- name: run_to_hold
-- `waiting`: an earlier change is in the inbox and not in the log yet.
SELECT
    t.run_id, t.lease, t.ending, t.head, t.wakes, t.at, t.held IS NOT NULL,
    EXISTS (SELECT 1 FROM inbox WHERE inbox.run_id = ?1 AND inbox.kind = ?2) AS waiting
FROM runs
LEFT JOIN tickets AS t ON t.run_id = runs.id AND t.path = ''
WHERE runs.id = ?1;

-- name: mark_held
-- The run's ticket and those of its remote steps.
UPDATE tickets
SET held = ?2
WHERE run_id = ?1;

-- name: grow_log
-- An event was appended to the log of a run that nobody owns.
UPDATE tickets
SET head = ?2, at = ?3
WHERE run_id = ?1 AND path = '';

-- name: put_hold
INSERT INTO holds (kind, workspace, name, held, held_by, reason, at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO UPDATE
SET held = excluded.held, held_by = excluded.held_by, reason = excluded.reason, at = excluded.at
WHERE held <> excluded.held
RETURNING 1;

-- name: list_holds
SELECT kind, workspace, name, held, held_by, reason, at
FROM holds
WHERE workspace = ?1
ORDER BY kind, name;

-- name: active_holds
SELECT kind, workspace, name, held, held_by, reason, at
FROM holds
WHERE held = 1;
