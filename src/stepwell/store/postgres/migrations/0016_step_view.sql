-- One row for each step, wait, child, transition and node that the log has an event of: how far it is.
CREATE VIEW stepwell.step_view AS
SELECT
    calls.run_id,
    calls.seq,
    calls.path,
    CASE
        WHEN last.kind = 'wait_ended' THEN
            CASE stepwell.readable(last.payload) ->> 'outcome'
                WHEN 'answered' THEN 'completed'
                WHEN 'withdrawn' THEN 'cancelled'
                ELSE 'timed_out'
            END
        WHEN last.kind IN ('step_failed', 'transition_failed') THEN
            CASE WHEN stepwell.readable(last.payload) ->> 'retry_in' IS NULL THEN 'failed' ELSE 'retrying' END
        WHEN last.kind = 'child_ended' THEN
            CASE WHEN stepwell.readable(last.payload) ->> 'status' <> 'completed' THEN 'failed' ELSE 'completed' END
        WHEN last.kind = 'node_failed' THEN 'failed'
        WHEN last.kind = 'node_skipped' THEN 'skipped'
        WHEN last.kind = 'node_cancelled' THEN 'cancelled'
        WHEN last.kind = 'step_scheduled' THEN 'queued'
        WHEN last.kind IN ('timer_set', 'wait_opened') THEN 'waiting'
        WHEN last.kind IN ('step_started', 'node_started', 'child_started') THEN 'running'
        ELSE 'completed'
    END AS status,
    calls.attempts,
    to_timestamp(calls.first_at) AS first_at,
    to_timestamp(last.at) AS last_at,
    last.kind AS last_kind,
    stepwell.readable(last.payload) AS last_payload
FROM (
    SELECT
        e.run_id,
        e.path,
        min(e.seq) AS seq,
        max(e.seq) AS last_seq,
        max(e.attempt) AS attempts,
        min(e.at) AS first_at
    FROM stepwell.events AS e
    WHERE e.path <> '' AND e.kind IN (
        'step_scheduled', 'step_started', 'step_completed', 'step_failed', 'timer_set', 'timer_fired',
        'wait_opened', 'wait_ended', 'child_started', 'child_ended', 'transition_completed',
        'transition_failed', 'node_started', 'node_completed', 'node_failed', 'node_skipped', 'node_cancelled'
    )
    GROUP BY e.run_id, e.path
) AS calls
INNER JOIN stepwell.events AS last ON last.run_id = calls.run_id AND last.seq = calls.last_seq;
