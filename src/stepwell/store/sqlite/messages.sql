-- Messages to runs, and broadcast events.

-- name: targets
-- The tickets of the messages' runs.
SELECT run_id, wakes, not_before, due_at
FROM json_each(?1) AS wanted
CROSS JOIN tickets ON tickets.run_id = wanted.value AND tickets.path = '';

-- name: known_runs
SELECT runs.id
FROM json_each(?1) AS wanted
CROSS JOIN runs ON runs.id = wanted.value;

-- name: known_messages
SELECT run_id, inbox.key, payload
FROM json_each(?1) AS wanted
CROSS JOIN inbox ON inbox.run_id = wanted.value ->> 0 AND inbox.key = wanted.value ->> 1;

-- name: open_waits
SELECT run_id, waits.path
FROM json_each(?1) AS wanted
CROSS JOIN waits
    ON waits.run_id = wanted.value ->> 0 AND waits.path = wanted.value ->> 1 AND waits.kind = 'decision';

-- name: count_inbox
SELECT count(*)
FROM inbox
WHERE run_id = ?1;

-- name: insert_message
INSERT INTO inbox (run_id, key, n, kind, name, payload, at, sender)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: wake_ticket
UPDATE tickets
SET wakes = ?2, due_at = ?3
WHERE run_id = ?1 AND path = '';

-- name: read_inbox
SELECT key, n, kind, name, payload, at, sender
FROM inbox
WHERE run_id = ?1 AND n > ?2
ORDER BY n
LIMIT ?3;

-- name: insert_published
-- At least a microsecond after the last event of its name.
INSERT INTO published_events (id, name, key, payload, at, workspace, sender, hops)
VALUES (
    ?1, ?2, ?3, ?4,
    max(?5, coalesce((SELECT max(at) FROM published_events WHERE workspace = ?6 AND name = ?2) + 1e-6, ?5)),
    ?6, ?7, ?8
)
ON CONFLICT DO NOTHING;

-- name: insert_fan_out
INSERT OR REPLACE INTO tickets (
    run_id, path, queue, needs, workspace, lane, priority, started, not_before, due_at, head, at
)
VALUES (?1, '', '', ?2, '', '', 0, 0, ?3, ?3, 0, ?3);

-- name: published_event
SELECT id, name, key, payload, at, workspace, sender, hops
FROM published_events
WHERE id = ?1;

-- name: published
SELECT id, name, key, payload, at, workspace, sender, hops
FROM published_events
WHERE workspace = ?4 AND name = ?1 AND at >= ?2
ORDER BY at
LIMIT ?3;

-- name: published_by_key
-- For a key among thousands: reads only its own events, not all since the run began to wait.
SELECT id, name, key, payload, at, workspace, sender, hops
FROM published_events
WHERE workspace = ?4 AND name = ?1 AND at >= ?2 AND key = ?5 AND key <> ''
ORDER BY at
LIMIT ?3;

-- name: matching_waits
-- A chunk of the runs that wait for an event, after the last run of the previous chunk.
SELECT run_id, since, path
FROM waits
WHERE kind = 'event' AND workspace = ?6 AND name = ?1 AND key = ?2 AND run_id > ?3 AND since <= ?4
ORDER BY run_id, since, path
LIMIT ?5;

-- name: ticket_lease
SELECT lease
FROM tickets
WHERE run_id = ?1 AND path = ?2;
