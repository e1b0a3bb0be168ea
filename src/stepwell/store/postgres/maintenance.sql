-- What operators ask of a database.

-- name: count_tables
SELECT 'runs', (SELECT count(*) FROM stepwell.runs AS runs)
UNION ALL
SELECT 'unfinished runs', (
    SELECT count(*) FROM stepwell.runs AS runs WHERE status NOT IN ('completed', 'failed', 'cancelled', 'timed_out')
)
UNION ALL
SELECT 'events', (SELECT count(*) FROM stepwell.events AS events)
UNION ALL
SELECT 'messages', (SELECT count(*) FROM stepwell.inbox AS inbox)
UNION ALL
SELECT 'waits', (SELECT count(*) FROM stepwell.waits AS waits WHERE kind <> 'cursor')
UNION ALL
SELECT 'log lines of steps', (SELECT count(*) FROM stepwell.step_logs AS step_logs)
UNION ALL
SELECT 'broadcast events', (SELECT count(*) FROM stepwell.published_events AS published_events)
UNION ALL
SELECT 'definitions', (SELECT count(*) FROM stepwell.definitions AS definitions)
UNION ALL
SELECT 'credentials', (SELECT count(*) FROM stepwell.credentials AS credentials)
UNION ALL
SELECT 'audit entries', (SELECT count(*) FROM stepwell.audit AS audit)
UNION ALL
SELECT 'secrets', (SELECT count(*) FROM stepwell.secrets AS secrets)
UNION ALL
SELECT 'records', (SELECT coalesce(sum(c.records), 0)::bigint FROM stepwell.collections AS c);

-- name: gaps
-- The seqs of a log are 1, 2, 3, ...
SELECT run_id, format('its log has %s events, and the last has seq %s', count(*), max(seq))
FROM stepwell.events AS events
GROUP BY run_id
HAVING count(*) <> max(seq) OR min(seq) <> 1
LIMIT $1;

-- name: wrong_heads
-- A ticket knows where its log ends.
SELECT
    tickets.run_id,
    format(
        'its ticket says that the log ends at %s, but it ends at %s', tickets.head,
        coalesce((SELECT max(seq) FROM stepwell.events AS events WHERE events.run_id = tickets.run_id), 0)
    )
FROM stepwell.tickets AS tickets
WHERE tickets.path = ''
    AND EXISTS (SELECT 1 FROM stepwell.runs AS runs WHERE runs.id = tickets.run_id)
    AND tickets.head <> coalesce((SELECT max(seq) FROM stepwell.events AS events WHERE events.run_id = tickets.run_id), 0)
LIMIT $1;

-- name: wrong_tickets
-- A run has a ticket until it ends.
SELECT
    runs.id,
    CASE WHEN tickets.run_id IS NULL THEN 'it is ' || runs.status || ' but has no ticket'
        ELSE 'it is ' || runs.status || ' but has a ticket' END
FROM stepwell.runs AS runs
LEFT JOIN stepwell.tickets AS tickets ON tickets.run_id = runs.id AND tickets.path = ''
WHERE (tickets.run_id IS NULL) <> (runs.status IN ('completed', 'failed', 'cancelled', 'timed_out'))
LIMIT $1;

-- name: leftovers
-- Rows of runs that do not exist.
SELECT run_id, 'there is no such run, but it has ' || what
FROM (
    SELECT DISTINCT run_id, 'events' AS what FROM stepwell.events AS events
    UNION ALL
    SELECT DISTINCT run_id, 'messages' FROM stepwell.inbox AS inbox
    UNION ALL
    SELECT DISTINCT run_id, 'waits' FROM stepwell.waits AS waits
    UNION ALL
    SELECT DISTINCT run_id, 'log lines' FROM stepwell.step_logs AS step_logs
) AS leftover
WHERE NOT EXISTS (SELECT 1 FROM stepwell.runs AS runs WHERE runs.id = leftover.run_id)
LIMIT $1;

-- name: schema_bytes
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1
    AND c.relkind = 'r';

-- name: unlimited
-- Reading everything takes its time, and is best done in large scans.
SELECT
    set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'on', true),
    set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true);

-- name: find_other_workspace
-- Each part reads one entry of an index.
SELECT min(others.workspace)
FROM (
    SELECT min(workspace) AS workspace FROM stepwell.runs AS runs WHERE workspace > $1
    UNION ALL
    SELECT min(workspace) AS workspace FROM stepwell.runs AS runs WHERE workspace < $1
    UNION ALL
    SELECT min(workspace) AS workspace FROM stepwell.definitions AS definitions WHERE workspace > $1
    UNION ALL
    SELECT min(workspace) AS workspace FROM stepwell.definitions AS definitions WHERE workspace < $1
    UNION ALL
    SELECT min(workspace) AS workspace FROM stepwell.credentials AS credentials WHERE workspace > $1
    UNION ALL
    SELECT min(workspace) AS workspace FROM stepwell.credentials AS credentials WHERE workspace < $1
) AS others;
