-- Commits of owners. A whole batch is read at once, with its list as one JSON parameter; it is written with
-- one statement executed many times, which was faster than many rows in one statement (50 events: 0.16 ms
-- instead of 0.31 ms). Next to a busy event loop the two did not differ.

-- name: savepoint
SAVEPOINT member;

-- name: release
RELEASE member;

-- name: rollback_member
ROLLBACK TO member;

-- name: put_remote_ticket
-- The ticket of a remote step; opening it again replaces it together with its lease.
INSERT OR REPLACE INTO tickets (
    run_id, path, queue, needs, workspace, lane, priority, started, not_before, due_at, head, at, held
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, '', ?6, 0, ?7, ?7, ?8, ?7, (SELECT held FROM tickets WHERE run_id = ?1 AND path = '')
);

-- name: delete_ticket
DELETE FROM tickets
WHERE run_id = ?1 AND path = ?2;

-- name: fences
-- The columns that the fence check needs, for a whole batch.
SELECT run_id, lease, head, wakes, tickets.at, base, losses, lost_lease, workspace
FROM json_each(?1) AS wanted
CROSS JOIN tickets ON tickets.run_id = wanted.value AND tickets.path = '';

-- name: write_grown
-- The most common one. It names no column of an index or of its condition: SQLite would check all of the
-- queue's indexes whenever one is named, with three times the work, even if the value is the same.
UPDATE tickets
SET head = ?2, at = ?3, base = ?4
WHERE run_id = ?1 AND path = '';

-- name: write_continued
-- The owner continues. The values were computed from the row as read under the same write lock.
UPDATE tickets
SET head = ?2, at = ?3, base = ?4, losses = ?5, lost_lease = ?6
WHERE run_id = ?1 AND path = '';

-- name: write_parked
UPDATE tickets
SET head = ?2, at = ?3, base = ?4, losses = ?5, lost_lease = ?6, due_at = ?7, owner = NULL, lease = NULL
WHERE run_id = ?1 AND path = '';

-- name: park_run
UPDATE runs
SET status = ?2, where_at = ?3, started_at = coalesce(started_at, ?4)
WHERE id = ?1;

-- name: finish_run
UPDATE runs
SET status = ?2, output = ?3, error = ?4, where_at = ?5, started_at = coalesce(started_at, ?6), ended_at = ?7
WHERE id = ?1;

-- name: delete_tickets
DELETE FROM tickets
WHERE run_id = ?1;

-- name: delete_waits
DELETE FROM waits
WHERE run_id = ?1;

-- name: delete_inbox
DELETE FROM inbox
WHERE run_id = ?1;

-- name: consume
DELETE FROM inbox
WHERE run_id = ?1 AND key = ?2;

-- name: put_wait
INSERT OR REPLACE INTO waits (
    run_id, path, kind, name, key, since, workspace, what, seq, opened_at, due_at
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put_decided
INSERT OR REPLACE INTO decided_approvals (run_id, path, name, opened, received, ended, workspace, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: delete_wait
DELETE FROM waits
WHERE run_id = ?1 AND path = ?2;

-- name: own_events
-- To recognise a commit that is sent again: the rows at its seqs, and the last Claimed before their end.
SELECT seq, kind, path, attempt, at, payload
FROM events
WHERE run_id = ?1 AND seq > ?2 AND seq <= ?3
UNION
SELECT seq, kind, path, attempt, at, payload
FROM (
    SELECT seq, kind, path, attempt, at, payload
    FROM events
    WHERE run_id = ?1 AND seq <= ?3 AND kind = 'claimed'
    ORDER BY seq DESC
    LIMIT 1
)
ORDER BY seq;

-- name: count_figures
UPDATE runs
SET done = CASE WHEN ?2 THEN ?3 ELSE done END,
    total = CASE WHEN ?2 THEN ?4 ELSE total END,
    input_tokens = input_tokens + ?5,
    output_tokens = output_tokens + ?6,
    cost = cost + ?7
WHERE id = ?1;
