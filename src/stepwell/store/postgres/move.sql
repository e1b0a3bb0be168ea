-- A database that another one is moved to.

-- name: read_mark
SELECT token, state, place
FROM stepwell.moved;

-- name: mark_receiving
INSERT INTO stepwell.moved (token, state, place, at)
VALUES ($1, 'receiving', $2, extract(EPOCH FROM clock_timestamp()))
ON CONFLICT (one) DO UPDATE SET token = $1, state = 'receiving', place = $2, at = excluded.at;

-- name: mark_received
UPDATE stepwell.moved
SET state = 'received';

-- name: read_receiving
SELECT place
FROM stepwell.moved
WHERE state = 'receiving';

-- name: last_run
SELECT coalesce(max(id), '')
FROM stepwell.runs;

-- name: count_runs
SELECT count(*)
FROM stepwell.runs;

-- name: in_use
-- What of a database in use it has; any engine that was opened has written its definitions.
SELECT what
FROM (
    SELECT 'runs' AS what WHERE EXISTS (SELECT FROM stepwell.runs)
    UNION ALL
    SELECT 'events' WHERE EXISTS (SELECT FROM stepwell.published_events)
    UNION ALL
    SELECT 'keys' WHERE EXISTS (SELECT FROM stepwell.credentials)
    UNION ALL
    SELECT 'an audit list' WHERE EXISTS (SELECT FROM stepwell.audit)
    UNION ALL
    SELECT 'limits' WHERE EXISTS (SELECT FROM stepwell.limits)
    UNION ALL
    SELECT 'start rates' WHERE EXISTS (SELECT FROM stepwell.start_rates)
    UNION ALL
    SELECT 'holds' WHERE EXISTS (SELECT FROM stepwell.holds)
    UNION ALL
    SELECT 'schedules or triggers' WHERE EXISTS (SELECT FROM stepwell.triggers)
    UNION ALL
    SELECT 'records' WHERE EXISTS (SELECT FROM stepwell.collections)
    UNION ALL
    SELECT 'disabled workflows' WHERE EXISTS (SELECT FROM stepwell.switches)
) AS used;

-- name: list_columns
-- Those that can be written.
SELECT column_name, data_type
FROM information_schema.columns
WHERE table_schema = $1
    AND table_name = $2
    AND is_generated = 'NEVER'
    AND is_identity = 'NO';

-- name: fill_event_names
INSERT INTO stepwell.event_names (workspace, name, first_at, last_at)
SELECT workspace, name, max(at), max(at)
FROM stepwell.published_events
GROUP BY workspace, name;
