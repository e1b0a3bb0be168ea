-- Notifications that have to be sent, and alerts.

-- name: add_notification
INSERT INTO notifications (id, workspace, kind, channel, run_id, body, created_at, next_at, attempt, error)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 0, '')
ON CONFLICT DO NOTHING;

-- name: take_notifications
UPDATE notifications
SET next_at = ?3, attempt = attempt + 1
WHERE id IN (SELECT id FROM notifications WHERE channel = ?1 AND next_at <= ?2 ORDER BY next_at, id LIMIT ?4)
RETURNING id, kind, channel, body, workspace, run_id, created_at, attempt, ended_at, error;

-- name: next_notification
SELECT min((SELECT min(next_at) FROM notifications WHERE channel = wanted.value AND next_at IS NOT NULL))
FROM json_each(?1) AS wanted;

-- name: settle_notification
UPDATE notifications
SET next_at = ?3, ended_at = ?4, error = ?5
WHERE id = ?1 AND attempt = ?2 AND next_at IS NOT NULL
RETURNING 1;

-- name: purge_notifications
DELETE FROM notifications
WHERE id IN (SELECT id FROM notifications WHERE ended_at < ?1 ORDER BY ended_at, id LIMIT ?2)
RETURNING 1;

-- name: purge_untaken
-- Those of channels that no process has any longer.
DELETE FROM notifications
WHERE id IN (SELECT id FROM notifications WHERE next_at < ?1 LIMIT ?2)
RETURNING 1;

-- name: put_alert
INSERT INTO alerts (id, name, workspace, settings, paused, check_at, turn, incidents, created_at, created_by)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
ON CONFLICT (workspace, name) DO UPDATE
SET settings = ?4, paused = ?5, check_at = ?6, turn = turn + 1, created_at = ?9, created_by = ?10;

-- name: list_alerts
SELECT id, name, workspace, settings, paused, check_at, turn, incidents, created_at, created_by
FROM alerts
WHERE ?1 IN ('', workspace) AND ?2 IN ('', name)
ORDER BY workspace, name;

-- name: drop_alert
DELETE FROM alerts
WHERE workspace = ?1 AND name = ?2
RETURNING 1;

-- name: due_alerts
SELECT id, name, workspace, settings, paused, check_at, turn, incidents, created_at, created_by
FROM alerts
WHERE paused = 0 AND check_at <= ?1
ORDER BY check_at, id
LIMIT ?2;

-- name: take_alert
UPDATE alerts
SET check_at = ?2, turn = ?3
WHERE id = ?1;

-- name: next_alert
SELECT min(check_at)
FROM alerts
WHERE paused = 0;

-- name: settle_alert
UPDATE alerts
SET incidents = ?3
WHERE id = ?1 AND turn = ?2
RETURNING 1;

-- name: groups_with
-- Groups of runs that have some with these statuses.
SELECT workflow, version, queue, status
FROM run_counts
WHERE workspace = ?1 AND n > 0 AND status IN (SELECT value FROM json_each(?2)) AND ?3 IN ('', workflow);

-- name: find_failed
SELECT id, ended_at
FROM runs INDEXED BY runs_failed
WHERE workspace = ?1
    AND workflow = ?2
    AND version = ?3
    AND queue = ?4
    AND status = ?5
    AND status IN ('failed', 'timed_out')
    AND ended_at > ?6
    AND test = 0
ORDER BY ended_at, id
LIMIT ?7;

-- name: find_overdue
SELECT id, created_at
FROM runs INDEXED BY runs_group
WHERE workspace = ?1
    AND workflow = ?2
    AND version = ?3
    AND queue = ?4
    AND status = ?5
    AND created_at <= ?6
    AND test = 0
ORDER BY created_at, id
LIMIT ?7;

-- name: count_waiting
-- Runs that have not begun, without those that a worker drives at this moment.
SELECT
    (
        SELECT coalesce(sum(n), 0)
        FROM run_counts
        WHERE workspace = ?1 AND queue = ?2 AND status = 'pending'
    ) - (
        SELECT count(*)
        FROM tickets AS owned INDEXED BY tickets_owned
        CROSS JOIN runs ON runs.id = owned.run_id
        WHERE owned.owner IS NOT NULL AND owned.path = ''
            AND runs.workspace = ?1 AND runs.queue = ?2 AND runs.status = 'pending'
    );

-- name: live_groups
SELECT workflow, version, queue, status, n
FROM run_counts
WHERE workspace = ?1 AND n > 0 AND status IN ('pending', 'running', 'suspended') AND ?2 IN ('', workflow);

-- name: find_stuck_of_few
-- By looking at each live run of a group: whatever is older in the queue costs nothing.
SELECT runs.workflow, runs.id, iif(t.lease IS NULL, t.due_at, t.at) AS at
FROM runs INDEXED BY runs_group
CROSS JOIN tickets AS t ON t.run_id = runs.id
WHERE runs.workspace = ?1
    AND runs.workflow = ?2
    AND runs.version = ?3
    AND runs.queue = ?4
    AND runs.status = ?5
    AND runs.created_at <= ?6
    AND runs.test = 0
    AND t.held IS NULL
    AND iif(t.lease IS NULL, t.due_at, t.at) <= ?6;

-- name: find_silent
-- Runs that a worker has, without news since then: no more than workers have slots.
SELECT runs.workflow, runs.id, t.at
FROM tickets AS t INDEXED BY tickets_owned
CROSS JOIN runs ON runs.id = t.run_id
WHERE t.owner IS NOT NULL
    AND t.workspace = ?1
    AND t.at <= ?2
    AND t.held IS NULL
    AND runs.workflow = ?3
    AND runs.test = 0;

-- name: find_untaken_lanes
-- Runs with limits that are due since then, and that nobody has taken.
SELECT runs.workflow, runs.id, t.due_at
FROM tickets AS t INDEXED BY tickets_lane_due
CROSS JOIN runs ON runs.id = t.run_id
WHERE t.lease IS NULL AND t.held IS NULL AND t.losses < 2 AND t.lane <> ''
    AND t.due_at <= ?2
    AND t.workspace = ?1
    AND runs.workflow = ?3
    AND runs.test = 0
ORDER BY t.due_at
LIMIT ?4;

-- name: first_kind
SELECT queue, needs, rank
FROM tickets INDEXED BY tickets_open
WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = ''
ORDER BY queue, needs, rank
LIMIT 1;

-- name: next_kind
SELECT queue, needs, rank
FROM tickets INDEXED BY tickets_open
WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = ''
    AND (queue, needs, rank) > (?1, ?2, ?3)
ORDER BY queue, needs, rank
LIMIT 1;

-- name: find_untaken
-- Runs of one kind that are due since then, and that nobody has taken.
SELECT runs.workflow, runs.id, t.due_at
FROM tickets AS t INDEXED BY tickets_open
CROSS JOIN runs ON runs.id = t.run_id
WHERE t.lease IS NULL AND t.held IS NULL AND t.losses < 2 AND t.lane = ''
    AND t.queue = ?5
    AND t.needs = ?6
    AND t.rank = ?7
    AND t.due_at <= ?2
    AND t.workspace = ?1
    AND runs.workflow = ?3
    AND runs.test = 0
ORDER BY t.due_at
LIMIT ?4;
