-- Holding runs.

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
