-- What steps logged and printed.

-- name: lock_lines
-- Two workers may write lines of one run, its own steps and remote ones: one after the other, so that their
-- numbers grow in the order in which readers see them.
SELECT pg_advisory_xact_lock(k.key)
FROM (
    SELECT DISTINCT hashtextextended('stepwell step log ' || u.id, 0) AS key
    FROM unnest($1::text[]) AS u (id)
    ORDER BY 1
) AS k;

-- name: add_log_lines
-- Lines of a run that was deleted meanwhile are dropped, and those that are there stay as they are.
WITH given AS (
    SELECT g.*, g.i - min(g.i) OVER (PARTITION BY g.run_id) AS behind
    FROM unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::float8[], $6::bytea[]) WITH ORDINALITY
        AS g (run_id, path, attempt, key, at, payload, i)
),
alive AS MATERIALIZED (
    SELECT
        r.id,
        (
            SELECT coalesce(max(l.n), 0)
            FROM stepwell.step_logs AS l
            WHERE l.run_id = r.id
        ) AS last
    FROM stepwell.runs AS r
    WHERE r.id = ANY ($1::text[])
    ORDER BY r.id
    FOR KEY SHARE OF r
)
INSERT INTO stepwell.step_logs (run_id, n, path, attempt, key, at, payload)
SELECT g.run_id, alive.last + g.behind + 1, g.path, g.attempt, g.key, g.at, g.payload
FROM given AS g
JOIN alive ON alive.id = g.run_id
ORDER BY g.i
ON CONFLICT (run_id, path, attempt, key) DO NOTHING;

-- name: read_run_lines
SELECT n, path, attempt, key, at, payload
FROM stepwell.step_logs
WHERE run_id = $1
    AND n > $2
ORDER BY n
LIMIT $3;

-- name: read_step_lines
-- Of one step; attempt 0: of all its attempts.
SELECT n, path, attempt, key, at, payload
FROM stepwell.step_logs
WHERE run_id = $1
    AND path = $4
    AND ($5 = 0 OR attempt = $5)
    AND n > $2
ORDER BY n
LIMIT $3;

-- name: copy_lines
SELECT n, path, attempt, key, at, payload
FROM stepwell.step_logs
WHERE run_id = $1
ORDER BY n;

-- name: restore_line
INSERT INTO stepwell.step_logs (run_id, n, path, attempt, key, at, payload)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: delete_lines
DELETE FROM stepwell.step_logs
WHERE run_id = ANY ($1::text[]);
