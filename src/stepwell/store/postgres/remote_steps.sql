-- Results of remote steps.

-- name: finish_remote
-- Locks the run's ticket ('' sorts first), then the step's; the fence is the lease of the step's ticket.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::float8, extract(EPOCH FROM clock_timestamp())::float8) AS now
),
k AS MATERIALIZED (
    SELECT t.path, t.lease, t.wakes
    FROM stepwell.tickets AS t
    WHERE t.run_id = $2
        AND t.path IN ('', $3)
    ORDER BY t.path
    FOR NO KEY UPDATE
),
mine AS MATERIALIZED (
    SELECT k.path
    FROM k
    WHERE k.path = $3
        AND k.lease = $4
),
gone AS (
    DELETE FROM stepwell.tickets AS t
    USING mine
    WHERE t.run_id = $2
        AND t.path = $3
),
put AS (
    INSERT INTO stepwell.inbox (run_id, key, n, kind, name, payload, at)
    SELECT $2, $5, k.wakes + 1, $6, $7, $8, clock.now
    FROM clock, mine, k
    WHERE k.path = ''
    ON CONFLICT (run_id, key) DO NOTHING
    RETURNING run_id
),
woken AS (
    UPDATE stepwell.tickets AS t
    SET wakes = t.wakes + 1,
        due_at = least(t.due_at, greatest(clock.now, t.not_before))
    FROM clock, put
    WHERE t.run_id = $2
        AND t.path = ''
)
SELECT EXISTS (SELECT FROM mine) AS is_mine;

-- name: drop_finished
-- Deletes the tickets of the results that were awaited. Locks the runs' tickets first ('' sorts first), then
-- the steps', in the order that all transactions use. Results are delivered under these locks.
WITH done AS MATERIALIZED (
    SELECT u.run_id, u.path, u.lease
    FROM unnest($1::text[], $2::text[], $3::text[]) AS u (run_id, path, lease)
),
k AS MATERIALIZED (
    SELECT t.run_id, t.path, t.lease
    FROM stepwell.tickets AS t
    WHERE (t.run_id, t.path) IN (SELECT run_id, path FROM done UNION SELECT run_id, '' FROM done)
    ORDER BY t.run_id, t.path
    FOR NO KEY UPDATE
)
DELETE FROM stepwell.tickets AS t
USING k
JOIN done ON done.run_id = k.run_id AND done.path = k.path AND done.lease = k.lease
WHERE t.run_id = k.run_id
    AND t.path = k.path
RETURNING t.run_id, t.path, t.lease;
