-- Start rates: windows, locked before the runs that they count are written; and the rates that were set.

-- name: lock_windows
-- Locks them in the order of the lists, which is the same for all callers.
SELECT w.name, w.seconds, w.starts
FROM unnest($1::text[], $2::float8[]) AS k (name, seconds)
CROSS JOIN LATERAL (
    SELECT x.name, x.seconds, x.starts
    FROM stepwell.start_windows AS x
    WHERE x.name = k.name
        AND x.seconds = k.seconds
    FOR UPDATE
) AS w;

-- name: make_windows
INSERT INTO stepwell.start_windows (name, seconds, starts, until)
SELECT k.name, k.seconds, '[]', 0
FROM unnest($1::text[], $2::float8[]) AS k (name, seconds)
ON CONFLICT (name, seconds) DO NOTHING;

-- name: window_time
-- Read after the locks were taken: starts that others counted are not later than this.
SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8);

-- name: put_windows
-- Also deletes a few windows that no longer count anything; locked ones still do.
WITH dropped AS (
    DELETE FROM stepwell.start_windows AS w
    USING (
        SELECT x.name, x.seconds
        FROM stepwell.start_windows AS x
        WHERE x.until < $5::float8
            AND x.name <> ALL ($1::text[])
        ORDER BY x.until
        LIMIT 10
        FOR UPDATE SKIP LOCKED
    ) AS old
    WHERE w.name = old.name
        AND w.seconds = old.seconds
)
UPDATE stepwell.start_windows AS w
SET starts = k.starts, until = k.until
FROM unnest($1::text[], $2::float8[], $3::text[], $4::float8[]) AS k (name, seconds, starts, until)
WHERE w.name = k.name
    AND w.seconds = k.seconds;

-- name: put_start_rate
INSERT INTO stepwell.start_rates (per, seconds, most, set_by)
VALUES ($1, $2, $3, $4)
ON CONFLICT (per, seconds) DO UPDATE
SET most = excluded.most, set_by = excluded.set_by;

-- name: drop_start_rate
DELETE FROM stepwell.start_rates
WHERE per = $1
    AND seconds = $2
RETURNING per;

-- name: read_start_rates
SELECT per, seconds, most, set_by
FROM stepwell.start_rates
ORDER BY per, seconds;
