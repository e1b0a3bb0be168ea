-- Holding runs.

-- name: run_to_hold
-- The run's tickets are locked by an earlier statement. `waiting`: an earlier change is in the inbox and not in
-- the log yet.
SELECT
    coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now,
    EXISTS (SELECT FROM stepwell.inbox AS b WHERE b.run_id = $2 AND b.kind = $3) AS waiting;

-- name: mark_held
-- The run's ticket and those of its remote steps.
UPDATE stepwell.tickets
SET held = $2
WHERE run_id = $1;

-- name: append_unowned
-- The ticket is locked and nobody owns it, so the log may grow here.
WITH grown AS (
    UPDATE stepwell.tickets AS t
    SET head = t.head + 1,
        at = greatest($2::float8, t.at)
    WHERE t.run_id = $1
        AND t.path = ''
    RETURNING t.head, t.at
)
INSERT INTO stepwell.events (run_id, seq, kind, path, attempt, at, payload)
SELECT $1, grown.head, $3, '', 0, grown.at, $4
FROM grown;
