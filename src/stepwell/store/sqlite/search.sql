-- Finding and counting runs. Each `found_` query walks one index backwards, from where the last page ended: its
-- bounds and its order are those of the index, so no other one can answer it. `/* run_fits */` stands for the other
-- conditions of the filter.

-- fragment: run_fits
runs.workspace = :workspace
    AND (:workflow = '' OR runs.workflow = :workflow)
    AND (:version = '' OR runs.version = :version)
    AND (:queue = '' OR runs.queue = :queue)
    AND (:trigger = '' OR runs."trigger" = :trigger)
    AND (:parent = '' OR runs.parent = :parent)
    AND (:prefix = '' OR (runs.key >= :prefix AND runs.key < :key_limit))
    AND (:key = '' OR runs.key = :key)
    AND (:id_prefix = '' OR (runs.id >= :id_prefix AND runs.id < :id_limit))
    AND runs.created_at >= :since
    AND (
        :statuses = '[]'
        OR (
            CASE
                WHEN EXISTS (
                    SELECT 1 FROM tickets WHERE run_id = runs.id AND tickets.path = '' AND lease IS NOT NULL
                )
                    THEN 'running'
                ELSE runs.status
            END
        ) IN (SELECT value FROM json_each(:statuses))
    )
    AND (
        :terms = '[]'
        OR NOT EXISTS (
            SELECT 1
            FROM json_each(:terms) AS wanted
            WHERE NOT EXISTS (SELECT 1 FROM run_terms WHERE run_id = runs.id AND term = wanted.value)
        )
    )

-- name: found_newest
SELECT runs.created_at, runs.id
FROM runs INDEXED BY runs_newest
WHERE runs.workspace = :workspace
    AND (runs.created_at, runs.id) < (:at, :id)
    AND /* run_fits */
ORDER BY runs.created_at DESC, runs.id DESC
LIMIT :limit;

-- name: found_in_group
SELECT runs.created_at, runs.id
FROM runs INDEXED BY runs_group
WHERE runs.workspace = :workspace
    AND runs.workflow = :group_workflow
    AND runs.version = :group_version
    AND runs.queue = :group_queue
    AND runs.status = :group_status
    AND (runs.created_at, runs.id) < (:at, :id)
    AND /* run_fits */
ORDER BY runs.created_at DESC, runs.id DESC
LIMIT :limit;

-- name: found_owned
SELECT runs.created_at, runs.id
FROM tickets AS owned INDEXED BY tickets_owned
CROSS JOIN runs ON runs.id = owned.run_id
WHERE owned.owner IS NOT NULL
    AND owned.path = ''
    AND (runs.created_at, runs.id) < (:at, :id)
    AND /* run_fits */
ORDER BY runs.created_at DESC, runs.id DESC
LIMIT :limit;

-- name: found_by_trigger
SELECT runs.created_at, runs.id
FROM runs INDEXED BY runs_trigger
WHERE runs.workspace = :workspace
    AND runs."trigger" = :trigger
    AND runs."trigger" <> 'api'
    AND (runs.created_at, runs.id) < (:at, :id)
    AND /* run_fits */
ORDER BY runs.created_at DESC, runs.id DESC
LIMIT :limit;

-- name: found_by_parent
SELECT runs.created_at, runs.id
FROM runs INDEXED BY runs_parent
WHERE runs.parent = :parent
    AND runs.parent <> ''
    AND (runs.created_at, runs.id) < (:at, :id)
    AND /* run_fits */
ORDER BY runs.created_at DESC, runs.id DESC
LIMIT :limit;

-- name: found_by_term
SELECT runs.created_at, runs.id
FROM run_terms AS found INDEXED BY run_terms_term
CROSS JOIN runs ON runs.id = found.run_id
WHERE found.workspace = :workspace
    AND found.term = :term
    AND (found.created_at, found.run_id) < (:at, :id)
    AND found.created_at >= :since
    AND /* run_fits */
ORDER BY found.created_at DESC, found.run_id DESC
LIMIT :limit;

-- name: found_by_key
SELECT runs.created_at, runs.id
FROM runs INDEXED BY runs_key
WHERE runs.workspace = :workspace
    AND runs.key = :key
    AND runs.key <> ''
    AND (runs.created_at, runs.id) < (:at, :id)
    AND /* run_fits */
LIMIT :limit;

-- name: found_by_id
-- By the beginning of the id.
SELECT runs.created_at, runs.id
FROM runs
WHERE runs.id >= :id_prefix
    AND runs.id < :id_limit
    AND (runs.created_at, runs.id) < (:at, :id)
    AND /* run_fits */
ORDER BY runs.id DESC
LIMIT :limit;

-- name: found_by_prefix
-- By key, the last one first.
SELECT runs.key, runs.id
FROM runs INDEXED BY runs_key
WHERE runs.workspace = :workspace
    AND runs.key >= :prefix
    AND runs.key < :key_limit
    AND runs.key <> ''
    AND (runs.created_at, runs.id) < (:at, :id)
    AND /* run_fits */
ORDER BY runs.key DESC
LIMIT :limit;

-- name: found_rows
SELECT
    runs.id, runs.workspace, runs.workflow, runs.version, runs.kind,
    CASE WHEN tickets.lease IS NULL THEN runs.status ELSE 'running' END AS status,
    runs.input, runs.output, runs.error, runs.key, runs.parent, runs.root, runs.tags, runs."trigger",
    runs.where_at, runs.created_at, runs.started_at, runs.ended_at, runs.test, runs.number, runs.started_by,
    tickets.held IS NOT NULL AS held, runs.done, runs.total, runs.input_tokens, runs.output_tokens, runs.cost,
    coalesce(tickets.owner, '') AS owner
FROM json_each(?1) AS wanted
CROSS JOIN runs ON runs.id = wanted.value
LEFT JOIN tickets ON tickets.run_id = runs.id AND tickets.path = ''
ORDER BY wanted.key;

-- name: run_groups
-- Which groups of runs there are: by workflow, version, queue and stored status.
SELECT workflow, version, queue, status, n
FROM run_counts
WHERE workspace = ?1
    AND n <> 0;

-- name: owned_groups
-- The runs that workers own now: they are shown as running, whatever their stored status is.
SELECT runs.workflow, runs.version, runs.queue, runs.status, count(*)
FROM tickets AS owned INDEXED BY tickets_owned
CROSS JOIN runs ON runs.id = owned.run_id
WHERE owned.owner IS NOT NULL
    AND owned.path = ''
    AND runs.workspace = ?1
GROUP BY runs.workflow, runs.version, runs.queue, runs.status;

-- name: group_buckets
-- One group of runs by the time of their creation: the index has all that is asked for.
SELECT CAST((created_at - :since) / :width AS INTEGER) AS bucket, count(*)
FROM runs INDEXED BY runs_group
WHERE workspace = :workspace
    AND workflow = :group_workflow
    AND version = :group_version
    AND queue = :group_queue
    AND status = :group_status
    AND created_at >= :since
    AND created_at < :until
GROUP BY bucket;

-- name: owned_runs
SELECT runs.workflow, runs.version, runs.queue, runs.status, runs.created_at
FROM tickets AS owned INDEXED BY tickets_owned
CROSS JOIN runs ON runs.id = owned.run_id
WHERE owned.owner IS NOT NULL
    AND owned.path = ''
    AND runs.workspace = ?1;

-- name: insert_term
INSERT OR IGNORE INTO run_terms (run_id, term, workspace, created_at)
VALUES (?1, ?2, ?3, ?4);

-- name: insert_word
-- A word of the error of a run that exists.
INSERT OR IGNORE INTO run_terms (run_id, term, workspace, created_at)
SELECT id, ?2, workspace, created_at
FROM runs
WHERE id = ?1;

-- name: delete_words
DELETE FROM run_terms
WHERE run_id = ?1 AND term >= 'word:' AND term < 'word;';

-- name: delete_terms
DELETE FROM run_terms
WHERE run_id = ?1;

-- name: delete_decided
DELETE FROM decided_approvals
WHERE run_id = ?1;

-- name: found_waits
SELECT
    waits.run_id, runs.workflow, runs.number, waits.path, waits.what, waits.name, waits.key, waits.opened_at,
    waits.due_at, coalesce(events.payload, x''),
    coalesce(
        (
            SELECT later.payload
            FROM events AS later
            WHERE waits.what = 'approval'
                AND later.run_id = waits.run_id
                AND later.seq > waits.seq
                AND later.kind = 'wait_reassigned'
                AND later.path = waits.path
            ORDER BY later.seq DESC
            LIMIT 1
        ),
        x''
    )
FROM waits INDEXED BY waits_open
CROSS JOIN runs ON runs.id = waits.run_id
LEFT JOIN events ON events.run_id = waits.run_id AND events.seq = waits.seq
WHERE waits.workspace = ?1
    AND waits.what = ?2
    AND waits.what <> ''
    AND (waits.opened_at, waits.run_id, waits.path) < (?3, ?4, ?5)
ORDER BY waits.opened_at DESC, waits.run_id DESC, waits.path DESC
LIMIT ?6;

-- name: found_waits_named
SELECT
    waits.run_id, runs.workflow, runs.number, waits.path, waits.what, waits.name, waits.key, waits.opened_at,
    waits.due_at, coalesce(events.payload, x''),
    coalesce(
        (
            SELECT later.payload
            FROM events AS later
            WHERE waits.what = 'approval'
                AND later.run_id = waits.run_id
                AND later.seq > waits.seq
                AND later.kind = 'wait_reassigned'
                AND later.path = waits.path
            ORDER BY later.seq DESC
            LIMIT 1
        ),
        x''
    )
FROM waits INDEXED BY waits_name
CROSS JOIN runs ON runs.id = waits.run_id
LEFT JOIN events ON events.run_id = waits.run_id AND events.seq = waits.seq
WHERE waits.workspace = ?1
    AND waits.what = ?2
    AND waits.what <> ''
    AND waits.name = ?7
    AND (waits.opened_at, waits.run_id, waits.path) < (?3, ?4, ?5)
ORDER BY waits.opened_at DESC, waits.run_id DESC, waits.path DESC
LIMIT ?6;

-- name: list_decided
SELECT
    decided.run_id, runs.workflow, runs.number, decided.path, decided.name, decided.ended, decided.at,
    coalesce(opened.at, 0.0), coalesce(opened.payload, x''), coalesce(ended.payload, x''),
    coalesce(received.payload, x'')
FROM decided_approvals AS decided INDEXED BY decided_approvals_at
CROSS JOIN runs ON runs.id = decided.run_id
LEFT JOIN events AS opened ON opened.run_id = decided.run_id AND opened.seq = decided.opened
LEFT JOIN events AS ended ON ended.run_id = decided.run_id AND ended.seq = decided.ended
LEFT JOIN events AS received ON received.run_id = decided.run_id AND received.seq = decided.received
WHERE decided.workspace = ?1
    AND (decided.at, decided.run_id, decided.ended) < (?2, ?3, ?4)
ORDER BY decided.at DESC, decided.run_id DESC, decided.ended DESC
LIMIT ?5;
