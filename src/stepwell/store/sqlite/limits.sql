-- Concurrency limits, and the lanes that count for them.

-- name: open_without_lane
-- Tickets without a lane, of one kind of work, in claim order.
SELECT
    run_id, runs.workspace, workflow, tickets.queue, parent <> '', needs, tickets.path,
    test OR tickets.path <> '' AS exempt
FROM tickets
CROSS JOIN runs ON runs.id = tickets.run_id
WHERE lease IS NULL AND held IS NULL AND losses < 2 AND tickets.lane = '' AND tickets.queue = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id
LIMIT ?3;

-- name: solo_without_lane
SELECT
    run_id, runs.workspace, workflow, tickets.queue, parent <> '', needs, tickets.path,
    test OR tickets.path <> '' AS exempt
FROM tickets
CROSS JOIN runs ON runs.id = tickets.run_id
WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND tickets.lane = '' AND tickets.queue = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id
LIMIT ?3;

-- name: owned_without_lane
-- Reads no more rows than there are slots of workers.
SELECT
    run_id, runs.workspace, workflow, tickets.queue, parent <> '', needs, tickets.path,
    test OR tickets.path <> '' AS exempt
FROM tickets
CROSS JOIN runs ON runs.id = tickets.run_id
WHERE owner IS NOT NULL AND tickets.lane = '' AND path = '';

-- name: give_lane
UPDATE tickets
SET lane = ?2
WHERE run_id = ?1 AND path = ?3;

-- name: leased_lanes
-- Reads no more rows than the limits allow.
SELECT lane, count(*)
FROM tickets
WHERE lease IS NOT NULL AND lane <> ''
GROUP BY lane;

-- name: any_due_in_lanes
-- Whether a ticket of a lane is due and free.
SELECT 1
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND due_at <= ?1
LIMIT 1;

-- name: resting_lanes
-- Reads every suspended run of a lane: used only if a limit counts suspended runs.
SELECT lane, count(*)
FROM tickets
WHERE lease IS NULL AND lane <> '' AND started = 1
GROUP BY lane;

-- name: read_limits
SELECT kind, workspace, name, most, hold, set_by
FROM limits
ORDER BY kind, workspace, name;

-- name: put_limit
INSERT OR REPLACE INTO limits (kind, workspace, name, most, hold, set_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: drop_limit
DELETE FROM limits
WHERE kind = ?1 AND workspace = ?2 AND name = ?3
RETURNING kind;
