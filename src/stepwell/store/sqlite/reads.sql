-- Reads.

-- name: read_log
SELECT seq, kind, path, attempt, at, payload
FROM events
WHERE run_id = ?1 AND seq > ?2
ORDER BY seq
LIMIT ?3;

-- The size of a payload is known without reading it.
-- name: read_log_within
SELECT seq, kind, path, attempt, at, payload
FROM (
    SELECT
        seq, kind, path, attempt, at, payload,
        sum(length(payload)) OVER (ORDER BY seq) - length(payload) AS before
    FROM events
    WHERE run_id = ?1 AND seq > ?2
    ORDER BY seq
    LIMIT ?3
)
WHERE before < ?4
ORDER BY seq;

-- name: read_log_about
SELECT seq, kind, path, attempt, at, payload
FROM events
WHERE run_id = ?1
    AND seq > ?2
    AND (?4 = '[]' OR kind IN (SELECT value FROM json_each(?4)))
    AND (?5 = '' OR path = ?5)
ORDER BY seq
LIMIT ?3;

-- name: read_log_end
SELECT seq, kind, path, attempt, at, payload
FROM events
WHERE run_id = ?1
ORDER BY seq DESC
LIMIT ?2;

-- name: read_run
SELECT
    runs.id, runs.workspace, runs.workflow, runs.version, runs.kind,
    CASE WHEN tickets.lease IS NULL THEN runs.status ELSE 'running' END AS status,
    runs.input, runs.output, runs.error, runs.key, runs.parent, runs.root, runs.tags, runs."trigger",
    runs.where_at, runs.created_at, runs.started_at, runs.ended_at, runs.test, runs.number, runs.started_by,
    tickets.held IS NOT NULL AS held, runs.done, runs.total, runs.input_tokens, runs.output_tokens, runs.cost,
    coalesce(tickets.owner, '') AS owner
FROM runs
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = ''
WHERE runs.id = ?1;

-- name: find_run
SELECT id
FROM runs
WHERE workspace = ?1 AND key = ?2 AND key <> '';

-- name: read_queues
-- What each queue holds. Fan-outs, which have no queue, are not counted.
SELECT
    queue,
    count(*) FILTER (WHERE lease IS NULL AND due_at <= ?2) AS ready,
    count(*) FILTER (WHERE lease IS NULL AND due_at > ?2) AS waiting,
    count(*) FILTER (WHERE lease IS NOT NULL) AS active,
    min(due_at) FILTER (WHERE lease IS NULL AND due_at <= ?2) AS oldest
FROM tickets
WHERE queue <> '' AND ?1 IN ('', workspace)
GROUP BY queue
ORDER BY queue;

-- name: read_tickets
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at,
    coalesce(owner, '') AS owner, coalesce(lease, '') AS lease, head, wakes, losses, lane, held
FROM tickets
WHERE run_id = ?1
ORDER BY path;

-- name: other_kinds
-- Kinds of work of these queues with free tickets that these needs do not cover, each with its lane; '' means
-- all tickets without one. Jumps along the indexes of the queue, as a claim does.
WITH RECURSIVE
open (queue, needs) AS (
    SELECT wanted.value, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '' AND queue = wanted.value
    )
    FROM json_each(?1) AS wanted
    UNION ALL
    SELECT open.queue, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '' AND queue = open.queue AND needs > open.needs
    )
    FROM open
    WHERE open.needs IS NOT NULL
),
solo (queue, needs) AS (
    SELECT wanted.value, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND queue = wanted.value
    )
    FROM json_each(?1) AS wanted
    UNION ALL
    SELECT solo.queue, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND queue = solo.queue AND needs > solo.needs
    )
    FROM solo
    WHERE solo.needs IS NOT NULL
),
lanes (lane) AS (
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '')
    UNION ALL
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND lane > lanes.lane)
    FROM lanes
    WHERE lanes.lane IS NOT NULL
),
open_lanes (lane, needs) AS (
    SELECT lanes.lane, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND lane = lanes.lane
    )
    FROM lanes
    WHERE lanes.lane IS NOT NULL
    UNION ALL
    SELECT open_lanes.lane, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND lane = open_lanes.lane
            AND needs > open_lanes.needs
    )
    FROM open_lanes
    WHERE open_lanes.needs IS NOT NULL
),
solo_lanes (lane) AS (
    SELECT (SELECT min(lane) FROM tickets WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '')
    UNION ALL
    SELECT (
        SELECT min(lane) FROM tickets WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND lane > solo_lanes.lane
    )
    FROM solo_lanes
    WHERE solo_lanes.lane IS NOT NULL
),
solo_lane_kinds (lane, needs) AS (
    SELECT solo_lanes.lane, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND lane = solo_lanes.lane
    )
    FROM solo_lanes
    WHERE solo_lanes.lane IS NOT NULL
    UNION ALL
    SELECT solo_lane_kinds.lane, (
        SELECT min(needs)
        FROM tickets
        WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND lane = solo_lane_kinds.lane
            AND needs > solo_lane_kinds.needs
    )
    FROM solo_lane_kinds
    WHERE solo_lane_kinds.needs IS NOT NULL
),
kinds (solo, lane, queue, needs) AS (
    SELECT 0, '', queue, needs FROM open
    UNION ALL
    SELECT 1, '', queue, needs FROM solo
    UNION ALL
    SELECT 0, lane, '', needs FROM open_lanes
    UNION ALL
    SELECT 1, lane, '', needs FROM solo_lane_kinds
)
SELECT solo, lane, queue, needs
FROM kinds
WHERE needs IS NOT NULL AND needs NOT IN (SELECT value FROM json_each(?2));

-- name: first_open
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at, '' AS owner, '' AS lease, head, wakes,
    losses, lane, held
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane = '' AND queue = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id, path
LIMIT 1;

-- name: first_solo
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at, '' AS owner, '' AS lease, head, wakes,
    losses, lane, held
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane = '' AND queue = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id, path
LIMIT 1;

-- name: first_open_in_lane
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at, '' AS owner, '' AS lease, head, wakes,
    losses, lane, held
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses < 2 AND lane <> '' AND lane = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id
LIMIT 1;

-- name: first_solo_in_lane
SELECT
    run_id, path, queue, needs, priority, started, ending, due_at, '' AS owner, '' AS lease, head, wakes,
    losses, lane, held
FROM tickets
WHERE lease IS NULL AND held IS NULL AND losses >= 2 AND lane <> '' AND lane = ?1 AND needs = ?2
ORDER BY rank, due_at, run_id
LIMIT 1;
