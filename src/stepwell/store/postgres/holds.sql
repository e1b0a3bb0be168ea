-- Holding runs, workflows, queues and workspaces.

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

-- name: put_hold
-- A release of what is not held changes nothing.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
)
INSERT INTO stepwell.holds AS h (kind, workspace, name, held, held_by, reason, at)
SELECT $2, $3, $4, $5::bool, $6, $7, clock.now
FROM clock
WHERE $5::bool
    OR EXISTS (SELECT FROM stepwell.holds AS x WHERE x.kind = $2 AND x.workspace = $3 AND x.name = $4)
ON CONFLICT (kind, workspace, name) DO UPDATE
SET held = excluded.held, held_by = excluded.held_by, reason = excluded.reason, at = excluded.at
WHERE h.held <> excluded.held
RETURNING h.kind;

-- name: list_holds
SELECT kind, workspace, name, held, held_by, reason, at
FROM stepwell.holds
WHERE workspace = $1
ORDER BY kind, name;

-- name: active_holds
SELECT kind, workspace, name, held, held_by, reason, at
FROM stepwell.holds
WHERE held;
