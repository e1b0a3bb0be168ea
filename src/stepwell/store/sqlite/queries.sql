-- Every statement of the SQLite store. Lists come in as one JSON parameter where a whole batch is read
-- at once; writes of a batch are one statement executed many times: that was faster than many rows in
-- one statement (50 events: 0.16 ms against 0.31 ms). Beside a busy event loop the two did not differ.

-- name: begin
-- Takes the write lock at once: a transaction that began by reading could not get it later.
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: sync_at_once
-- A commit waits for the disk, with all that was committed before it.
PRAGMA synchronous = FULL;

-- name: sync_later
PRAGMA synchronous = NORMAL;

-- name: rollback
ROLLBACK;

-- name: savepoint
SAVEPOINT member;

-- name: release
RELEASE member;

-- name: rollback_member
ROLLBACK TO member;

-- name: known_keys
-- Which of these start keys are taken. Read under the write lock, so nobody can take one meanwhile.
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
    queue, lane, priority, parent, parent_path, root, tags, "trigger", created_at, test
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_event
-- No ON CONFLICT: a seq that is taken is a mistake of ours and must not pass silently.
INSERT INTO events (run_id, seq, kind, path, attempt, at, payload)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: insert_ticket
-- A run's own ticket: fresh, started when a failed run is retried, or its starter's from the beginning.
INSERT INTO tickets (
    run_id, path, queue, needs, workspace, lane, priority, started, not_before, due_at, head, base, at,
    owner, lease
)
VALUES (?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: may_own
-- Which of these workers may own what they start: they are known, and no limit must be asked first.
SELECT workers.id
FROM json_each(?1) AS wanted
CROSS JOIN workers ON workers.id = wanted.value
WHERE NOT EXISTS (SELECT 1 FROM limits WHERE most IS NOT NULL);

-- name: put_remote_ticket
-- Of a remote step; opening it again replaces it, and its lease with it.
INSERT OR REPLACE INTO tickets (
    run_id, path, queue, needs, workspace, lane, priority, started, not_before, due_at, head, at
)
VALUES (?1, ?2, ?3, ?4, ?5, '', ?6, 0, ?7, ?7, ?8, ?7);

-- name: delete_ticket
DELETE FROM tickets
WHERE run_id = ?1 AND path = ?2;

-- name: fences
-- What a verdict needs, of a whole batch.
SELECT run_id, lease, head, wakes, tickets.at, base, losses, lost_lease, workspace
FROM json_each(?1) AS wanted
CROSS JOIN tickets ON tickets.run_id = wanted.value AND tickets.path = '';

-- name: write_kept
-- The owner goes on. The values were computed from the row as read under the same write lock.
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

-- name: retry_run
UPDATE runs
SET status = 'running', output = NULL, error = NULL, ended_at = NULL
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
INSERT OR REPLACE INTO waits (run_id, path, kind, name, key, since)
VALUES (?, ?, ?, ?, ?, ?);

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

-- name: targets
-- The tickets that messages are for.
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
CROSS JOIN waits ON waits.run_id = wanted.value ->> 0 AND waits.path = wanted.value ->> 1;

-- name: count_inbox
SELECT count(*)
FROM inbox
WHERE run_id = ?1;

-- name: insert_message
INSERT INTO inbox (run_id, key, n, kind, name, payload, at)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: wake_ticket
UPDATE tickets
SET wakes = ?2, due_at = ?3
WHERE run_id = ?1 AND path = '';

-- name: run_to_cancel
SELECT runs.parent, runs.parent_path, t.run_id, t.started, t.ending, t.head, t.at
FROM runs
LEFT JOIN tickets AS t ON t.run_id = runs.id AND t.path = ''
WHERE runs.id = ?1;

-- name: mark_ending
UPDATE tickets
SET ending = 1, priority = ?2
WHERE run_id = ?1 AND path = '';

-- name: inbox_keys
SELECT key
FROM inbox
WHERE run_id = ?1
ORDER BY n;

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

-- name: insert_published
-- Behind the last one of its name, a microsecond at least.
INSERT INTO published_events (id, name, key, payload, at)
VALUES (
    ?1, ?2, ?3, ?4, max(?5, coalesce((SELECT max(at) FROM published_events WHERE name = ?2) + 1e-6, ?5))
)
ON CONFLICT DO NOTHING;

-- name: insert_fan_out
INSERT OR REPLACE INTO tickets (
    run_id, path, queue, needs, workspace, lane, priority, started, not_before, due_at, head, at
)
VALUES (?1, '', '', ?2, '', '', 0, 0, ?3, ?3, 0, ?3);

-- name: published_event
SELECT id, name, key, payload, at
FROM published_events
WHERE id = ?1;

-- name: published
SELECT id, name, key, payload, at
FROM published_events
WHERE name = ?1 AND at >= ?2
ORDER BY at
LIMIT ?3;

-- name: published_by_key
-- For one order among thousands: not all that were published since it began to wait.
SELECT id, name, key, payload, at
FROM published_events
WHERE name = ?1 AND at >= ?2 AND key = ?4 AND key <> ''
ORDER BY at
LIMIT ?3;

-- name: matching_waits
-- A chunk of the runs that wait for an event, after the last run of the chunk before.
SELECT run_id, since, path
FROM waits
WHERE kind = 'event' AND name = ?1 AND key = ?2 AND run_id > ?3 AND since <= ?4
ORDER BY run_id, since, path
LIMIT ?5;

-- name: ticket_lease
SELECT lease
FROM tickets
WHERE run_id = ?1 AND path = ?2;

-- name: open_groups
-- The groups of tickets that a claim could take, each with its earliest due time. Leaps from group to
-- group along the index: the cost is groups, not tickets (0.06 ms with 110,000 of them). As one leap over
-- (needs, rank) it read the backlog: SQLite bounds such a pair by its first column only (90 to 250 ms).
-- The first row has no rank: it is there when the worker is, and its last column says whether these leases
-- took something when they were asked for before; the next, whether tickets of lanes are there; the last,
-- whether limits were set.
WITH RECURSIVE
kinds (queue, needs) AS (
    SELECT wanted.value, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane = '' AND queue = wanted.value
    )
    FROM json_each(?1) AS wanted
    UNION ALL
    SELECT kinds.queue, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane = '' AND queue = kinds.queue AND needs > kinds.needs
    )
    FROM kinds
    WHERE kinds.needs IS NOT NULL
),
ranks (queue, needs, rank) AS (
    SELECT kinds.queue, kinds.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane = '' AND queue = kinds.queue AND needs = kinds.needs
    )
    FROM kinds
    WHERE kinds.needs IN (SELECT value FROM json_each(?2))
    UNION ALL
    SELECT ranks.queue, ranks.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane = '' AND queue = ranks.queue AND needs = ranks.needs
            AND rank > ranks.rank
    )
    FROM ranks
    WHERE ranks.rank IS NOT NULL
)
SELECT NULL AS queue, NULL AS needs, NULL AS rank, EXISTS (
    SELECT 1
    FROM json_each(?4) AS wanted
    CROSS JOIN tickets ON tickets.owner = ?3 AND tickets.lease = wanted.value
) AS due_at, EXISTS (
    SELECT 1
    FROM tickets
    WHERE lease IS NULL AND losses < 2 AND lane <> '' AND lane > ''
) AS lanes, EXISTS (SELECT 1 FROM limits WHERE most IS NOT NULL AND kind <> 'key') AS limits
FROM workers
WHERE id = ?3
UNION ALL
SELECT ranks.queue, ranks.needs, ranks.rank, (
    SELECT min(due_at)
    FROM tickets
    WHERE lease IS NULL AND losses < 2 AND lane = '' AND queue = ranks.queue AND needs = ranks.needs
        AND rank = ranks.rank
), NULL AS lanes, NULL AS limits
FROM ranks
WHERE ranks.rank IS NOT NULL
ORDER BY rank;

-- name: solo_groups
-- The same for tickets that lost two owners.
WITH RECURSIVE
kinds (queue, needs) AS (
    SELECT wanted.value, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane = '' AND queue = wanted.value
    )
    FROM json_each(?1) AS wanted
    UNION ALL
    SELECT kinds.queue, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane = '' AND queue = kinds.queue AND needs > kinds.needs
    )
    FROM kinds
    WHERE kinds.needs IS NOT NULL
),
ranks (queue, needs, rank) AS (
    SELECT kinds.queue, kinds.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane = '' AND queue = kinds.queue AND needs = kinds.needs
    )
    FROM kinds
    WHERE kinds.needs IN (SELECT value FROM json_each(?2))
    UNION ALL
    SELECT ranks.queue, ranks.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane = '' AND queue = ranks.queue AND needs = ranks.needs
            AND rank > ranks.rank
    )
    FROM ranks
    WHERE ranks.rank IS NOT NULL
)
SELECT NULL AS queue, NULL AS needs, NULL AS rank, EXISTS (
    SELECT 1
    FROM json_each(?4) AS wanted
    CROSS JOIN tickets ON tickets.owner = ?3 AND tickets.lease = wanted.value
) AS due_at, EXISTS (
    SELECT 1
    FROM tickets
    WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND lane > ''
) AS lanes, EXISTS (SELECT 1 FROM limits WHERE most IS NOT NULL AND kind <> 'key') AS limits
FROM workers
WHERE id = ?3
UNION ALL
SELECT ranks.queue, ranks.needs, ranks.rank, (
    SELECT min(due_at)
    FROM tickets
    WHERE lease IS NULL AND losses >= 2 AND lane = '' AND queue = ranks.queue AND needs = ranks.needs
        AND rank = ranks.rank
), NULL AS lanes, NULL AS limits
FROM ranks
WHERE ranks.rank IS NOT NULL
ORDER BY rank;

-- name: open_tickets
-- The first of one group, one more than wanted: it tells when the group is due next.
SELECT due_at, run_id, path, needs, head, wakes, losses, lost_lease, base, 0, rank
FROM tickets
WHERE lease IS NULL AND losses < 2 AND lane = '' AND queue = ?1 AND needs = ?2 AND rank = ?3
ORDER BY due_at, run_id, path
LIMIT ?4;

-- name: solo_tickets
SELECT due_at, run_id, path, needs, head, wakes, losses, lost_lease, base, 0, rank
FROM tickets
WHERE lease IS NULL AND losses >= 2 AND lane = '' AND queue = ?1 AND needs = ?2 AND rank = ?3
ORDER BY due_at, run_id, path
LIMIT ?4;

-- name: solo_due
SELECT 1
FROM tickets
WHERE lease IS NULL AND losses >= 2 AND lane = '' AND due_at <= ?1
UNION ALL
SELECT 1
FROM tickets
WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND due_at <= ?1
LIMIT 1;

-- name: open_lanes
-- Lanes with tickets that nobody has, the kinds of work in them, and their ranks: leaps along the index.
WITH RECURSIVE
lanes (lane) AS (
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND losses < 2 AND lane <> '')
    UNION ALL
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND losses < 2 AND lane <> '' AND lane > lanes.lane)
    FROM lanes
    WHERE lanes.lane IS NOT NULL
),
ranks (lane, needs, rank) AS (
    SELECT lanes.lane, wanted.value, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane <> '' AND lane = lanes.lane AND needs = wanted.value
    )
    FROM lanes
    CROSS JOIN json_each(?1) AS wanted
    WHERE lanes.lane IS NOT NULL
    UNION ALL
    SELECT ranks.lane, ranks.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane <> '' AND lane = ranks.lane AND needs = ranks.needs
            AND rank > ranks.rank
    )
    FROM ranks
    WHERE ranks.rank IS NOT NULL
)
SELECT ranks.lane, ranks.needs, ranks.rank
FROM ranks
WHERE ranks.rank IS NOT NULL;

-- name: open_lane_tickets
-- The first of one group, due or not.
SELECT
    lane, started, priority, ending,
    due_at, run_id, path, needs, head, wakes, losses, lost_lease, base, 1, rank
FROM tickets
WHERE lease IS NULL AND losses < 2 AND lane <> '' AND lane = ?1 AND needs = ?2 AND rank = ?3
ORDER BY due_at, run_id
LIMIT ?4;

-- name: solo_lanes
-- Lanes with tickets that nobody has, the kinds of work in them, and their ranks: leaps along the index.
WITH RECURSIVE
lanes (lane) AS (
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND losses >= 2 AND lane <> '')
    UNION ALL
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND lane > lanes.lane)
    FROM lanes
    WHERE lanes.lane IS NOT NULL
),
ranks (lane, needs, rank) AS (
    SELECT lanes.lane, wanted.value, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND lane = lanes.lane AND needs = wanted.value
    )
    FROM lanes
    CROSS JOIN json_each(?1) AS wanted
    WHERE lanes.lane IS NOT NULL
    UNION ALL
    SELECT ranks.lane, ranks.needs, (
        SELECT min(rank)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND lane = ranks.lane AND needs = ranks.needs
            AND rank > ranks.rank
    )
    FROM ranks
    WHERE ranks.rank IS NOT NULL
)
SELECT ranks.lane, ranks.needs, ranks.rank
FROM ranks
WHERE ranks.rank IS NOT NULL;

-- name: solo_lane_tickets
-- The first of one group, due or not.
SELECT
    lane, started, priority, ending,
    due_at, run_id, path, needs, head, wakes, losses, lost_lease, base, 1, rank
FROM tickets
WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND lane = ?1 AND needs = ?2 AND rank = ?3
ORDER BY due_at, run_id
LIMIT ?4;

-- name: open_without_lane
-- Runs that bring no limit, of one kind of work, in the order of their claim.
SELECT run_id, runs.workspace, workflow, tickets.queue, parent <> '', needs
FROM tickets
CROSS JOIN runs ON runs.id = tickets.run_id
WHERE lease IS NULL AND losses < 2 AND tickets.lane = '' AND path = '' AND tickets.queue = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id
LIMIT ?3;

-- name: solo_without_lane
SELECT run_id, runs.workspace, workflow, tickets.queue, parent <> '', needs
FROM tickets
CROSS JOIN runs ON runs.id = tickets.run_id
WHERE lease IS NULL AND losses >= 2 AND tickets.lane = '' AND path = '' AND tickets.queue = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id
LIMIT ?3;

-- name: owned_without_lane
-- No more rows than there are slots of workers.
SELECT run_id, runs.workspace, workflow, tickets.queue, parent <> '', needs
FROM tickets
CROSS JOIN runs ON runs.id = tickets.run_id
WHERE owner IS NOT NULL AND tickets.lane = '' AND path = '';

-- name: give_lane
UPDATE tickets
SET lane = ?2
WHERE run_id = ?1 AND path = '';

-- name: leased_lanes
-- No more rows than the limits allow.
SELECT lane, count(*)
FROM tickets
WHERE lease IS NOT NULL AND lane <> ''
GROUP BY lane;

-- name: any_due_in_lanes
-- Does a ticket of a lane wait for somebody?
SELECT 1
FROM tickets
WHERE lease IS NULL AND losses < 2 AND lane <> '' AND due_at <= ?1
LIMIT 1;

-- name: resting_lanes
-- Reads every suspended run of a lane: only asked for where a limit holds for the whole run.
SELECT lane, count(*)
FROM tickets
WHERE lease IS NULL AND lane <> '' AND started = 1
GROUP BY lane;

-- name: read_limits
SELECT kind, workspace, name, most, hold
FROM limits
ORDER BY kind, workspace, name;

-- name: put_limit
INSERT OR REPLACE INTO limits (kind, workspace, name, most, hold)
VALUES (?1, ?2, ?3, ?4, ?5);

-- name: drop_limit
DELETE FROM limits
WHERE kind = ?1 AND workspace = ?2 AND name = ?3
RETURNING kind;

-- name: taken_before
-- What these leases took when they were asked for the first time and the answer got lost.
SELECT due_at, run_id, tickets.path, needs, head, wakes, losses, lost_lease, base, lane <> '', rank, lease
FROM json_each(?2) AS wanted
CROSS JOIN tickets ON tickets.owner = ?1 AND tickets.lease = wanted.value;

-- name: take_ticket
UPDATE tickets
SET owner = ?3, lease = ?4, started = 1
WHERE run_id = ?1 AND path = ?2;

-- name: claimed_logs
-- The logs of a whole claim, each from its base on (a remote step: only the event that scheduled it).
SELECT wanted.key, seq, kind, events.path, attempt, at, payload
FROM json_each(?1) AS wanted
CROSS JOIN events
    ON events.run_id = wanted.value ->> 0
    AND events.seq BETWEEN wanted.value ->> 1 AND wanted.value ->> 2;

-- name: read_inbox
SELECT key, n, kind, name, payload, at
FROM inbox
WHERE run_id = ?1 AND n > ?2
ORDER BY n
LIMIT ?3;

-- name: put_worker
INSERT INTO workers (id, name, queues, needs, lease_seconds, lease_until, boot, leaving)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET name = excluded.name, queues = excluded.queues, needs = excluded.needs,
    lease_seconds = excluded.lease_seconds, lease_until = excluded.lease_until, boot = excluded.boot,
    leaving = excluded.leaving;

-- name: beat
-- See beats.sql. What the worker owns comes back as one list.
UPDATE temp.beats
SET now = ?2, boot = ?3
WHERE id = ?1
RETURNING (
    SELECT json_group_array(json_array(owned.run_id, owned.path, owned.wakes))
    FROM (
        SELECT run_id, path, wakes
        FROM tickets
        WHERE owner = ?1
        ORDER BY run_id, path
    ) AS owned
);

-- name: delete_worker
DELETE FROM workers
WHERE id = ?1;

-- name: all_workers
SELECT id, name, queues, needs, lease_seconds, lease_until, boot, leaving
FROM workers
ORDER BY rowid;

-- name: owned_by
SELECT run_id, path, wakes
FROM tickets
WHERE owner = ?1
ORDER BY run_id, path;

-- name: fleet
-- All that a sweep must know, in one look: is there a lost ticket, one to be taken alone, and the workers.
SELECT
    EXISTS (
        SELECT 1
        FROM tickets INDEXED BY tickets_owned
        WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM workers)
    ),
    EXISTS (
        SELECT 1
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane = '' AND due_at <= ?1
    )
    OR EXISTS (
        SELECT 1
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND due_at <= ?1
    ),
    coalesce(contact.since, 0.0), coalesce(contact.last, 0.0), coalesce(contact.boot, ''),
    workers.id, workers.name, workers.queues, workers.needs,
    workers.lease_seconds, workers.lease_until, workers.boot, workers.leaving
FROM (SELECT 1 AS id) AS one
LEFT JOIN contact ON contact.id = one.id
LEFT JOIN workers ON true
ORDER BY workers.rowid;

-- name: ownerless
-- Leased tickets whose worker has no row; walks the owned ones only.
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

-- name: read_log
SELECT seq, kind, path, attempt, at, payload
FROM events
WHERE run_id = ?1 AND seq > ?2
ORDER BY seq
LIMIT ?3;

-- name: read_log_end
SELECT seq, kind, path, attempt, at, payload
FROM events
WHERE run_id = ?1
ORDER BY seq DESC
LIMIT ?2;

-- name: read_run
SELECT
    runs.id, runs.workspace, runs.workflow, runs.version, runs.kind,
    CASE WHEN tickets.lease IS NULL THEN runs.status ELSE 'running' END AS status,
    runs.input, runs.output, runs.error, runs.key, runs.parent, runs.root, runs.tags, runs."trigger",
    runs.where_at, runs.created_at, runs.started_at, runs.ended_at, runs.test
FROM runs
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = ''
WHERE runs.id = ?1;

-- name: find_run
SELECT id
FROM runs
WHERE workspace = ?1 AND key = ?2 AND key <> '';

-- name: list_runs
-- Newest first along the primary key; statuses are those shown.
SELECT
    runs.id, runs.workspace, runs.workflow, runs.version, runs.kind,
    CASE WHEN tickets.lease IS NULL THEN runs.status ELSE 'running' END AS shown,
    runs.input, runs.output, runs.error, runs.key, runs.parent, runs.root, runs.tags, runs."trigger",
    runs.where_at, runs.created_at, runs.started_at, runs.ended_at, runs.test
FROM runs
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = ''
WHERE +runs.workspace = :workspace  -- the + keeps it from walking the keys instead
    AND (:workflow = '' OR runs.workflow = :workflow)
    AND (:statuses = '[]' OR shown IN (SELECT value FROM json_each(:statuses)))
ORDER BY runs.id DESC
LIMIT :limit;

-- name: list_runs_before
-- The same from a given run on, as a bound of the index.
SELECT
    runs.id, runs.workspace, runs.workflow, runs.version, runs.kind,
    CASE WHEN tickets.lease IS NULL THEN runs.status ELSE 'running' END AS shown,
    runs.input, runs.output, runs.error, runs.key, runs.parent, runs.root, runs.tags, runs."trigger",
    runs.where_at, runs.created_at, runs.started_at, runs.ended_at, runs.test
FROM runs
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = ''
WHERE runs.id < :before
    AND +runs.workspace = :workspace
    AND (:workflow = '' OR runs.workflow = :workflow)
    AND (:statuses = '[]' OR shown IN (SELECT value FROM json_each(:statuses)))
ORDER BY runs.id DESC
LIMIT :limit;

-- name: list_runs_narrow
-- By key or parent: few rows, found by their own indexes.
SELECT
    runs.id, runs.workspace, runs.workflow, runs.version, runs.kind,
    CASE WHEN tickets.lease IS NULL THEN runs.status ELSE 'running' END AS shown,
    runs.input, runs.output, runs.error, runs.key, runs.parent, runs.root, runs.tags, runs."trigger",
    runs.where_at, runs.created_at, runs.started_at, runs.ended_at, runs.test
FROM (
    SELECT id FROM runs WHERE workspace = :workspace AND key = :key AND key <> ''
    UNION
    SELECT id FROM runs WHERE parent = :parent AND parent <> '' AND :key = ''
) AS chosen
CROSS JOIN runs ON runs.id = chosen.id
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = ''
WHERE runs.workspace = :workspace
    AND (:parent = '' OR runs.parent = :parent)
    AND (:before = '' OR runs.id < :before)
    AND (:workflow = '' OR runs.workflow = :workflow)
    AND (:statuses = '[]' OR shown IN (SELECT value FROM json_each(:statuses)))
ORDER BY runs.id DESC
LIMIT :limit;

-- name: read_tickets
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at,
    coalesce(owner, '') AS owner, coalesce(lease, '') AS lease, head, wakes, losses, lane
FROM tickets
WHERE run_id = ?1
ORDER BY path;

-- name: other_kinds
-- Kinds of work of these queues that nobody has in hand and these needs do not cover, each with its lane; ''
-- stands for all tickets without one. Leaps along the indexes of the queue, as a claim does.
WITH RECURSIVE
open (queue, needs) AS (
    SELECT wanted.value, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane = '' AND queue = wanted.value
    )
    FROM json_each(?1) AS wanted
    UNION ALL
    SELECT open.queue, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane = '' AND queue = open.queue AND needs > open.needs
    )
    FROM open
    WHERE open.needs IS NOT NULL
),
solo (queue, needs) AS (
    SELECT wanted.value, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane = '' AND queue = wanted.value
    )
    FROM json_each(?1) AS wanted
    UNION ALL
    SELECT solo.queue, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane = '' AND queue = solo.queue AND needs > solo.needs
    )
    FROM solo
    WHERE solo.needs IS NOT NULL
),
lanes (lane) AS (
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND losses < 2 AND lane <> '')
    UNION ALL
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND losses < 2 AND lane <> '' AND lane > lanes.lane)
    FROM lanes
    WHERE lanes.lane IS NOT NULL
),
open_lanes (lane, needs) AS (
    SELECT lanes.lane, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane <> '' AND lane = lanes.lane
    )
    FROM lanes
    WHERE lanes.lane IS NOT NULL
    UNION ALL
    SELECT open_lanes.lane, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses < 2 AND lane <> '' AND lane = open_lanes.lane
            AND needs > open_lanes.needs
    )
    FROM open_lanes
    WHERE open_lanes.needs IS NOT NULL
),
solo_lanes (lane) AS (
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND losses >= 2 AND lane <> '')
    UNION ALL
    SELECT (
        SELECT min(lane) FROM tickets WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND lane > solo_lanes.lane
    )
    FROM solo_lanes
    WHERE solo_lanes.lane IS NOT NULL
),
solo_lane_kinds (lane, needs) AS (
    SELECT solo_lanes.lane, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND lane = solo_lanes.lane
    )
    FROM solo_lanes
    WHERE solo_lanes.lane IS NOT NULL
    UNION ALL
    SELECT solo_lane_kinds.lane, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND lane = solo_lane_kinds.lane
            AND needs > solo_lane_kinds.needs
    )
    FROM solo_lane_kinds
    WHERE solo_lane_kinds.needs IS NOT NULL
),
kinds (solo, lane, queue, needs) AS (
    SELECT 0, '', queue, needs FROM open
    UNION ALL
    SELECT 1, '', queue, needs FROM solo
    UNION ALL
    SELECT 0, lane, '', needs FROM open_lanes
    UNION ALL
    SELECT 1, lane, '', needs FROM solo_lane_kinds
)
SELECT solo, lane, queue, needs
FROM kinds
WHERE needs IS NOT NULL AND needs NOT IN (SELECT value FROM json_each(?2));

-- name: first_open
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at, '' AS owner, '' AS lease, head, wakes,
    losses, lane
FROM tickets
WHERE lease IS NULL AND losses < 2 AND lane = '' AND queue = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id, path
LIMIT 1;

-- name: first_solo
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at, '' AS owner, '' AS lease, head, wakes,
    losses, lane
FROM tickets
WHERE lease IS NULL AND losses >= 2 AND lane = '' AND queue = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id, path
LIMIT 1;

-- name: first_open_in_lane
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at, '' AS owner, '' AS lease, head, wakes,
    losses, lane
FROM tickets
WHERE lease IS NULL AND losses < 2 AND lane <> '' AND lane = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id
LIMIT 1;

-- name: first_solo_in_lane
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at, '' AS owner, '' AS lease, head, wakes,
    losses, lane
FROM tickets
WHERE lease IS NULL AND losses >= 2 AND lane <> '' AND lane = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id
LIMIT 1;

-- name: reroute
UPDATE tickets
SET needs = ?3
WHERE run_id = ?1 AND path = '' AND needs = ?2 AND lease IS NULL
RETURNING 1;

-- name: delete_definition
-- Only when it differs: what did not change keeps its place in the order.
DELETE FROM definitions
WHERE workspace = ?1 AND name = ?2 AND version = ?3
    AND (kind, hash, body, input_schema, options) IS NOT (?4, ?5, ?6, ?7, ?8);

-- name: insert_definition
INSERT INTO definitions (workspace, name, version, kind, hash, body, input_schema, options)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: drop_definitions
DELETE FROM definitions
WHERE workspace = ?1 AND name IN (SELECT value FROM json_each(?2))
RETURNING version;

-- name: read_definition
SELECT name, version, kind, hash, body, input_schema, options, workspace
FROM definitions
WHERE workspace = ?1 AND name = ?2 AND (?3 = '' OR version = ?3)
ORDER BY n DESC
LIMIT 1;

-- name: list_definitions
SELECT name, version, kind, hash, body, input_schema, options, workspace
FROM definitions
WHERE workspace = ?1
ORDER BY n;

-- name: begin_read
-- Several statements that see one moment.
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
    priority, parent, parent_path, root, tags, "trigger", where_at, created_at, started_at, ended_at, test
FROM runs
WHERE id = ?1;

-- name: copy_tickets
SELECT path, queue, needs, priority, started, ending, not_before, due_at, head, base, at, wakes
FROM tickets
WHERE run_id = ?1
ORDER BY path;

-- name: copy_waits
SELECT path, kind, name, key, since
FROM waits
WHERE run_id = ?1
ORDER BY path;

-- name: runs_in_the_way
-- Of runs to be brought back: those whose id or key is there.
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
    priority, parent, parent_path, root, tags, "trigger", where_at, created_at, started_at, ended_at, test
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: restore_ticket
INSERT INTO tickets (
    run_id, workspace, lane, path, queue, needs, priority, started, ending, not_before, due_at, head, base,
    at, wakes
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: run_to_remove
SELECT EXISTS (SELECT 1 FROM runs AS above WHERE above.id = runs.parent) AS is_child
FROM runs
WHERE id = ?1;

-- name: tree_ends
-- Of each tree: its runs, and when they ended (NULL: they live). The tree's root comes with each.
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
-- The next runs by age of birth, and which of them have nothing above.
SELECT
    runs.id, runs.created_at, runs.ended_at,
    NOT EXISTS (SELECT 1 FROM runs AS above WHERE above.id = runs.parent) AS is_root
FROM runs
WHERE runs.id > ?1
ORDER BY runs.id
LIMIT ?2;

-- name: old_events
-- Broadcast events from before a time, of which nobody must be told any more and that no run may still ask
-- for: from name to name along the index, of each up to the first that a wait for any key holds back.
WITH RECURSIVE names (name) AS (
    SELECT (SELECT min(name) FROM published_events)
    UNION ALL
    SELECT (SELECT min(name) FROM published_events WHERE name > names.name)
    FROM names
    WHERE names.name IS NOT NULL
)
SELECT old.id
FROM names
CROSS JOIN published_events AS old
    ON old.name = names.name
        AND old.at < min(
            ?1,
            coalesce(
                (
                    SELECT min(since)
                    FROM waits
                    WHERE kind IN ('event', 'cursor') AND waits.name = names.name AND key = ''
                ),
                ?1
            )
        )
WHERE NOT EXISTS (SELECT 1 FROM tickets WHERE run_id = old.id AND path = '')
    AND NOT EXISTS (
        SELECT 1
        FROM waits
        WHERE kind IN ('event', 'cursor') AND waits.name = old.name AND waits.key = old.key AND since <= old.at
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

-- name: read_windows
SELECT start_windows.name, start_windows.seconds, start_windows.starts
FROM json_each(?1) AS wanted
CROSS JOIN start_windows
    ON start_windows.name = wanted.value ->> 0 AND start_windows.seconds = wanted.value ->> 1;

-- name: put_window
INSERT OR REPLACE INTO start_windows (name, seconds, starts, until)
VALUES (?, ?, ?, ?);

-- name: drop_windows
-- A few that count nothing any more: each start that makes one takes away more than one.
DELETE FROM start_windows
WHERE (name, seconds) IN (
    SELECT w.name, w.seconds
    FROM start_windows AS w
    WHERE w.until < ?1
    ORDER BY w.until
    LIMIT 10
);

-- name: read_codec_check
SELECT value
FROM codec_check;

-- name: write_codec_check
-- The first, or in the place of the one that was read.
INSERT INTO codec_check (id, value)
SELECT 1, ?1
WHERE true
ON CONFLICT (id) DO UPDATE
SET value = excluded.value
WHERE codec_check.value = ?2
RETURNING 1;
