-- The same columns on both stores, with whether a person holds the run.
DROP VIEW run_view;

CREATE VIEW run_view AS
SELECT
    runs.id,
    runs.workspace,
    runs.workflow,
    runs.number,
    runs.version,
    runs.kind,
    CASE WHEN tickets.lease IS NULL THEN runs.status ELSE 'running' END AS status,
    tickets.held IS NOT NULL AS held,
    runs.where_at,
    CAST(runs.input AS TEXT) AS input,
    CAST(runs.output AS TEXT) AS output,
    CAST(runs.error AS TEXT) AS error,
    runs.key,
    runs.parent,
    runs.root,
    CAST(runs.tags AS TEXT) AS tags,
    runs."trigger",
    runs.started_by,
    runs.queue,
    runs.priority,
    tickets.owner AS worker,
    strftime('%Y-%m-%dT%H:%M:%fZ', nullif(tickets.due_at, 9e999), 'unixepoch') AS due_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.created_at, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.started_at, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', runs.ended_at, 'unixepoch') AS ended_at,
    runs.test,
    runs.done,
    runs.total,
    runs.input_tokens,
    runs.output_tokens,
    runs.cost
FROM runs
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = '';

-- How a child ended is encrypted in an encrypted database.
DROP VIEW step_view;

CREATE VIEW step_view AS
SELECT
    calls.run_id,
    calls.seq,
    last.path,
    CASE
        WHEN last.kind = 'wait_ended' THEN
            CASE json_extract(CAST(last.payload AS TEXT), '$.outcome')
                WHEN 'answered' THEN 'completed'
                WHEN 'withdrawn' THEN 'cancelled'
                ELSE 'timed_out'
            END
        WHEN last.kind IN ('step_failed', 'transition_failed') THEN
            iif(json_valid(last.payload) AND json_extract(CAST(last.payload AS TEXT), '$.retry_in') IS NOT NULL,
                iif(runs.ended_at IS NULL, 'retrying', 'cancelled'), 'failed')
        WHEN last.kind = 'child_started' AND json_valid(last.payload)
            AND json_extract(CAST(last.payload AS TEXT), '$.detached') THEN 'completed'
        WHEN last.kind = 'child_ended' THEN
            CASE iif(json_valid(last.payload), json_extract(CAST(last.payload AS TEXT), '$.status'), '')
                WHEN 'completed' THEN 'completed'
                WHEN '' THEN 'ended' -- how is encrypted
                ELSE 'failed'
            END
        WHEN last.kind = 'node_failed' THEN 'failed'
        WHEN last.kind = 'node_skipped' THEN 'skipped'
        WHEN last.kind = 'node_cancelled' THEN 'cancelled'
        WHEN runs.ended_at IS NOT NULL AND last.kind IN (
            'step_scheduled', 'timer_set', 'wait_opened', 'step_started', 'node_started', 'child_started'
        ) THEN 'cancelled' -- the run ended before it did
        WHEN last.kind = 'step_scheduled' THEN 'queued'
        WHEN last.kind IN ('timer_set', 'wait_opened') THEN 'waiting'
        WHEN last.kind IN ('step_started', 'node_started', 'child_started') THEN 'running'
        ELSE 'completed'
    END AS status,
    calls.attempts,
    strftime('%Y-%m-%dT%H:%M:%fZ', calls.first_at, 'unixepoch') AS first_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', last.at, 'unixepoch') AS last_at,
    last.kind AS last_kind,
    CAST(last.payload AS TEXT) AS last_payload
FROM (
    SELECT run_id, path, min(seq) AS seq, max(seq) AS last_seq, max(attempt) AS attempts, min(at) AS first_at
    FROM events
    WHERE path <> '' AND kind IN (
        'step_scheduled', 'step_started', 'step_completed', 'step_failed', 'timer_set', 'timer_fired',
        'wait_opened', 'wait_ended', 'child_started', 'child_ended', 'transition_completed',
        'transition_failed', 'node_started', 'node_completed', 'node_failed', 'node_skipped', 'node_cancelled'
    )
    GROUP BY run_id, path
) AS calls
INNER JOIN runs ON runs.id = calls.run_id
INNER JOIN events AS last ON last.run_id = calls.run_id AND last.seq = calls.last_seq;
