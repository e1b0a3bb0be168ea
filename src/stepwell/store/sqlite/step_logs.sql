-- What steps logged and printed.

-- name: add_log_line
-- A line of a run that was deleted meanwhile is dropped, and one that is there stays as it is.
INSERT INTO step_logs (run_id, path, attempt, key, at, payload, n)
SELECT
    ?1, ?2, ?3, ?4, ?5, ?6,
    coalesce((SELECT max(n) FROM step_logs WHERE run_id = ?1), 0) + 1
WHERE EXISTS (SELECT 1 FROM runs WHERE id = ?1)
ON CONFLICT (run_id, path, attempt, key) DO NOTHING;

-- name: read_run_lines
SELECT n, path, attempt, key, at, payload
FROM step_logs
WHERE run_id = ?1 AND n > ?2
ORDER BY n
LIMIT ?3;

-- name: read_step_lines
-- Of one step; attempt 0: of all its attempts.
SELECT n, path, attempt, key, at, payload
FROM step_logs
WHERE run_id = ?1 AND path = ?4 AND (?5 = 0 OR attempt = ?5) AND n > ?2
ORDER BY n
LIMIT ?3;

-- name: restore_line
INSERT INTO step_logs (run_id, n, path, attempt, key, at, payload)
VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: delete_lines
DELETE FROM step_logs
WHERE run_id = ?1;
