-- Start rates: windows.

-- name: read_windows
SELECT start_windows.name, start_windows.seconds, start_windows.starts
FROM json_each(?1) AS wanted
CROSS JOIN start_windows
    ON start_windows.name = wanted.value ->> 0 AND start_windows.seconds = wanted.value ->> 1;

-- name: put_window
INSERT OR REPLACE INTO start_windows (name, seconds, starts, until)
VALUES (?, ?, ?, ?);

-- name: drop_windows
-- Deletes a few windows that no longer count anything: each start deletes more than it creates.
DELETE FROM start_windows
WHERE (name, seconds) IN (
    SELECT w.name, w.seconds
    FROM start_windows AS w
    WHERE w.until < ?1
    ORDER BY w.until
    LIMIT 10
);
