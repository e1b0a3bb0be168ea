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
