-- Lists of tags and of open waits have the runs from before these lists as well. What is encrypted or compressed
-- cannot be read here: such waits are listed when they are asked again.

INSERT INTO stepwell.run_terms (run_id, term, workspace, created_at)
SELECT t.run_id, 'tag:' || t.term, t.workspace, t.created_at
FROM (
    SELECT
        r.id AS run_id,
        r.workspace,
        r.created_at,
        jsonb_typeof(tag.value) = 'array' AS is_marked,
        CASE jsonb_typeof(tag.value)
            WHEN 'array' THEN tag.value ->> 0
            ELSE '[' || to_jsonb(tag.key)::text || ',' || tag.value::text || ']'
        END AS term
    FROM stepwell.runs AS r
    CROSS JOIN LATERAL (SELECT stepwell.readable(r.tags) AS tags OFFSET 0) AS x
    CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(x.tags) WHEN 'object' THEN x.tags ELSE '{}' END) AS tag
    WHERE r.tags <> '{}'::bytea
) AS t
WHERE t.is_marked
    OR octet_length(t.term) <= 200
ON CONFLICT DO NOTHING;

INSERT INTO stepwell.waits (run_id, path, kind, name, key, since, workspace, what, seq, opened_at, due_at)
SELECT
    o.run_id, o.path, 'signal', x.fact ->> 'name', '', 0, r.workspace, 'signal', o.seq, o.at,
    o.at + (x.fact ->> 'timeout')::double precision
FROM stepwell.tickets AS t
INNER JOIN stepwell.runs AS r ON r.id = t.run_id AND r.status = 'suspended'
INNER JOIN stepwell.events AS o ON o.run_id = t.run_id AND o.seq >= t.base AND o.kind = 'wait_opened'
CROSS JOIN LATERAL (SELECT stepwell.readable(o.payload) AS fact OFFSET 0) AS x
WHERE t.path = ''
    AND o.path NOT LIKE '%/@%'
    AND x.fact ->> 'what' = 'signal'
    AND NOT EXISTS (
        SELECT
        FROM stepwell.events AS l
        WHERE l.run_id = o.run_id
            AND l.seq > o.seq
            AND (
                (l.kind = 'wait_ended' AND l.path = o.path)
                OR l.kind IN ('retried', 'transition_failed', 'compensation_started')
            )
    )
ON CONFLICT DO NOTHING;

-- The mailbox of a graph is not a wait of its own.
DELETE FROM stepwell.waits
WHERE kind = 'signal'
    AND path LIKE '%/@%';

-- A transition may ask for an approval too, and a wait may have a time limit.
UPDATE stepwell.waits AS w
SET what = x.fact ->> 'what',
    due_at = o.at + (x.fact ->> 'timeout')::double precision
FROM stepwell.events AS o
CROSS JOIN LATERAL (SELECT stepwell.readable(o.payload) AS fact OFFSET 0) AS x
WHERE w.seq > 0
    AND w.due_at IS NULL
    AND o.run_id = w.run_id
    AND o.seq = w.seq
    AND o.kind = 'wait_opened'
    AND jsonb_typeof(x.fact) = 'object';

-- What a run had begun when it ended does not wait or run any more.
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
            CASE WHEN stepwell.readable(last.payload) ->> 'status' <> 'completed' THEN 'failed' ELSE 'completed' END
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
