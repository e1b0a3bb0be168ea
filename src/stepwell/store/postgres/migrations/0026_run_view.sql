-- The same columns on both stores, with whether a person holds the run.
DROP VIEW stepwell.run_view;

CREATE VIEW stepwell.run_view AS
SELECT
    r.id,
    r.workspace,
    r.workflow,
    r.number,
    r.version,
    r.kind,
    CASE WHEN t.lease IS NOT NULL THEN 'running' ELSE r.status END AS status,
    t.held IS NOT NULL AS held,
    r.where_at,
    stepwell.readable(r.input) AS input,
    stepwell.readable(r.output) AS output,
    stepwell.readable(r.error) AS error,
    r.key,
    r.parent,
    r.root,
    stepwell.readable(r.tags) AS tags,
    r.trigger,
    r.started_by,
    r.queue,
    r.priority,
    t.owner AS worker,
    to_timestamp(nullif(t.due_at, 'infinity')) AS due_at,
    to_timestamp(r.created_at) AS created_at,
    to_timestamp(r.started_at) AS started_at,
    to_timestamp(r.ended_at) AS ended_at,
    r.test,
    r.done,
    r.total,
    r.input_tokens,
    r.output_tokens,
    r.cost
FROM stepwell.runs AS r
LEFT JOIN stepwell.tickets AS t ON t.run_id = r.id AND t.path = '';

-- How a child ended is encrypted in an encrypted database.
CREATE OR REPLACE VIEW stepwell.step_view AS
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
            CASE
                WHEN stepwell.readable(last.payload) ->> 'retry_in' IS NULL THEN 'failed'
                WHEN r.ended_at IS NOT NULL THEN 'cancelled'
                ELSE 'retrying'
            END
        WHEN last.kind = 'child_started' AND stepwell.readable(last.payload) ->> 'detached' = 'true' THEN 'completed'
        WHEN last.kind = 'child_ended' THEN
            CASE
                WHEN stepwell.readable(last.payload) ->> 'status' = 'completed' THEN 'completed'
                WHEN jsonb_typeof(stepwell.readable(last.payload)) = 'object' THEN 'failed'
                ELSE 'ended' -- how is encrypted
            END
        WHEN last.kind = 'node_failed' THEN 'failed'
        WHEN last.kind = 'node_skipped' THEN 'skipped'
        WHEN last.kind = 'node_cancelled' THEN 'cancelled'
        WHEN r.ended_at IS NOT NULL AND last.kind IN (
            'step_scheduled', 'timer_set', 'wait_opened', 'step_started', 'node_started', 'child_started'
        ) THEN 'cancelled' -- the run ended before it did
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
INNER JOIN stepwell.runs AS r ON r.id = calls.run_id
INNER JOIN stepwell.events AS last ON last.run_id = calls.run_id AND last.seq = calls.last_seq;
