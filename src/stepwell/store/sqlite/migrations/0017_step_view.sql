-- One row for each step, wait, child, transition and node that the log has an event of: how far it is.
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
                'retrying', 'failed')
        WHEN last.kind = 'child_ended' THEN
            iif(json_valid(last.payload) AND json_extract(CAST(last.payload AS TEXT), '$.status') <> 'completed',
                'failed', 'completed')
        WHEN last.kind = 'node_failed' THEN 'failed'
        WHEN last.kind = 'node_skipped' THEN 'skipped'
        WHEN last.kind = 'node_cancelled' THEN 'cancelled'
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
INNER JOIN events AS last ON last.run_id = calls.run_id AND last.seq = calls.last_seq;
