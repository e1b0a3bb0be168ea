-- What operators ask of a database.

-- name: count_tables
SELECT 'runs', (SELECT count(*) FROM runs)
UNION ALL
SELECT 'unfinished runs', (
    SELECT count(*) FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled', 'timed_out')
)
UNION ALL
SELECT 'events', (SELECT count(*) FROM events)
UNION ALL
SELECT 'messages', (SELECT count(*) FROM inbox)
UNION ALL
SELECT 'waits', (SELECT count(*) FROM waits WHERE kind <> 'cursor')
UNION ALL
SELECT 'log lines of steps', (SELECT count(*) FROM step_logs)
UNION ALL
SELECT 'broadcast events', (SELECT count(*) FROM published_events)
UNION ALL
SELECT 'definitions', (SELECT count(*) FROM definitions)
UNION ALL
SELECT 'credentials', (SELECT count(*) FROM credentials)
UNION ALL
SELECT 'audit entries', (SELECT count(*) FROM audit)
UNION ALL
SELECT 'secrets', (SELECT count(*) FROM secrets)
UNION ALL
SELECT 'records', (SELECT coalesce(sum(records), 0) FROM collections);

-- name: gaps
-- The seqs of a log are 1, 2, 3, ...
SELECT run_id, 'its log has ' || count(*) || ' events, and the last has seq ' || max(seq)
FROM events
GROUP BY run_id
HAVING count(*) <> max(seq) OR min(seq) <> 1
LIMIT ?1;

-- name: wrong_heads
-- A ticket knows where its log ends.
SELECT
    tickets.run_id,
    'its ticket says that the log ends at ' || tickets.head || ', but it ends at ' || coalesce(
        (SELECT max(seq) FROM events WHERE events.run_id = tickets.run_id), 0
    )
FROM tickets
WHERE tickets.path = ''
    AND EXISTS (SELECT 1 FROM runs WHERE runs.id = tickets.run_id)
    AND tickets.head <> coalesce((SELECT max(seq) FROM events WHERE events.run_id = tickets.run_id), 0)
LIMIT ?1;

-- name: wrong_tickets
-- A run has a ticket until it ends.
SELECT
    runs.id,
    CASE WHEN tickets.run_id IS NULL THEN 'it is ' || runs.status || ' but has no ticket'
        ELSE 'it is ' || runs.status || ' but has a ticket' END
FROM runs
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = ''
WHERE (tickets.run_id IS NULL) <> (runs.status IN ('completed', 'failed', 'cancelled', 'timed_out'))
LIMIT ?1;

-- name: leftovers
-- Rows of runs that do not exist.
SELECT run_id, 'there is no such run, but it has ' || what
FROM (
    SELECT DISTINCT run_id, 'events' AS what FROM events
    UNION ALL
    SELECT DISTINCT run_id, 'messages' FROM inbox
    UNION ALL
    SELECT DISTINCT run_id, 'waits' FROM waits
    UNION ALL
    SELECT DISTINCT run_id, 'log lines' FROM step_logs
)
WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = run_id)
LIMIT ?1;

-- name: check_pages
PRAGMA integrity_check(100);

-- name: back_up
VACUUM INTO ?;

-- name: find_other_workspace
-- Each part reads one entry of an index.
SELECT min(others.workspace)
FROM (
    SELECT min(workspace) AS workspace FROM runs WHERE workspace > ?1
    UNION ALL
    SELECT min(workspace) AS workspace FROM runs WHERE workspace < ?1
    UNION ALL
    SELECT min(workspace) AS workspace FROM definitions WHERE workspace > ?1
    UNION ALL
    SELECT min(workspace) AS workspace FROM definitions WHERE workspace < ?1
    UNION ALL
    SELECT min(workspace) AS workspace FROM credentials WHERE workspace > ?1
    UNION ALL
    SELECT min(workspace) AS workspace FROM credentials WHERE workspace < ?1
) AS others;
