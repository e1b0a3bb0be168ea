-- Lists of tags and of open waits have the runs from before these lists as well. What is encrypted or compressed
-- cannot be read here: such waits are listed when they are asked again.

INSERT OR IGNORE INTO run_terms (run_id, term, workspace, created_at)
SELECT
    runs.id,
    'tag:' || CASE tag.type WHEN 'array' THEN tag.value ->> '$[0]' ELSE json_array(tag.key, tag.value) END,
    runs.workspace,
    runs.created_at
FROM runs
CROSS JOIN json_each(iif(json_valid(CAST(runs.tags AS TEXT)), CAST(runs.tags AS TEXT), '{}')) AS tag
WHERE runs.tags NOT IN (x'', x'7b7d')
    AND (tag.type = 'array' OR length(CAST(json_array(tag.key, tag.value) AS BLOB)) <= 200);

INSERT OR IGNORE INTO waits (run_id, path, kind, name, key, since, workspace, what, seq, opened_at, due_at)
SELECT
    opened.run_id,
    opened.path,
    'signal',
    CAST(opened.payload AS TEXT) ->> '$.name',
    '',
    0,
    runs.workspace,
    'signal',
    opened.seq,
    opened.at,
    opened.at + (CAST(opened.payload AS TEXT) ->> '$.timeout')
FROM tickets
CROSS JOIN runs ON runs.id = tickets.run_id AND runs.status = 'suspended'
CROSS JOIN events AS opened
    ON opened.run_id = tickets.run_id AND opened.seq >= tickets.base AND opened.kind = 'wait_opened'
WHERE tickets.path = ''
    AND opened.path NOT LIKE '%/@%'
    AND iif(
        json_valid(CAST(opened.payload AS TEXT)), CAST(opened.payload AS TEXT) ->> '$.what' = 'signal', 0
    )
    AND NOT EXISTS (
        SELECT 1
        FROM events AS later
        WHERE later.run_id = opened.run_id
            AND later.seq > opened.seq
            AND (
                (later.kind = 'wait_ended' AND later.path = opened.path)
                OR later.kind IN ('retried', 'transition_failed', 'compensation_started')
            )
    );

-- The mailbox of a graph is not a wait of its own.
DELETE FROM waits
WHERE kind = 'signal' AND path LIKE '%/@%';

-- A transition may ask for an approval too, and a wait may have a time limit.
UPDATE waits
SET what = CAST(opened.payload AS TEXT) ->> '$.what',
    due_at = opened.at + (CAST(opened.payload AS TEXT) ->> '$.timeout')
FROM events AS opened
WHERE waits.seq > 0
    AND waits.due_at IS NULL
    AND opened.run_id = waits.run_id
    AND opened.seq = waits.seq
    AND opened.kind = 'wait_opened'
    AND json_valid(CAST(opened.payload AS TEXT));

-- What a run had begun when it ended does not wait or run any more.
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
            iif(json_valid(last.payload) AND json_extract(CAST(last.payload AS TEXT), '$.status') <> 'completed',
                'failed', 'completed')
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
