-- Workers: their leases, and the tickets of those that died.

-- name: put_worker
INSERT INTO workers (id, name, queues, needs, lease_seconds, lease_until, boot, leaving)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, queues = excluded.queues, needs = excluded.needs,
    lease_seconds = excluded.lease_seconds, lease_until = excluded.lease_until, boot = excluded.boot,
    leaving = excluded.leaving;

-- name: beat
-- See heartbeat_trigger.sql. Returns everything the worker owns as one list.
UPDATE temp.beats
SET now = ?2, boot = ?3
WHERE id = ?1
RETURNING (
    SELECT json_group_array(json_array(owned.run_id, owned.path, owned.wakes, owned.is_held))
    FROM (
        SELECT run_id, path, wakes, path = '' AND ending = 0 AND EXISTS (
            SELECT 1
            FROM holds
            CROSS JOIN runs ON runs.id = tickets.run_id
            WHERE holds.held = 1 AND holds.workspace = tickets.workspace AND holds.name = CASE holds.kind
                WHEN 'workflow' THEN runs.workflow
                WHEN 'queue' THEN tickets.queue
                ELSE ''
            END
        ) AS is_held
        FROM tickets
        WHERE owner = ?1
        ORDER BY run_id, path
    ) AS owned
), (SELECT drain IS NOT NULL FROM workers WHERE id = ?1);

-- name: drain_worker
UPDATE workers
SET drain = ?2
WHERE id = ?1 AND drain IS NULL
RETURNING 1;

-- name: known_worker
SELECT 1
FROM workers
WHERE id = ?1;

-- name: delete_worker
DELETE FROM workers
WHERE id = ?1;

-- name: all_workers
SELECT id, name, queues, needs, lease_seconds, lease_until, boot, leaving, drain
FROM workers
ORDER BY rowid;

-- name: owned_by
SELECT run_id, path, wakes
FROM tickets
WHERE owner = ?1
ORDER BY run_id, path;

-- name: fleet
-- Everything that a reap needs: whether there is a lost ticket, one to be taken alone, and the workers.
SELECT
    EXISTS (
        SELECT 1
        FROM tickets INDEXED BY tickets_owned
        WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM workers)
    ),
    EXISTS (
        SELECT 1
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND due_at <= ?1
    )
    OR EXISTS (
        SELECT 1
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND due_at <= ?1
    ),
    coalesce(contact.since, 0.0), coalesce(contact.last, 0.0), coalesce(contact.boot, ''),
    workers.id, workers.name, workers.queues, workers.needs,
    workers.lease_seconds, workers.lease_until, workers.boot, workers.leaving, workers.drain
FROM (SELECT 1 AS id) AS one
LEFT JOIN contact ON contact.id = one.id
LEFT JOIN workers ON true
ORDER BY workers.rowid;

-- name: ownerless
-- Leased tickets whose worker has no row; reads only owned tickets.
SELECT run_id, path
FROM tickets INDEXED BY tickets_owned
WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM workers)
LIMIT ?1;

-- name: free_ticket
-- ?4 is 1 for a lost owner, 0 for one that left.
UPDATE tickets
SET lost_lease = CASE lost_lease WHEN '' THEN lease ELSE lost_lease END,
    owner = NULL, lease = NULL, losses = losses + ?4, due_at = min(due_at, ?3)
WHERE run_id = ?1 AND path = ?2;

-- name: solo_due
SELECT 1
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND due_at <= ?1
UNION ALL
SELECT 1
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND due_at <= ?1
LIMIT 1;
