-- Start rates: windows, and the rates that were set.

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

-- name: put_start_rate
INSERT OR REPLACE INTO start_rates (per, seconds, most, set_by)
VALUES (?1, ?2, ?3, ?4);

-- name: drop_start_rate
DELETE FROM start_rates
WHERE per = ?1 AND seconds = ?2
RETURNING per;

-- name: read_start_rates
SELECT per, seconds, most, set_by
FROM start_rates
ORDER BY per, seconds;
